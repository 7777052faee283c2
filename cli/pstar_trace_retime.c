/* pstar-trace retime: a trace's times for another machine. */
#include "cli/pstar_trace.h"
#include "models/retime.h"
#include "traces/failure.h"
#include "traces/printable.h"
#include "traces/records.h"
#include "traces/summary.h"
#include "traces/trace_file.h"

#include <stdio.h>

enum { NO_PRECISION = UINT8_MAX };

struct retime_arguments {
    char *platform, *output, **files;
    uint8_t precision; /* enum model_precision, or NO_PRECISION */
    bool lists_platforms;
};

/* Writes the trace with what its recording could not tell, which stays unknown. */
static bool write_trace(const struct trace *trace, const char *unknown, const char *output,
                        GError **error)
{
    g_autofree uint64_t *durations_ns = g_new(uint64_t, trace->operator_count);
    uint64_t whole_ns = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        whole_ns += durations_ns[m] = trace->operators[m].duration_ns;
    struct record_file *file = record_file_new(output, trace, error);
    bool ok = file && (!unknown || record_file_note(file, "unknown", unknown, error)) &&
              record_file_complete(file, durations_ns, trace->operator_count, trace->partial,
                                   error);
    record_file_free(file);
    if (!ok)
        return failure_mark(error, FAILURE_RUNNING);
    g_autofree char *time = summary_format_time(whole_ns);
    text_print_line(stdout, "%s: all operators take %s on %s", output, time, trace->machine);
    return true;
}

static bool retime(const struct retime_arguments *a, const char *path,
                   const struct platform *platform, GError **error)
{
    struct trace *trace = trace_read(path, error);
    struct records *records = trace ? records_read(path, error) : NULL;
    bool ok = records != NULL;
    if (ok) {
        enum model_precision precision = a->precision == NO_PRECISION
                                             ? trace_products(trace)
                                             : (enum model_precision)a->precision;
        ok = trace_retime(trace, platform, precision, error);
        if (!ok)
            g_prefix_error(error, "%s: ", path);
    }
    ok = ok && write_trace(trace, records->unknown, a->output, error);
    records_free(records);
    trace_free(trace);
    return ok;
}

static int run(void *data, G_GNUC_UNUSED const struct console *console, GError **error)
{
    const struct retime_arguments *a = data;
    if (!a->files || a->files[1] || !a->platform || !a->output)
        return options_refuse(error, "retime needs one TRACE, --platform FILE and -o FILE");
    struct platform *platform = platform_read(a->platform, error);
    if (platform)
        retime(a, a->files[0], platform, error);
    platform_free(platform);
    return STATUS_DONE;
}

int pstar_trace_retime(int argc, char **argv)
{
    struct retime_arguments a = {.precision = NO_PRECISION};
    const struct option options[] = {
        {.shared = OPTION_PLATFORM, .file = &a.platform, .help = "operators get its times"},
        {.shared = OPTION_PRECISION,
         .choice = &a.precision,
         .help =
             "of matrix products; default: the trace's. A loop under autocast has parameters in "
             "fp32 and products in bf16"},
        {.shared = OPTION_LIST_PLATFORMS, .flag = &a.lists_platforms, .use = OPTION_PRINTS},
        {.shared = OPTION_OUTPUT,
         .file = &a.output,
         .use = OPTION_WRITES_FILE,
         .value = "FILE.pstar"},
        {.arguments = &a.files, .value = "TRACE"},
    };
    return pstar_trace_command(
        "retime",
        "Writes a trace with the times that its operators take on another machine, by the "
        "operations and bytes that the trace holds.",
        &(struct example){"Ask what a step that was recorded here takes on a GPU.",
                          "pstar-trace retime run.pstar --platform rtx-4090 -o there.pstar"},
        options, G_N_ELEMENTS(options), run, &a, argc, argv);
}
