#include "collect/allocator.h"
#include "collect/launch.h"
#include "collect/window.h"
#include "collect/written.h"
#include "traces/output_file.h"

#include <glib/gstdio.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FAILED = 1, BAD_USAGE = 2 };

struct options {
    char *output, *iterations, *range, **command;
    gboolean visible_tensors, version;
};

static void read_options(int *argc, char ***argv, struct options *options)
{
    const GOptionEntry entries[] = {
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &options->output,
         "The trace (default run.pstar); %p in its name stands for the process's id, %r for its "
         "rank",
         "FILE.pstar"},
        {"iterations", 0, 0, G_OPTION_ARG_STRING, &options->iterations,
         "Record iterations A to B - 1, counted from 0 (default 1:2), or all of the run",
         "A:B|all"},
        {"range", 0, 0, G_OPTION_ARG_STRING, &options->range,
         "Iterations are the NVTX ranges of this name; * and ? stand for any text", "NAME"},
        {"visible-tensors", 0, 0, G_OPTION_ARG_NONE, &options->visible_tensors,
         "Switch PyTorch to the allocator that shows each tensor to CUPTI", NULL},
        {"version", 0, 0, G_OPTION_ARG_NONE, &options->version, "Print the version", NULL},
        {G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &options->command, NULL,
         "-- COMMAND ..."},
        {0},
    };
    GOptionContext *context = g_option_context_new(NULL);
    g_option_context_set_summary(
        context, "Runs COMMAND and records what it annotates with NVTX: tensors, operators,\n"
                 "accesses and buffers of the chosen iterations, with the operators' durations;\n"
                 "and what it does on CUDA devices: kernels, copies, allocations.\n"
                 "COMMAND's exit status is passed on; without a whole trace, 0 becomes 1.");
    g_option_context_set_strict_posix(context, TRUE);
    g_option_context_add_main_entries(context, entries, NULL);
    GError *error = NULL;
    if (!g_option_context_parse(context, argc, argv, &error)) {
        fprintf(stderr, "pstar-collect: %s\n", error->message);
        exit(BAD_USAGE);
    }
    g_option_context_free(context);
}

/* Ends as the command did. */
static int pass_on(int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none); /* the command has dumped its own */
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
    return 128 + WTERMSIG(status);
}

/* Whether there is a whole trace; says so where not. */
static bool is_whole(const char *output, int64_t launch_ns)
{
    g_autofree char *path = NULL;
    g_autoptr(GError) error = NULL;
    enum written written = written_since(output, launch_ns, &path, &error);
    if (written == WRITTEN_NOTHING)
        fprintf(stderr,
                "pstar-collect: %s was not written; without a reason above, the command makes no "
                "NVTX annotations, and uses no CUDA device\n",
                output);
    else if (written == WRITTEN_PARTIAL)
        fprintf(stderr, "pstar-collect: %s%s\n", error ? error->message : path,
                error ? "" : ": the trace is partial");
    return written == WRITTEN_WHOLE;
}

static int run(const struct options *options)
{
    const char *output = !options->output ? "run.pstar" : options->output;
    const char *iterations = !options->iterations ? "1:2" : options->iterations;
    struct window window;
    GError *error = NULL;
    int64_t launch_ns = window_launch_time();
    int status = -1;
    if (window_parse(iterations, &window, &error) && output_file_has_place(output, &error))
        status = launch(options->command, output, iterations, options->range, launch_ns, &error);
    if (error) {
        fprintf(stderr, "pstar-collect: %s\n", error->message);
        g_error_free(error);
        return BAD_USAGE;
    }
    if (!is_whole(output, launch_ns) && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return FAILED;
    return pass_on(status);
}

int main(int argc, char **argv)
{
    struct options options = {0};
    setlocale(LC_CTYPE, "");
    read_options(&argc, &argv, &options);
    int status = 0;
    if (options.version) {
        printf("pstar-collect %s\n", PSTAR_VERSION);
    } else if (!options.command) {
        fprintf(stderr,
                "pstar-collect: no command given: pstar-collect [OPTIONS] -- COMMAND ...\n");
        status = BAD_USAGE;
    } else {
        if (options.visible_tensors)
            allocator_show_tensors();
        status = run(&options);
    }
    g_free(options.output);
    g_free(options.iterations);
    g_free(options.range);
    g_strfreev(options.command);
    return status;
}
