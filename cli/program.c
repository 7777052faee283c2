#include "cli/program.h"

#include "chunks/plan.h"
#include "cli/completion.h"
#include "cli/manual.h"
#include "traces/failure.h"
#include "traces/size.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum exit_status exit_status_of(const GError *error)
{
    if (!error)
        return STATUS_DONE;
    if (g_error_matches(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT) ||
        g_error_matches(error, FAILURE, FAILURE_DOES_NOT_FIT))
        return STATUS_DOES_NOT_FIT;
    return g_error_matches(error, FAILURE, FAILURE_RUNNING) ? STATUS_FAILED : STATUS_BAD_INPUT;
}

static GOptionContext *context_of(const struct program *program)
{
    g_autofree char *purpose = program->purpose ? g_strconcat("- ", program->purpose, NULL) : NULL;
    GOptionContext *context = g_option_context_new(purpose);
    g_autoptr(GString) end = g_string_new(program->description);
    for (size_t i = 0; i < program->example_count; i++)
        g_string_append_printf(end, "%s  %s\n    %s\n",
                               i          ? ""
                               : end->len ? "\nExamples:\n"
                                          : "Examples:\n",
                               program->examples[i].what, program->examples[i].command);
    g_option_context_set_summary(context, program->summary);
    g_option_context_set_description(context, end->str);
    g_option_context_set_strict_posix(context, program->strict_posix);
    if (program->command) {
        g_autofree char *name = g_strconcat(program->name, " ", program->command, NULL);
        g_set_prgname(name); /* begins the line of usage */
    }
    return context;
}

/* A program whose output is lost has failed, even if all else went well. */
static int end_output(const struct console *console, int status)
{
    bool ok = !ferror(stdout);
    if ((fflush(stdout) == 0 && ok) || status != STATUS_DONE)
        return status;
    g_autofree char *message = g_strdup_printf("standard output: cannot be written: %s",
                                               g_strerror(errno));
    console_error(console, message);
    return STATUS_FAILED;
}

/* Results that files receive need no summary. */
static void silence_output(void)
{
    int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nothing < 0)
        return;
    fflush(stdout);
    dup2(nothing, STDOUT_FILENO);
    close(nothing);
}

/* ---- --verbose ---- */

static void tell_file(const struct console *console, const char *what, const char *path)
{
    struct stat status;
    bool known = stat(path, &status) == 0 && S_ISREG(status.st_mode);
    g_autofree char *size = known ? size_format((uint64_t)status.st_size) : NULL;
    if (g_str_has_prefix(path, "/dev/fd/"))
        console_detail(console, "%s standard output", what);
    else
        console_detail(console, "%s %s%s%s", what, path, size ? ", " : "", size ? size : "");
}

/* Tells of the files that the options name: those that are written, or the others. */
static void tell_files(const struct program *program, const struct console *console, bool written)
{
    const char *what = written ? "wrote" : "reads";
    for (size_t g = 0; g < program->group_count; g++)
        for (size_t i = 0; i < program->groups[g].count; i++) {
            const struct option *option = &program->groups[g].options[i];
            if (option->file && *option->file && option_writes(option) == written)
                tell_file(console, what, *option->file);
            char **files = !written && option->arguments && option->use != OPTION_RUNS
                               ? *option->arguments
                               : NULL;
            for (; files && *files; files++)
                tell_file(console, what, *files);
        }
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

static void tell_cost(const struct console *console, gint64 begun)
{
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used) != 0)
        return;
    g_autofree char *memory = size_format((uint64_t)used.ru_maxrss * 1024);
    console_detail(console, "took %.2f s, %.2f s of processor time, and %s of memory",
                   (double)(g_get_monotonic_time() - begun) * 1e-6,
                   seconds_of(used.ru_utime) + seconds_of(used.ru_stime), memory);
}

/* ---- main ---- */

#define ENOUGH_ADDRESS_SPACE (UINT64_C(256) << 20)

/* GLib ends a program that gets no memory with a signal, so the reason is told before. */
static void warn_of_little_memory(const struct console *console)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur >= ENOUGH_ADDRESS_SPACE)
        return;
    g_autofree char *size = size_format(limit.rlim_cur);
    console_warn(console,
                 "the address space is limited to %s (ulimit -v), which may be too little: a "
                 "program that gets no memory ends by a signal",
                 size);
}

static int run(const struct program *program, const struct console *console, GError **error)
{
    gint64 begun = g_get_monotonic_time();
    warn_of_little_memory(console);
    if (console->quiet && options_need_no_output(program->groups, program->group_count))
        silence_output();
    tell_files(program, console, false);
    int status = program->run(program->data, console, error);
    if (!*error && status == STATUS_DONE)
        tell_files(program, console, true);
    tell_cost(console, begun);
    return status;
}

int program_main(const struct program *program, int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    struct common_options common = {false, false, false};
    int status = STATUS_DONE;
    setlocale(LC_CTYPE, "");
    signal(SIGXFSZ, SIG_IGN); /* a file that grows too large is an error of its writer */
    if (argc > 1 && strcmp(argv[1], COMPLETION_ARGUMENT) == 0) {
        completion_print(program, argc - 2, argv + 2);
        return STATUS_DONE;
    }
    if (argc == 2 && strcmp(argv[1], MANUAL_ARGUMENT) == 0) {
        manual_print(program);
        return STATUS_DONE;
    }
    GOptionContext *context = context_of(program);
    bool ok = options_parse(context, program->groups, program->group_count, argc, argv, &common,
                            &error);
    const struct console console = {program->name, common.quiet, common.verbose};
    if (ok && common.version)
        printf("%s %s\n", program->name, PSTAR_VERSION);
    else if (ok && options_check_outputs(program->groups, program->group_count, &error))
        status = run(program, &console, &error);
    if (error) {
        console_error(&console, error->message);
        if (status <= STATUS_SIGNALLED)
            status = exit_status_of(error);
    }
    g_option_context_free(context);
    options_clear(program->groups, program->group_count);
    return end_output(&console, status);
}
