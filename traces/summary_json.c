#include "traces/choices.h"
#include "traces/summary.h"

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

/* An entry a layer or a tensor. */
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
    json_t *json = json_pack("{s:o, s:o, s:b, s:o, s:b, s:b}", "recompute",
                             flags_json(choices->recompute, choices->layer_count), "offload",
                             flags_json(choices->offload, choices->layer_count), "host_embedding",
                             choices->host_embedding, "host_update",
                             flags_json(choices->host_update, choices->tensor_count),
                             "split_master", choices->split_masters, "backward_twice",
                             choices->second_backward);
    run_choices_free(choices);
    return json;
}

static json_t *origin_json(const struct trace *trace, const char *path)
{
    char *digest = trace_digest(trace);
    char *shown_path = g_filename_display_name(path);
    json_t *origin =
        json_pack("{s:s, s:s, s:s?, s:s?, s:s?, s:s?, s:I, s:I, s:I, s:b, s:b, s:I}", "trace",
                  shown_path, "structure", digest, "producer", trace->producer, "model",
                  trace->model, "precision", trace->precision, "machine", trace->machine, "batch",
                  (json_int_t)trace->batch, "sequence", (json_int_t)trace->sequence,
                  "micro_batches", (json_int_t)trace->micro_batches, "estimated", trace->estimated,
                  "partial", trace->partial, "library_bytes", (json_int_t)trace->library_bytes);
    g_free(shown_path);
    g_free(digest);
    return origin;
}

json_t *summary_json(const struct summary *summary, const struct trace *trace,
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
