/* pstar-collect: runs a command and records what it annotates and what its CUDA devices do. */
#include "base/failure.h"
#include "base/output_file.h"
#include "cli/program.h"
#include "collect/launch.h"
#include "collect/window.h"
#include "traces/trace_file.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

struct collect_arguments {
    char *output, *iterations, *range, **command;
    bool visible_tensors;
};

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

/* ---- what the command left behind ---- */

/* Returns whether `name` is the name of a trace that `pattern` stands for, in which %p is any
 * process and %r any rank (collect/window.h). */
static bool is_output(const char *name, const char *pattern)
{
    bool number = pattern[0] == '%' && (pattern[1] == 'p' || pattern[1] == 'r');
    bool percent = pattern[0] == '%' && pattern[1] == '%';
    const char *rest = pattern + (number || percent ? 2 : 1);
    if (*pattern == '\0')
        return *name == '\0';
    if (!number)
        return *name == *pattern && is_output(name + 1, rest);
    for (; g_ascii_isdigit(*name); name++) /* digits may belong to what comes next */
        if (is_output(name + 1, rest))
            return true;
    return false;
}

enum written { WRITTEN_NOTHING, WRITTEN_PARTIAL, WRITTEN_WHOLE };

/* Looks at the traces that changed after `launch_ns`, a window_launch_time. They are whole only if
 * all of them are. *path, to free with g_free, is one that is partial or, with an error, cannot be
 * read. */
static enum written written_since(const char *output, int64_t launch_ns, char **path,
                                  GError **error)
{
    g_autofree char *folder = g_path_get_dirname(output);
    g_autofree char *pattern = g_path_get_basename(output);
    GDir *entries = g_dir_open(folder, 0, NULL);
    enum written written = WRITTEN_NOTHING;
    const char *name;
    while (entries && written != WRITTEN_PARTIAL && (name = g_dir_read_name(entries))) {
        g_autofree char *file = g_build_filename(folder, name, NULL);
        if (!is_output(name, pattern) || window_file_changed(file) <= launch_ns)
            continue;
        bool partial = true;
        bool known = trace_is_partial(file, &partial, error);
        written = known && !partial ? WRITTEN_WHOLE : WRITTEN_PARTIAL;
        if (written == WRITTEN_PARTIAL)
            *path = g_steal_pointer(&file);
    }
    g_clear_pointer(&entries, g_dir_close);
    return written;
}

/* Returns whether there is a whole trace, and says what is missing if there is not. */
static bool is_whole(const char *output, int64_t launch_ns, const struct console *console)
{
    g_autofree char *path = NULL;
    g_autoptr(GError) error = NULL;
    enum written written = written_since(output, launch_ns, &path, &error);
    if (written == WRITTEN_NOTHING)
        console_warn(console,
                     "%s was not written; if no reason is given above, the command makes no NVTX "
                     "annotations and uses no CUDA device",
                     output);
    else if (written == WRITTEN_PARTIAL)
        console_warn(console, "%s%s", error ? error->message : path,
                     error ? "" : ": the trace is partial");
    return written == WRITTEN_WHOLE;
}

static int run(void *data, const struct console *console, GError **error)
{
    const struct collect_arguments *a = data;
    const char *output = a->output ? a->output : "run.pstar";
    const char *iterations = a->iterations ? a->iterations : "1:2";
    int64_t launch_ns = window_launch_time();
    struct window window;
    if (!a->command)
        return options_refuse(error, "no command given: pstar-collect [OPTIONS] -- COMMAND ...");
    g_autofree char *note = a->visible_tensors ? allocator_show_tensors() : NULL;
    if (note)
        console_note(console, "%s", note);
    if (!window_parse(iterations, &window, error) || !output_file_has_place(output, error))
        return STATUS_BAD_INPUT;
    GError *problem = NULL;
    int status = launch(a->command, output, iterations, a->range, launch_ns, &problem);
    if (problem) {
        g_propagate_error(error, problem);
        return STATUS_BAD_INPUT;
    }
    if (!is_whole(output, launch_ns, console) && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return STATUS_FAILED;
    return pass_on(status);
}

int main(int argc, char **argv)
{
    struct collect_arguments a = {0};
    const struct option options[] = {
        {.shared = OPTION_OUTPUT,
         .file = &a.output,
         .use = OPTION_WRITES_FILE,
         .help = "default: run.pstar; %p in the name stands for the process's id, %r for its rank",
         .value = "FILE.pstar"},
        {.name = "iterations",
         .text = &a.iterations,
         .help = "Record iterations A to B - 1, counted from 0 (default 1:2), or the whole run",
         .value = "A:B|all"},
        {.name = "range",
         .text = &a.range,
         .help = "An iteration is an NVTX range of this name; * and ? stand for any text",
         .value = "NAME"},
        {.name = "visible-tensors",
         .flag = &a.visible_tensors,
         .help = "Switch PyTorch to the allocator that shows each tensor to CUPTI"},
        {.arguments = &a.command, .use = OPTION_RUNS, .value = "-- COMMAND ..."},
    };
    static const struct example examples[] = {
        {"Record the second iteration of a training.",
         "pstar-collect -o run.pstar -- pstar-run --model models/configs/demo-11m.json --data "
         "text.txt --seq 64 --steps 3"},
        {"Record every iteration from the third to the fifth, in a file for each process.",
         "pstar-collect --iterations 2:5 -o run-%p.pstar -- pstar-run --model "
         "models/configs/demo-11m.json --data text.txt --seq 64 --steps 6"},
    };
    const struct option_group group = {.options = options, .count = G_N_ELEMENTS(options)};
    const struct program program = {
        .name = "pstar-collect",
        .purpose = "record a training step of any program that is annotated with NVTX",
        .examples = examples,
        .example_count = G_N_ELEMENTS(examples),
        .summary =
            "Runs COMMAND and records what it annotates with NVTX: tensors, operators, accesses\n"
            "and buffers of the chosen iterations, with the operators' durations. Also records\n"
            "what it does on CUDA devices: kernels, copies, allocations. Ends with COMMAND's exit\n"
            "status, or with 1 if that is 0 and there is no whole trace.",
        .groups = &group,
        .group_count = 1,
        .strict_posix = true,
        .run = run,
        .data = &a};
    return program_main(&program, argc, argv);
}
