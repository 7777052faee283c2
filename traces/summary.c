#include "traces/summary.h"

#include "base/printable.h"
#include "base/size.h"
#include "traces/annotations.h"
#include "traces/choices.h"

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
    for (int list = 0; list < TRACE_LISTS; list++)
        for (uint32_t t = 0; t < trace->tensor_count; t++)
            summary->list_bytes[list] += trace_list_bytes(trace, list, t);
    summary->model_bytes = trace_model_bytes(trace);
}

/* Inserts the moment if it is among the longest so far. */
static void add_longest(struct summary *summary, const struct trace *trace, moment_id moment)
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

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static json_t *lists_json(const struct summary *summary, const struct trace *trace)
{
    json_t *lists = json_array();
    for (int list = 0; list < TRACE_LISTS; list++)
        if (trace->list_element_bytes[list] > 0)
            json_array_append_new(lists, json_pack("{s:s, s:i, s:I}", "list",
                                                   trace_list_name((enum trace_list)list),
                                                   "element_bytes", trace->list_element_bytes[list],
                                                   "bytes", (json_int_t)summary->list_bytes[list]));
    return lists;
}

static json_t *phases_json(const struct summary *summary)
{
    json_t *phases = json_array();
    for (int phase = TRACE_FORWARD; phase <= TRACE_UPDATE_PHASE; phase++)
        json_array_append_new(
            phases, json_pack("{s:s, s:I, s:f}", "phase", trace_phase_name((enum trace_phase)phase),
                              "operators", (json_int_t)summary->phases[phase].operators, "seconds",
                              seconds(summary->phases[phase].duration_ns)));
    return phases;
}

static json_t *longest_json(const struct summary *summary, const struct trace *trace)
{
    json_t *longest = json_array();
    for (uint32_t i = 0; i < summary->longest_count; i++) {
        const struct trace_operator *op = &trace->operators[summary->longest[i]];
        json_array_append_new(longest, json_pack("{s:I, s:s, s:f}", "moment",
                                                 (json_int_t)summary->longest[i], "operator",
                                                 op->name, "seconds", seconds(op->duration_ns)));
    }
    return longest;
}

json_t *summary_iterations_json(const GArray *iterations)
{
    json_t *list = json_array();
    for (guint i = 0; i < iterations->len; i++) {
        const struct summary_iteration *iteration = &g_array_index(iterations,
                                                                   struct summary_iteration, i);
        json_array_append_new(list, json_pack("{s:I, s:f}", "step", (json_int_t)iteration->step,
                                              "seconds", seconds(iteration->duration_ns)));
    }
    return list;
}

static json_t *missing_json(const struct summary *summary)
{
    json_t *missing = json_array();
    for (guint i = 0; i < summary->missing->len; i++)
        json_array_append_new(missing,
                              json_string((const char *)g_ptr_array_index(summary->missing, i)));
    return missing;
}

/* One entry per layer or tensor. */
static json_t *flags_json(const uint8_t *flags, uint32_t count)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(array, json_boolean(flags[i]));
    return array;
}

static json_t *choices_json(const struct trace *trace)
{
    struct run_choices *choices = run_choices_of(trace);
    json_t *json = json_pack("{s:o, s:o, s:b, s:o, s:b, s:b, s:b}", "recompute",
                             flags_json(choices->recompute, choices->layer_count), "offload",
                             flags_json(choices->offload, choices->layer_count), "host_embedding",
                             choices->host_embedding, "host_update",
                             flags_json(choices->host_update, choices->tensor_count),
                             "split_master", choices->split_masters, "backward_twice",
                             choices->second_backward, "early_updates", run_updates_early(choices));
    run_choices_free(choices);
    return json;
}

static json_t *exchange_json(const struct trace *trace, enum trace_collective collective)
{
    struct trace_exchange sum = trace_exchanged(trace, collective);
    return json_pack("{s:I, s:I}", "sent_bytes", (json_int_t)sum.sent_bytes, "received_bytes",
                     (json_int_t)sum.received_bytes);
}

static json_t *origin_json(const struct trace *trace, const char *path)
{
    char *digest = trace_digest(trace);
    char *shown_path = g_filename_display_name(path);
    json_t *origin = json_pack(
        "{s:s, s:s, s:s?, s:s?, s:s?, s:s?, s:I, s:I, s:I, s:b, s:b, s:I, s:I, s:b}", "trace",
        shown_path, "structure", digest, "producer", trace->producer, "model", trace->model,
        "precision", trace->precision, "machine", trace->machine, "batch", (json_int_t)trace->batch,
        "sequence", (json_int_t)trace->sequence, "micro_batches", (json_int_t)trace->micro_batches,
        "estimated", trace->estimated, "partial", trace->partial, "library_bytes",
        (json_int_t)trace->library_bytes, "ranks", (json_int_t)MAX(trace->ranks, 1),
        "shared_parameters", trace->shared_parameters);
    for (int c = 0; c < TRACE_COLLECTIVES; c++)
        json_object_set_new(origin, trace_collective_name((enum trace_collective)c),
                            exchange_json(trace, (enum trace_collective)c));
    if (trace->stages > 1)
        json_object_update_new(origin, json_pack("{s:I, s:I}", "stages", (json_int_t)trace->stages,
                                                 "stage", (json_int_t)trace->stage));
    json_object_set_new(origin, "state_block", json_integer((json_int_t)trace->state_block));
    g_free(shown_path);
    g_free(digest);
    return origin;
}

json_t *summary_to_json(const struct summary *summary, const struct trace *trace,
                        const struct records *records, const struct activity *activity,
                        const char *path)
{
    json_t *json = origin_json(trace, path);
    json_t *figures = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}",
        "tensors", (json_int_t)trace->tensor_count, "operators", (json_int_t)trace->operator_count,
        "accesses", (json_int_t)trace->access_count, "buffers", (json_int_t)trace->buffer_count,
        "model_bytes", (json_int_t)summary->model_bytes, "non_model_peak_bytes",
        (json_int_t)summary->non_model_peak_bytes, "non_model_peak_moment",
        (json_int_t)summary->non_model_peak_moment, "non_model_peak_operator",
        trace->operators[summary->non_model_peak_moment].name, "operator_seconds",
        seconds(summary->duration_ns), "nvtx_events", (json_int_t)records->event_count, "samples",
        (json_int_t)records->sample_count, "lists", lists_json(summary, trace), "phases",
        phases_json(summary), "longest", longest_json(summary, trace), "iterations",
        summary_iterations_json(summary->iterations), "missing", missing_json(summary), "choices",
        choices_json(trace));
    json_object_update(json, figures);
    json_decref(figures);
    json_object_set_new(json, "activity", activity_summary_json(summary->activity, activity));
    return json;
}

static void print_size(FILE *out, const char *label, uint64_t bytes, const char *rest)
{
    char *size = size_format(bytes);
    text_print_line(out, "%-18s %12s%s", label, size, rest);
    g_free(size);
}

char *summary_format_time(uint64_t ns)
{
    static const struct {
        double ns;
        const char *unit;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}};
    for (size_t i = 0; i < G_N_ELEMENTS(units); i++)
        if ((double)ns >= units[i].ns)
            return g_strdup_printf("%.3f %s", (double)ns / units[i].ns, units[i].unit);
    return g_strdup_printf("%u ns", (unsigned)ns);
}

static void print_text(FILE *out, const char *label, const char *text)
{
    text_print_line(out, "%-18s %s", label, !text ? "unknown" : text);
}

static uint32_t count_cut(const struct trace *trace)
{
    uint32_t count = 0;
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        count += trace_is_cut(trace, t);
    return count;
}

static void print_origin(const struct trace *trace, const char *path, FILE *out)
{
    text_print_line(out, "%s%s", path, trace->partial ? " (partial)" : "");
    print_text(out, "model", trace->model);
    print_text(out, "precision", trace->precision);
    fprintf(out, "%-18s %u x %u tokens, %u micro-batch%s a step\n", "batch", trace->batch,
            trace->sequence, trace->micro_batches, trace->micro_batches == 1 ? "" : "es");
    if (trace->ranks > 1)
        fprintf(out, "%-18s %u, which share %s%s\n", "ranks", trace->ranks,
                run_stage_describe(run_stage_of(trace).stage),
                run_stage_of(trace).fast ? ", and sum gradients fast" : "");
    if (trace->stages > 1)
        fprintf(out, "%-18s %u of a pipeline of %u, from 0\n", "stage", trace->stage,
                trace->stages);
    if (trace->state_block)
        fprintf(out, "%-18s %" G_GUINT64_FORMAT " elements, which cut %u tensors\n", "state blocks",
                trace->state_block, count_cut(trace));
    struct run_choices *choices = run_choices_of(trace);
    char *chosen = run_choices_describe(choices);
    print_text(out, "choices", chosen);
    g_free(chosen);
    run_choices_free(choices);
    print_text(out, trace->estimated ? "estimated for" : "machine", trace->machine);
    print_text(out, "made by", trace->producer);
    char *digest = trace_digest(trace);
    print_text(out, "structure", digest);
    g_free(digest);
    fprintf(out, "%-18s %u tensors, %u operators, %u accesses, %u buffers\n\n", "holds",
            trace->tensor_count, trace->operator_count, trace->access_count, trace->buffer_count);
}

/* Prints what the rank exchanges in a step. */
static void print_exchange(const struct trace *trace, enum trace_collective collective, FILE *out)
{
    struct trace_exchange sum = trace_exchanged(trace, collective);
    g_autofree char *received = size_format(sum.received_bytes);
    g_autofree char *label = g_strconcat(trace_collective_name(collective), ", sent", NULL);
    g_autofree char *rest = g_strdup_printf("  %s received", received);
    print_size(out, label, sum.sent_bytes, rest);
}

/* Returns "  of 3 of 30 tensors", or "" if the list has all of them. Free with g_free. */
static char *tensors_of(const struct trace *trace, enum trace_list list)
{
    uint32_t count = 0;
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        count += trace_has(trace, list, t);
    return count == trace->tensor_count
               ? g_strdup("")
               : g_strdup_printf("  of %u of %u tensors", count, trace->tensor_count);
}

static void print_memory(const struct summary *summary, const struct trace *trace, FILE *out)
{
    print_size(out, "model data", summary->model_bytes, "");
    for (int list = 0; list < TRACE_LISTS; list++)
        if (trace->list_element_bytes[list] > 0) {
            char *label = g_strconcat("  ", trace_list_name((enum trace_list)list), NULL);
            g_autofree char *of = tensors_of(trace, (enum trace_list)list);
            print_size(out, label, summary->list_bytes[list], of);
            g_free(label);
        }
    char *where = g_strdup_printf("  at moment %u, %s", summary->non_model_peak_moment,
                                  trace->operators[summary->non_model_peak_moment].name);
    print_size(out, "non-model peak", summary->non_model_peak_bytes, where);
    g_free(where);
    if (trace->library_bytes > 0)
        print_size(out, "held by libraries", trace->library_bytes, "");
    for (int c = 0; c < TRACE_COLLECTIVES; c++)
        if (c == TRACE_PASS ? trace->stages > 1 : trace->ranks > 1)
            print_exchange(trace, (enum trace_collective)c, out);
    fputc('\n', out);
}

static double share(const struct summary *summary, uint64_t duration_ns)
{
    return summary->duration_ns == 0 ? 0 : 100 * (double)duration_ns / (double)summary->duration_ns;
}

/* Prints each iteration, or only the shortest and the longest time if there are many. */
void summary_print_iterations(const GArray *iterations, FILE *out)
{
    enum { MOST_LINES = 8 };
    uint64_t least = UINT64_MAX, most = 0;
    for (guint i = 0; i < iterations->len; i++) {
        const struct summary_iteration *iteration = &g_array_index(iterations,
                                                                   struct summary_iteration, i);
        least = MIN(least, iteration->duration_ns);
        most = MAX(most, iteration->duration_ns);
        if (iterations->len > MOST_LINES)
            continue;
        char *time = summary_format_time(iteration->duration_ns);
        fprintf(out, "step %-13" G_GUINT64_FORMAT " %12s   from begin to end\n", iteration->step,
                time);
        g_free(time);
    }
    if (iterations->len > MOST_LINES) {
        char *shortest = summary_format_time(least), *longest = summary_format_time(most);
        fprintf(out, "%-5u %-12s %12s   to %s from begin to end\n", iterations->len, "steps",
                shortest, longest);
        g_free(shortest);
        g_free(longest);
    }
}

static void print_phases(const struct summary *summary, FILE *out)
{
    fprintf(out, "%-18s %12s %7s %10s\n", "phase", "time", "share", "operators");
    for (int phase = TRACE_FORWARD; phase <= TRACE_UPDATE_PHASE; phase++) {
        char *time = summary_format_time(summary->phases[phase].duration_ns);
        fprintf(out, "%-18s %12s %6.1f%% %10u\n", trace_phase_name((enum trace_phase)phase), time,
                share(summary, summary->phases[phase].duration_ns),
                summary->phases[phase].operators);
        g_free(time);
    }
    char *time = summary_format_time(summary->duration_ns);
    double seconds = (double)summary->duration_ns / 1e9;
    fprintf(out, "%-18s %12s", "all operators", time);
    if (summary->flops > 0 && seconds > 0)
        fprintf(out, "   %.1f GFLOP/s", (double)summary->flops / seconds / 1e9);
    fputc('\n', out);
    g_free(time);
    summary_print_iterations(summary->iterations, out);
    fputc('\n', out);
}

static void print_longest(const struct summary *summary, const struct trace *trace, FILE *out)
{
    if (summary->longest_count == 0)
        return;
    fprintf(out, "%-18s %12s %7s\n", "longest operators", "time", "share");
    for (uint32_t i = 0; i < summary->longest_count; i++) {
        moment_id moment = summary->longest[i];
        const struct trace_operator *op = &trace->operators[moment];
        char *time = summary_format_time(op->duration_ns);
        text_print_line(out, "  moment %-9u %12s %6.1f%%  %s", moment, time,
                        share(summary, op->duration_ns), op->name);
        g_free(time);
    }
    fputc('\n', out);
}

void summary_print(const struct summary *summary, const struct trace *trace,
                   const struct records *records, const char *path, FILE *out)
{
    print_origin(trace, path, out);
    print_memory(summary, trace, out);
    print_phases(summary, out);
    print_longest(summary, trace, out);
    activity_summary_print(summary->activity, out);
    fprintf(out, "%-18s %u NVTX events, %u samples\n", "recorded", records->event_count,
            records->sample_count);
    if (summary->missing->len == 0)
        fprintf(out, "%-18s nothing\n", "missing");
    for (guint i = 0; i < summary->missing->len; i++)
        text_print_line(out, "%-18s %s", i == 0 ? "missing" : "",
                        (const char *)g_ptr_array_index(summary->missing, i));
}
