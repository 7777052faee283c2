/* pstar-trace: looks at traces, exports them, and synthesises them. */
#include "cli/pstar_trace.h"
#include "traces/export.h"
#include "traces/output_file.h"
#include "traces/summary.h"
#include "traces/trace_file.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

int pstar_trace_fail(int status, GError *error)
{
    fprintf(stderr, "pstar-trace: %s\n", error->message);
    g_error_free(error);
    return status;
}

int pstar_trace_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("pstar-trace: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return PSTAR_TRACE_BAD_INPUT;
}

bool pstar_trace_parse(int argc, char **argv, const char *command, const char *summary,
                       const GOptionEntry *entries)
{
    g_autofree char *name = g_strconcat("pstar-trace ", command, NULL);
    GOptionContext *context = g_option_context_new(NULL);
    g_set_prgname(name); /* begins the line of usage */
    g_option_context_set_summary(context, summary);
    g_option_context_add_main_entries(context, entries, NULL);
    GError *error = NULL;
    bool good = g_option_context_parse(context, &argc, &argv, &error);
    if (!good)
        pstar_trace_fail(PSTAR_TRACE_BAD_INPUT, error);
    g_option_context_free(context);
    return good;
}

/* The one file that a command takes; NULL, after a message, if there is none or several. */
static const char *only_file(char **files)
{
    if (files && files[0] && !files[1])
        return files[0];
    pstar_trace_usage("give one trace");
    return NULL;
}

void pstar_trace_print_json(json_t *json)
{
    json_dumpf(json, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(json);
}

static void print_summary(const struct trace *trace, const struct records *records,
                          const struct activity *activity, const char *path, gboolean as_json)
{
    struct summary *summary = summary_new(trace, records, activity);
    if (as_json)
        pstar_trace_print_json(summary_to_json(summary, trace, records, activity, path));
    else
        summary_print(summary, trace, records, path, stdout);
    summary_free(summary);
}

static int info_file(const char *path, gboolean as_json)
{
    GError *error = NULL;
    struct trace *trace = NULL;
    struct activity *activity = NULL;
    struct records *records = records_read(path, &error);
    if (records)
        activity = activity_read(
            path, ACTIVITY_SUMMARY_PARTS | (records->has_iteration ? 0 : ACTIVITY_CALLS), &error);
    if (activity && !records->has_iteration)
        pstar_trace_info_records(records, activity, path, as_json);
    else if (activity && (trace = trace_read(path, &error)))
        print_summary(trace, records, activity, path, as_json);
    trace_free(trace);
    activity_free(activity);
    records_free(records);
    return !error ? PSTAR_TRACE_DONE : pstar_trace_fail(PSTAR_TRACE_BAD_INPUT, error);
}

static int info(int argc, char **argv)
{
    gboolean as_json = FALSE;
    char **files = NULL;
    const GOptionEntry entries[] = {
        {"json", 0, 0, G_OPTION_ARG_NONE, &as_json, "Print one JSON object instead", NULL},
        {G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &files, NULL, "TRACE"},
        {0}};
    int status = PSTAR_TRACE_BAD_INPUT;
    if (pstar_trace_parse(argc, argv, "info",
                          "Prints what ran, the memory it takes, and where its time goes.",
                          entries)) {
        const char *path = only_file(files);
        status = !path ? PSTAR_TRACE_BAD_INPUT : info_file(path, as_json);
    }
    g_strfreev(files);
    return status;
}

static int check_file(const char *path)
{
    GError *error = NULL;
    if (!trace_verify(path, &error))
        return pstar_trace_fail(PSTAR_TRACE_BAD_INPUT, error);
    struct records *records = records_read(path, &error);
    if (records && !records->has_iteration)
        return pstar_trace_check_records(records, path);
    records_free(records);
    struct trace *trace = !error ? trace_read(path, &error) : NULL;
    if (!trace)
        return pstar_trace_fail(PSTAR_TRACE_BAD_INPUT, error);
    printf("%s: a valid%s trace of %u tensors, %u operators, %u accesses and %u buffers\n", path,
           trace->partial ? ", partial" : "", trace->tensor_count, trace->operator_count,
           trace->access_count, trace->buffer_count);
    trace_free(trace);
    return PSTAR_TRACE_DONE;
}

static int check(int argc, char **argv)
{
    char **files = NULL;
    const GOptionEntry entries[] = {
        {G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &files, NULL, "TRACE..."}, {0}};
    int status = PSTAR_TRACE_BAD_INPUT;
    if (pstar_trace_parse(argc, argv, "check",
                          "Reads traces whole and checks them. The status is 2 if one is damaged "
                          "or contradicts itself.",
                          entries)) {
        status = !files ? pstar_trace_usage("give a trace") : PSTAR_TRACE_DONE;
        for (char **file = files; file && *file; file++)
            if (check_file(*file) != PSTAR_TRACE_DONE)
                status = PSTAR_TRACE_BAD_INPUT;
    }
    g_strfreev(files);
    return status;
}

typedef void exporter(const struct trace *, const struct records *, FILE *);

static exporter *find_exporter(const char *format)
{
    if (!format || strcmp(format, "jsonl") == 0)
        return export_json_lines;
    return strcmp(format, "chrome") == 0 ? export_chrome : NULL;
}

static int export_to(const struct trace *trace, const struct records *records, exporter *write,
                     const char *path)
{
    struct output_file file;
    GError *error = NULL;
    if (output_file_open(&file, path, &error)) {
        write(trace, records, file.stream);
        output_file_close(&file, &error);
    }
    return error ? pstar_trace_fail(PSTAR_TRACE_FAILED, error) : PSTAR_TRACE_DONE;
}

static int export_file(const char *path, exporter *write, const char *output)
{
    GError *error = NULL;
    struct records *records = records_read(path, &error);
    struct trace *trace = NULL;
    if (records && records->has_iteration)
        trace = trace_read(path, &error);
    int status = PSTAR_TRACE_DONE;
    if (error) {
        status = pstar_trace_fail(PSTAR_TRACE_BAD_INPUT, error);
    } else if (output) {
        status = export_to(trace, records, write, output);
    } else {
        write(trace, records, stdout);
    }
    records_free(records);
    trace_free(trace);
    return status;
}

static int export(int argc, char **argv)
{
    char *format = NULL, *output = NULL, **files = NULL;
    const GOptionEntry entries[] = {
        {"format", 0, 0, G_OPTION_ARG_STRING, &format,
         "JSON lines (the default), or Chrome trace events, which Perfetto opens", "jsonl|chrome"},
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &output, "Default: standard output", "FILE"},
        {G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &files, NULL, "TRACE"},
        {0}};
    int status = PSTAR_TRACE_BAD_INPUT;
    if (pstar_trace_parse(argc, argv, "export", "Writes a trace for other tools.", entries)) {
        const char *path = only_file(files);
        if (!find_exporter(format))
            status = pstar_trace_usage("no format is called '%s': jsonl or chrome", format);
        else if (path)
            status = export_file(path, find_exporter(format), output);
    }
    g_free(format);
    g_free(output);
    g_strfreev(files);
    return status;
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {{"info", info},
                {"check", check},
                {"export", export},
                {"import", pstar_trace_import},
                {"synth", pstar_trace_synth}};

static const char help[] =
    "Usage: pstar-trace COMMAND [OPTIONS] ...\n\n"
    "  info TRACE       what ran, the memory it takes, where its time goes (--json)\n"
    "  check TRACE...   whether traces are whole and consistent\n"
    "  export TRACE     for other tools: --format jsonl|chrome, -o FILE\n"
    "  import FILE      from PyTorch's profiler, Chakra, Nsight Systems: -o TRACE\n"
    "  synth            a trace of a model that never ran, from its config: --model CONFIG\n"
    "                   --batch B --seq T --precision fp32|bf16 -o FILE\n\n"
    "pstar-trace COMMAND --help lists a command's options; --version prints the version.\n";

int main(int argc, char **argv)
{
    setlocale(LC_CTYPE, "");
    if (argc < 2) {
        fputs(help, stderr);
        return PSTAR_TRACE_BAD_INPUT;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        fputs(help, stdout);
        return PSTAR_TRACE_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("pstar-trace %s\n", PSTAR_VERSION);
        return PSTAR_TRACE_DONE;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++)
        if (strcmp(argv[1], commands[i].name) == 0) {
            argv[1] = argv[0];
            return output_end("pstar-trace", commands[i].run(argc - 1, argv + 1));
        }
    return pstar_trace_usage("no command is called '%s': info, check, export, import or synth",
                             argv[1]);
}
