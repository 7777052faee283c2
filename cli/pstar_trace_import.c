/* The command import of pstar-trace. */
#include "base/failure.h"
#include "base/files.h"
#include "base/printable.h"
#include "cli/pstar_trace.h"
#include "traces/import/import.h"
#include "traces/trace_file.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

static const struct {
    const char *name;
    importer *import;
} formats[] = {{"kineto", import_kineto}, {"chakra", import_chakra}, {"nsys", import_nsys}};

static bool print_imported(const char *path, const GPtrArray *unknown, GError **error)
{
    struct records *records = records_read(path, error);
    struct trace *trace = NULL;
    bool ok = records && (!records->has_iteration || (trace = trace_read(path, error)));
    if (ok && !trace)
        text_print_line(stdout, "%s: %u ranges, no iteration", path, records->event_count);
    else if (ok)
        text_print_line(stdout, "%s: %u tensors, %u operators, %u accesses, %u buffers", path,
                        trace->tensor_count, trace->operator_count, trace->access_count,
                        trace->buffer_count);
    for (guint i = 0; ok && i < unknown->len; i++)
        text_print_line(stdout, "%-10s %s", i == 0 ? "unknown:" : "",
                        (char *)g_ptr_array_index(unknown, i));
    records_free(records);
    trace_free(trace);
    return ok || failure_mark(error, FAILURE_RUNNING);
}

/* `times` may be NULL. */
static bool import_file(const char *from, const char *times, const char *to, importer *import,
                        GError **error)
{
    g_autoptr(GPtrArray) unknown = g_ptr_array_new_with_free_func(g_free);
    bool ok = times ? import_chakra_timed(from, times, to, unknown, error)
                    : import(from, to, unknown, error);
    return ok && print_imported(to, unknown, error);
}

static importer *find_format(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(formats); i++)
        if (strcmp(formats[i].name, name) == 0)
            return formats[i].import;
    return NULL;
}

/* Tells the format from the beginning of the file. The importer reports what cannot be read. */
static const char *guess_format(const char *path)
{
    char begin[256] = {0};
    GError *error = NULL;
    gzFile file = input_file_check(path, &error) ? gzopen(path, "rbe") : NULL;
    g_clear_error(&error);
    if (file) {
        gzread(file, begin, sizeof begin - 1); /* what is missing is zeros */
        gzclose(file);
    }
    if (g_str_has_prefix(begin, "SQLite format 3"))
        return "nsys";
    return strstr(begin, "-chakra.") ? "chakra" : "kineto";
}

struct import_arguments {
    char *format, *times, *output, **files;
};

static int run(void *data, G_GNUC_UNUSED const struct console *console, GError **error)
{
    const struct import_arguments *a = data;
    if (a->format && !find_format(a->format))
        return options_refuse(error, "--format %s: must be one of kineto, chakra, nsys", a->format);
    if (!a->files || a->files[1])
        return options_refuse(error, "one FILE is needed");
    if (!a->output)
        return options_refuse(error, "-o TRACE is needed");
    const char *format = a->format ? a->format : guess_format(a->files[0]);
    if (a->times && strcmp(format, "chakra") != 0)
        return options_refuse(error, "--times goes with execution traces only: other files have "
                                     "their own times");
    import_file(a->files[0], a->times, a->output, find_format(format), error);
    return STATUS_DONE;
}

int pstar_trace_import(int argc, char **argv)
{
    struct import_arguments a = {0};
    const struct option options[] = {
        {.name = "format",
         .text = &a.format,
         .help = "JSON of PyTorch's profiler, JSON of execution traces, or SQLite export of Nsight "
                 "Systems; default: as the file begins",
         .value = "kineto|chakra|nsys"},
        {.name = "times",
         .file = &a.times,
         .help = "With an execution trace: the profiler's JSON of the same run, for its times",
         .value = "FILE"},
        {.shared = OPTION_OUTPUT, .file = &a.output, .use = OPTION_WRITES_FILE, .value = "TRACE"},
        {.arguments = &a.files, .value = "FILE"},
    };
    return pstar_trace_command(
        "import",
        "Makes a trace from what another tool has recorded, and prints what "
        "the recording leaves unknown.",
        &(struct example){"Read a file of PyTorch's profiler.",
                          "pstar-trace import profile.json -o profile.pstar"},
        options, G_N_ELEMENTS(options), run, &a, argc, argv);
}
