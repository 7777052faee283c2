#include "models/retime.h"

#include "base/failure.h"
#include "models/derive.h"
#include "models/synth.h"
#include "traces/records.h"
#include "traces/trace_file.h"

#include <math.h>

/* The bytes that AdamW moves per element, in fp32: it reads gradient, parameter and both moments,
 * and writes all of them except the gradient. */
#define UPDATE_BYTES 28.0

double retime_host_seconds(const struct platform *platform, double elements, double bytes)
{
    return platform_update_seconds(platform, elements > 0 ? elements : bytes / UPDATE_BYTES);
}

/* Returns the elements that an update changes: of its states, or of its parameters where it has
 * none. */
static uint64_t updated_elements(const struct trace *trace, const struct trace_operator *op)
{
    uint64_t states = 0, parameters = 0;
    for (uint32_t i = op->first_access; i < op->first_access + op->access_count; i++) {
        const struct trace_access *access = &trace->accesses[i];
        if (access->list == TRACE_EXP_AVG)
            states += trace_block_elements(trace, TRACE_EXP_AVG, access->tensor, access->block);
        if (access->list == TRACE_PARAM)
            parameters += trace_list_elements(trace, TRACE_PARAM, access->tensor);
    }
    return states ? states : parameters;
}

/* Returns the seconds on the platform's device of the operations of matrix products and of all
 * bytes that pass over its memory. Where a framework's share of the rate is known, the two add up,
 * because these are the bytes of steps of their own. */
static double device_seconds(const struct platform *platform, enum model_precision precision,
                             double flops, double bytes)
{
    double memory = platform_seconds(&platform->memory, bytes), compute = 0;
    if (flops > 0)
        compute = platform_seconds(&platform->compute[precision], flops);
    return platform->framework.source ? memory + compute / platform->framework.products
                                      : fmax(memory, compute);
}

static double seconds_of(const struct trace *trace, const struct trace_operator *op,
                         const struct platform *platform, enum model_precision precision)
{
    bool updates = op->phase == TRACE_UPDATE_PHASE;
    double bytes = (double)op->bytes;
    double elements = updates ? (double)updated_elements(trace, op) : 0;
    if (op->place == TRACE_ON_HOST)
        return retime_host_seconds(platform, elements, bytes);
    return device_seconds(platform, precision, updates ? 0 : (double)op->flops, bytes);
}

/* Sets the durations of a trace whose operators have operations and bytes. Those of models that are
 * known have the times of a synthesis; their bytes stay those of the trace, whatever the precision
 * of the products. */
static void set_durations(struct trace *trace, const struct platform *platform,
                          enum model_precision precision)
{
    struct recognised *known = recognise(trace, NULL);
    if (known)
        known->iteration->job.precision = precision;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        struct trace_operator *op = &trace->operators[m];
        uint64_t ns = known ? model_operator_ns(known->iteration, m, platform)
                            : trace_duration_ns(seconds_of(trace, op, platform, precision),
                                                trace->operator_count);
        op->duration_ns = MAX(ns, 1);
    }
    recognised_free(known);
}

enum model_precision trace_products(const struct trace *trace)
{
    bool half = g_strcmp0(trace->precision, "bf16") == 0 ||
                g_strcmp0(trace->precision, "fp16") == 0;
    return half ? MODEL_BF16 : MODEL_FP32;
}

bool trace_can_be_retimed(const struct trace *trace)
{
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (trace->operators[m].flops > 0 || trace->operators[m].bytes > 0)
            return true;
    return false;
}

bool trace_retime(struct trace *trace, const struct platform *platform,
                  enum model_precision precision, GError **error)
{
    if (!trace_can_be_retimed(trace)) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                    "the trace has neither FLOPs nor bytes of its operators, as imports do: record "
                    "the loop with pstar-collect, on any machine, and retime that trace");
        return false;
    }
    set_durations(trace, platform, precision);
    g_free(trace->machine);
    trace->machine = g_strdup(platform->name);
    trace->estimated = true;
    return true;
}

static bool write_trace(const struct trace *trace, const char *unknown, const char *to,
                        double *seconds, GError **error)
{
    g_autofree uint64_t *durations_ns = g_new(uint64_t, trace->operator_count);
    uint64_t whole_ns = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        whole_ns += durations_ns[m] = trace->operators[m].duration_ns;
    struct record_file *file = record_file_new(to, trace, error);
    bool ok = file && (!unknown || record_file_note(file, "unknown", unknown, error)) &&
              record_file_complete(file, durations_ns, trace->operator_count, trace->partial,
                                   error);
    record_file_free(file);
    *seconds = (double)whole_ns * 1e-9;
    return ok || failure_mark(error, FAILURE_RUNNING);
}

/* Returns what the recording could not tell, without the line that it has no times. */
static char *still_unknown(const struct records *records)
{
    g_auto(GStrv) lines = g_strsplit(records->unknown ? records->unknown : "", "\n", -1);
    g_autoptr(GString) text = g_string_new(NULL);
    for (char **line = lines; *line; line++)
        if (**line && !g_str_has_prefix(*line, "times: "))
            g_string_append_printf(text, "%s%s", text->len ? "\n" : "", *line);
    return text->len ? g_string_free(g_steal_pointer(&text), FALSE) : NULL;
}

bool trace_retime_file(const char *from, const struct platform *platform,
                       const enum model_precision *precision, const char *to, double *seconds,
                       GError **error)
{
    struct trace *trace = trace_read(from, error);
    struct records *records = trace ? records_read(from, error) : NULL;
    bool ok = records != NULL;
    if (ok &&
        !trace_retime(trace, platform, precision ? *precision : trace_products(trace), error)) {
        g_prefix_error(error, "%s: ", from);
        ok = false;
    }
    if (ok) {
        g_autofree char *unknown = still_unknown(records);
        ok = write_trace(trace, unknown, to, seconds, error);
    }
    records_free(records);
    trace_free(trace);
    return ok;
}
