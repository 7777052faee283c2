/* The command import of pstar-trace. */
#include "cli/pstar_trace.h"
#include "traces/files.h"
#include "traces/import/import.h"
#include "traces/trace_file.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

static const struct {
    const char *name;
    importer *import;
} formats[] = {{"kineto", import_kineto}, {"chakra", import_chakra}, {"nsys", import_nsys}};

static int report(const char *path, const GPtrArray *unknown)
{
    GError *error = NULL;
    struct records *records = records_read(path, &error);
    struct trace *trace = records && records->has_iteration ? trace_read(path, &error) : NULL;
    if (!error && !trace)
        printf("%s: %u ranges, no iteration\n", path, records->event_count);
    else if (!error)
        printf("%s: %u tensors, %u operators, %u accesses, %u buffers\n", path, trace->tensor_count,
               trace->operator_count, trace->access_count, trace->buffer_count);
    for (guint i = 0; !error && i < unknown->len; i++)
        printf("%-10s %s\n", i == 0 ? "unknown:" : "", (char *)g_ptr_array_index(unknown, i));
    records_free(records);
    trace_free(trace);
    return !error ? PSTAR_TRACE_DONE : pstar_trace_fail(PSTAR_TRACE_FAILED, error);
}

/* `times` NULL: a file alone. */
static int import_file(const char *from, const char *times, const char *to, importer *import)
{
    GError *error = NULL;
    g_autoptr(GPtrArray) unknown = g_ptr_array_new_with_free_func(g_free);
    if (!times ? !import(from, to, unknown, &error)
               : !import_chakra_timed(from, times, to, unknown, &error))
        return pstar_trace_fail(PSTAR_TRACE_BAD_INPUT, error);
    return report(to, unknown);
}

static importer *find_format(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(formats); i++)
        if (strcmp(formats[i].name, name) == 0)
            return formats[i].import;
    return NULL;
}

/* By the file's beginning; what cannot be read is left to the importer. */
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

static const char *name_of(const char *format, const char *path)
{
    return format ? format : guess_format(path);
}

int pstar_trace_import(int argc, char **argv)
{
    char *format = NULL, *times = NULL, *output = NULL, **files = NULL;
    const GOptionEntry entries[] = {
        {"format", 0, 0, G_OPTION_ARG_STRING, &format,
         "JSON of PyTorch's profiler, JSON of execution traces, SQLite export of Nsight Systems "
         "(default: as the file begins)",
         "kineto|chakra|nsys"},
        {"times", 0, 0, G_OPTION_ARG_FILENAME, &times,
         "With an execution trace: the profiler's JSON of the same run, which has its times",
         "FILE"},
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &output, "The trace to write", "TRACE"},
        {G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &files, NULL, "FILE"},
        {0}};
    int status = PSTAR_TRACE_BAD_INPUT;
    if (pstar_trace_parse(argc, argv, "import",
                          "Makes a trace of what another tool has recorded, and says what it "
                          "could not know.",
                          entries)) {
        if (format && !find_format(format))
            status = pstar_trace_usage("no format is called '%s': kineto, chakra or nsys", format);
        else if (!files || files[1])
            status = pstar_trace_usage("give one file");
        else if (!output)
            status = pstar_trace_usage("give the trace to write: -o TRACE");
        else if (times && strcmp(name_of(format, files[0]), "chakra") != 0)
            status = pstar_trace_usage("--times is for execution traces alone: others have theirs");
        else
            status = import_file(files[0], times, output, find_format(name_of(format, files[0])));
    }
    g_free(format);
    g_free(times);
    g_free(output);
    g_strfreev(files);
    return status;
}
