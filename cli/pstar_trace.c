/* pstar-trace: looks at traces, exports them, and synthesises them. */
#include "cli/pstar_trace.h"

#include "base/failure.h"
#include "base/output_file.h"
#include "base/printable.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "traces/export.h"
#include "traces/summary.h"
#include "traces/trace_file.h"

#include <string.h>

/* A command, and the file that it is to write; `output` may be NULL. */
struct command_run {
    program_run *run;
    void *data;
    char **output;
};

/* What a signal ends leaves no unfinished file. */
static int run_command(void *data, const struct console *console, GError **error)
{
    const struct command_run *command = data;
    bool writes = command->output && *command->output;
    struct progress *progress = writes ? progress_begin_output(console, *command->output) : NULL;
    int status = command->run(command->data, console, error);
    progress_end(progress);
    return status;
}

int pstar_trace_command(const char *command, const char *summary, const struct example *example,
                        const struct option *options, size_t option_count, program_run *run,
                        void *data, int argc, char **argv)
{
    const struct option_group group = {.options = options, .count = option_count};
    struct command_run command_run = {.run = run, .data = data};
    for (size_t i = 0; i < option_count; i++)
        if (options[i].shared == OPTION_OUTPUT)
            command_run.output = options[i].file;
    const struct program program = {.name = "pstar-trace",
                                    .command = command,
                                    .summary = summary,
                                    .examples = example,
                                    .example_count = 1,
                                    .groups = &group,
                                    .group_count = 1,
                                    .run = run_command,
                                    .data = &command_run};
    return program_main(&program, argc, argv);
}

void pstar_trace_print_json(json_t *json)
{
    json_dumpf(json, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(json);
}

/* Returns the one file that a command takes, or NULL and an error. */
static const char *only_file(char **files, GError **error)
{
    if (files && files[0] && !files[1])
        return files[0];
    options_refuse(error, "one TRACE is needed");
    return NULL;
}

/* ---- info ---- */

static void print_summary(const struct trace *trace, const struct records *records,
                          const struct activity *activity, const char *path, bool as_json)
{
    struct summary *summary = summary_new(trace, records, activity);
    if (as_json)
        pstar_trace_print_json(summary_to_json(summary, trace, records, activity, path));
    else
        summary_print(summary, trace, records, path, stdout);
    summary_free(summary);
}

struct info_arguments {
    bool json;
    char **files;
};

static int run_info(void *data, G_GNUC_UNUSED const struct console *console, GError **error)
{
    const struct info_arguments *a = data;
    const char *path = only_file(a->files, error);
    struct trace *trace = NULL;
    struct activity *activity = NULL;
    struct records *records = path ? records_read(path, error) : NULL;
    if (records)
        activity = activity_read(
            path, ACTIVITY_SUMMARY_PARTS | (records->has_iteration ? 0 : ACTIVITY_CALLS), error);
    if (activity && !records->has_iteration)
        pstar_trace_info_records(records, activity, path, a->json);
    else if (activity && (trace = trace_read(path, error)))
        print_summary(trace, records, activity, path, a->json);
    trace_free(trace);
    activity_free(activity);
    records_free(records);
    return STATUS_DONE;
}

static int info(int argc, char **argv)
{
    struct info_arguments a = {0};
    const struct option options[] = {
        {.shared = OPTION_JSON,
         .flag = &a.json,
         .use = OPTION_PRINTS,
         .help = "to standard output, as one object"},
        {.arguments = &a.files, .value = "TRACE"},
    };
    return pstar_trace_command(
        "info", "Prints what ran, the memory it takes, and where its time goes.",
        &(struct example){"Look at a recorded step.", "pstar-trace info run.pstar"}, options,
        G_N_ELEMENTS(options), run_info, &a, argc, argv);
}

/* ---- check ---- */

static bool check_file(const char *path, GError **error)
{
    struct records *records = trace_verify(path, error) ? records_read(path, error) : NULL;
    struct trace *trace = NULL;
    bool ok = false;
    if (records && !records->has_iteration)
        ok = pstar_trace_check_records(records, path, error);
    else if (records && (trace = trace_read(path, error))) {
        text_print_line(
            stdout, "%s: a valid%s trace of %u tensors, %u operators, %u accesses and %u buffers",
            path, trace->partial ? ", partial" : "", trace->tensor_count, trace->operator_count,
            trace->access_count, trace->buffer_count);
        ok = true;
    }
    trace_free(trace);
    records_free(records);
    return ok;
}

/* Checks all files, whatever is wrong with the ones before. */
static int run_check(void *data, const struct console *console, GError **error)
{
    char ***files = data;
    int status = STATUS_DONE;
    if (!*files)
        return options_refuse(error, "at least one TRACE is needed");
    for (char **file = *files; *file; file++) {
        g_autoptr(GError) problem = NULL;
        if (check_file(*file, &problem))
            continue;
        console_error(console, problem->message);
        status = STATUS_BAD_INPUT;
    }
    return status;
}

static int check(int argc, char **argv)
{
    char **files = NULL;
    const struct option options[] = {
        {.arguments = &files, .use = OPTION_CHECKS, .value = "TRACE..."}};
    return pstar_trace_command("check",
                               "Reads whole traces and checks them. Ends with status 2 if one is "
                               "damaged or contradicts itself.",
                               &(struct example){"Check a trace.", "pstar-trace check run.pstar"},
                               options, G_N_ELEMENTS(options), run_check, &files, argc, argv);
}

/* ---- export ---- */

struct export_arguments {
    uint8_t format; /* place in exporters */
    char *output, **files;
};

static void (*const exporters[])(const struct trace *, const struct records *,
                                 FILE *) = {export_json_lines, export_chrome};

static bool export_to(const struct trace *trace, const struct records *records,
                      const struct export_arguments *a, GError **error)
{
    struct output_file file;
    if (!a->output) {
        exporters[a->format](trace, records, stdout);
        return true;
    }
    if (!output_file_open(&file, a->output, error))
        return failure_mark(error, FAILURE_RUNNING);
    exporters[a->format](trace, records, file.stream);
    return output_file_close(&file, error) || failure_mark(error, FAILURE_RUNNING);
}

static int run_export(void *data, G_GNUC_UNUSED const struct console *console, GError **error)
{
    const struct export_arguments *a = data;
    const char *path = only_file(a->files, error);
    struct records *records = path ? records_read(path, error) : NULL;
    struct trace *trace = NULL;
    if (records && (!records->has_iteration || (trace = trace_read(path, error))))
        export_to(trace, records, a, error);
    records_free(records);
    trace_free(trace);
    return STATUS_DONE;
}

static int export(int argc, char **argv)
{
    struct export_arguments a = {0};
    const struct option options[] = {
        {.name = "format",
         .choice = &a.format,
         .help = "JSON lines (default), or Chrome trace events, which Perfetto opens",
         .value = "jsonl|chrome"},
        {.shared = OPTION_OUTPUT,
         .file = &a.output,
         .use = OPTION_WRITES,
         .help = "default: standard output"},
        {.arguments = &a.files, .value = "TRACE"},
    };
    return pstar_trace_command(
        "export", "Writes a trace for other tools.",
        &(struct example){"Write a trace that chrome://tracing and Perfetto open.",
                          "pstar-trace export run.pstar --format chrome -o run.json"},
        options, G_N_ELEMENTS(options), run_export, &a, argc, argv);
}

/* ---- the program ---- */

int main(int argc, char **argv)
{
    static const struct command commands[] = {
        {"info", "TRACE", "print what ran, the memory it takes, where its time goes", info},
        {"check", "TRACE...", "check whether traces are whole and consistent", check},
        {"export", "TRACE", "write a trace for other tools", export},
        {"import", "FILE", "read a recording of PyTorch, Chakra or Nsight Systems",
         pstar_trace_import},
        {"merge", "TRACE...", "make one trace of those of all ranks", pstar_trace_merge},
        {"retime", "TRACE", "write a trace with the times of another machine", pstar_trace_retime},
        {"synth", "", "write the trace of a model that never ran", pstar_trace_synth},
    };
    const struct command_set set = {
        .name = "pstar-trace",
        .purpose = "show, check, import, export and synthesise traces",
        .description = "A trace says what one training step did, operator by operator. "
                       "pstar-collect records traces.",
        .commands = commands,
        .count = G_N_ELEMENTS(commands)};
    return commands_main(&set, argc, argv);
}
