#include "traces/summary.h"

#include "traces/annotations.h"

#include <string.h>

static void add_operators(struct summary *summary, const struct trace *trace)
{
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        summary->phases[op->phase].operators++;
        summary->phases[op->phase].duration_ns += op->duration_ns;
        summary->duration_ns += op->duration_ns;
        summary->flops += op->flops;
        summary->unknown_durations += op->duration_ns == 0;
        if (trace->non_model_bytes[m] > summary->non_model_peak_bytes) {
            summary->non_model_peak_bytes = trace->non_model_bytes[m];
            summary->non_model_peak_moment = m;
        }
    }
}

static void add_lists(struct summary *summary, const struct trace *trace)
{
    uint64_t elements = 0;
    for (uint32_t i = 0; i < trace->tensor_count; i++)
        elements += trace->tensors[i].elements;
    for (int list = 0; list < TRACE_LISTS; list++)
        summary->list_bytes[list] = elements * trace->list_element_bytes[list];
    summary->model_bytes = trace_model_bytes(trace);
}

/* Keeps the longest so far, in order. */
static void add_longest(struct summary *summary, const struct trace *trace, uint32_t moment)
{
    uint64_t duration_ns = trace->operators[moment].duration_ns;
    uint32_t place = summary->longest_count;
    while (place > 0 && trace->operators[summary->longest[place - 1]].duration_ns < duration_ns)
        place--;
    if (duration_ns == 0 || place == SUMMARY_LONGEST)
        return;
    if (summary->longest_count < SUMMARY_LONGEST)
        summary->longest_count++;
    for (uint32_t i = summary->longest_count - 1; i > place; i--)
        summary->longest[i] = summary->longest[i - 1];
    summary->longest[place] = moment;
}

bool summary_is_iteration(const struct records *records, const struct record *event)
{
    return event->type == RECORD_PUSH_POP && event->category == ANNOTATION_ITERATION &&
           strcmp(records_text(records, event->text), "iteration") == 0;
}

GArray *summary_iterations(const struct records *records)
{
    GArray *iterations = g_array_new(false, false, sizeof(struct summary_iteration));
    for (uint32_t i = 0; i < records->event_count; i++) {
        const struct record *event = &records->events[i];
        if (!summary_is_iteration(records, event))
            continue;
        struct summary_iteration iteration = {.step = event->payload,
                                              .duration_ns = event->end_ns - event->start_ns};
        g_array_append_val(iterations, iteration);
    }
    return iterations;
}

static void add_missing(struct summary *summary, const struct trace *trace)
{
    GPtrArray *missing = summary->missing;
    if (trace->partial)
        g_ptr_array_add(missing,
                        g_strdup("the end: the traced run ended within the recorded window"));
    if (trace->estimated)
        g_ptr_array_add(missing, g_strdup("measurements: durations were computed for a platform"));
    if (summary->unknown_durations > 0)
        g_ptr_array_add(missing,
                        g_strdup_printf("the durations of %u of %u operators",
                                        summary->unknown_durations, trace->operator_count));
    if (trace->buffer_count == 0)
        g_ptr_array_add(missing,
                        g_strdup("the lifetimes of non-model data: only its sums are known"));
    if (trace->tensor_count == 0)
        g_ptr_array_add(missing, g_strdup("tensors"));
    if (!trace->model)
        g_ptr_array_add(missing, g_strdup("the model's name"));
    if (!trace->precision)
        g_ptr_array_add(missing, g_strdup("the precision"));
}

struct summary *summary_new(const struct trace *trace, const struct records *records,
                            const struct activity *activity)
{
    struct summary *summary = g_new0(struct summary, 1);
    summary->iterations = summary_iterations(records);
    summary->missing = g_ptr_array_new_with_free_func(g_free);
    add_operators(summary, trace);
    add_lists(summary, trace);
    for (uint32_t m = 0; m < trace->operator_count; m++)
        add_longest(summary, trace, m);
    summary->activity = activity_summary_new(activity, records);
    add_missing(summary, trace);
    records_missing(records, summary->missing);
    activity_summary_missing(summary->activity, activity, summary->missing);
    return summary;
}

void summary_free(struct summary *summary)
{
    g_array_unref(summary->iterations);
    g_ptr_array_unref(summary->missing);
    activity_summary_free(summary->activity);
    g_free(summary);
}
