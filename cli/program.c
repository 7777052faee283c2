#include "cli/program.h"

#include "base/failure.h"
#include "base/fault.h"
#include "base/output_file.h"
#include "base/process_limits.h"
#include "base/size.h"
#include "chunks/plan.h"
#include "cli/completion.h"
#include "cli/manual.h"
#include "cli/platforms.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

/* Returns whether standard output is a pipe whose reader has gone. */
static bool has_no_reader(void)
{
    struct pollfd output = {.fd = STDOUT_FILENO};
    return poll(&output, 1, 0) == 1 && output.revents & POLLERR;
}

/* Runs at exit. A program whose output is lost has failed, even if all else went well. If its
 * reader has gone, it ends as others do: by SIGPIPE, without a word. */
static void check_output(int status, void *name)
{
    const struct console console = {.program = name};
    errno = 0;
    bool ok = fflush(stdout) == 0 && !ferror(stdout);
    if (ok || status != STATUS_DONE)
        return;
    if (has_no_reader()) {
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    g_autofree char *message = g_strdup_printf("standard output: cannot be written%s%s",
                                               errno ? ": " : "", errno ? g_strerror(errno) : "");
    console_error(&console, message);
    _exit(STATUS_FAILED);
}

void program_check_output(const char *name)
{
    on_exit(check_output, (void *)name); /* GLib prints help and exits by itself */
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
    console_detail(console, "%s %s%s%s", what, output_file_name(path), size ? ", " : "",
                   size ? size : "");
}

/* Tells of the files that the options name: those that are written, or the others. */
static void tell_files(const struct program *program, const struct console *console, bool written)
{
    const char *what = written ? "wrote" : "reads";
    for (size_t g = 0; g < program->group_count; g++)
        for (size_t i = 0; i < program->groups[g].count; i++) {
            const struct option *option = &program->groups[g].options[i];
            if (option->file && *option->file && option->use != OPTION_USES &&
                option_writes(option) == written)
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

/* Every program needs some addresses, and threads with heaps of their own reserve many. */
#define LEAST_ADDRESSES    (UINT64_C(24) << 20)
#define ADDRESSES_OF_HEAPS (UINT64_C(4) << 30)

static void name_limit(const char *what, const char *option, uint64_t limit)
{
    if (limit != UINT64_MAX)
        fprintf(stderr, "; the %s limited to %" G_GUINT64_FORMAT " MiB (ulimit %s)", what,
                limit >> 20, option);
}

/* GLib ends a program that gets no memory, or no thread, by a signal, and says before which one. As
 * no memory is left, nothing here may allocate any. */
static void end_without_memory(G_GNUC_UNUSED const char *domain, G_GNUC_UNUSED GLogLevelFlags level,
                               const char *message, void *name)
{
    const char *request = strstr(message, "failed to allocate"); /* after a line of GLib's source */
    message = request && g_str_has_prefix(message, "../") ? request : message;
    fprintf(stderr, "%s: the system refuses memory: %s", (const char *)name, message);
    name_limit("address space is", "-v", process_limit(RLIMIT_AS));
    name_limit("data are", "-d", process_limit(RLIMIT_DATA));
    fputs("\n", stderr);
    _exit(STATUS_DOES_NOT_FIT);
}

/* C++'s library, which oneDNN brings into some programs. Elsewhere these are NULL. */
void (*_ZSt13set_terminatePFvvE(void (*handler)(void)))(void) __attribute__((weak));
const void *__cxa_current_exception_type(void) __attribute__((weak));

/* An exception that nothing catches ends the program: oneDNN's, when it gets no memory. The name of
 * an exception's type follows the address of its functions. */
static void end_by_exception(void)
{
    const void *type = __cxa_current_exception_type();
    const char *name = type ? ((const char *const *)type)[1] : "";
    if (strcmp(name, "St9bad_alloc") != 0)
        abort();
    end_without_memory(NULL, G_LOG_LEVEL_ERROR, "a C++ library failed to allocate memory",
                       program_invocation_short_name);
}

static void expect_no_memory(const char *name)
{
    json_set_alloc_funcs(g_malloc, g_free); /* Jansson would crash without memory */
    if (_ZSt13set_terminatePFvvE && __cxa_current_exception_type)
        _ZSt13set_terminatePFvvE(end_by_exception);
    static const char *const domains[] = {"GLib", FAILURE_MEMORY_DOMAIN};
    for (size_t i = 0; i < G_N_ELEMENTS(domains); i++)
        g_log_set_handler(
            domains[i],
            (GLogLevelFlags)(G_LOG_LEVEL_ERROR | G_LOG_FLAG_FATAL | G_LOG_FLAG_RECURSION),
            end_without_memory, (void *)name);
    if (process_limit(RLIMIT_AS) < ADDRESSES_OF_HEAPS)
        mallopt(M_ARENA_MAX, 1);
}

/* Returns false if so few addresses are left that not even an error could be reported later. */
static bool has_addresses(GError **error)
{
    uint64_t limit = process_limit(RLIMIT_AS);
    if (limit == UINT64_MAX)
        return true;
    void *room = mmap(NULL, LEAST_ADDRESSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room != MAP_FAILED) {
        munmap(room, LEAST_ADDRESSES);
        return true;
    }
    g_autofree char *size = size_format(limit), *least = size_format(LEAST_ADDRESSES);
    g_set_error(error, FAILURE, FAILURE_DOES_NOT_FIT,
                "the address space is limited to %s (ulimit -v), which leaves less than %s for the "
                "work",
                size, least);
    return false;
}

static int run(const struct program *program, const struct console *console, GError **error)
{
    gint64 begun = g_get_monotonic_time();
    if (console->quiet && options_need_no_output(program->groups, program->group_count))
        silence_output();
    tell_files(program, console, false);
    int status = program->run(program->data, console, error);
    if (!*error && status == STATUS_DONE)
        tell_files(program, console, true);
    tell_cost(console, begun);
    return status;
}

/* Returns whether --list-platforms was given. */
static bool lists_platforms(const struct program *program)
{
    for (size_t g = 0; g < program->group_count; g++)
        for (size_t i = 0; i < program->groups[g].count; i++) {
            const struct option *option = &program->groups[g].options[i];
            if (option->shared == OPTION_LIST_PLATFORMS && *option->flag)
                return true;
        }
    return false;
}

/* A file that is opened later must not become standard output because that was closed. Writing to
 * what is opened here fails as it would. */
static void hold_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
            return;
}

/* Nothing that a program writes may be changed by everybody, whatever the umask. A program that
 * only starts the user's command leaves that command's alone. */
static void keep_from_others(const struct program *program)
{
    if (!program->strict_posix)
        umask(umask(0) | S_IWOTH);
}

/* SIGUSR1 asks how far the work is. It waits until a progress answers (progress.h), and must not
 * end the program before the work begins, or when it has ended. A program that only starts the
 * user's command hands it on. */
static void let_questions_wait(const struct program *program)
{
    sigset_t questions;
    sigemptyset(&questions);
    sigaddset(&questions, SIGUSR1);
    if (!program->strict_posix)
        sigprocmask(SIG_BLOCK, &questions, NULL);
}

int program_main(const struct program *program, int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    struct common_options common = {false, false, false};
    int status = STATUS_DONE;
    hold_standard_streams();
    keep_from_others(program);
    let_questions_wait(program);
    program_check_output(program->name);
    expect_no_memory(program->name);
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
    else if (ok && lists_platforms(program))
        platforms_print(stdout, &error);
    else if (ok && fault_set_from_environment(&error) && has_addresses(&error) &&
             options_check_outputs(program->groups, program->group_count, &error))
        status = run(program, &console, &error);
    else if (program->refuse)
        status = program->refuse(program->data, &console, &error);
    if (error) {
        console_error(&console, error->message);
        if (status <= STATUS_SIGNALLED)
            status = exit_status_of(error);
    }
    g_option_context_free(context);
    options_clear(program->groups, program->group_count);
    return status;
}
