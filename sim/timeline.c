#include "sim/timeline.h"

#include "chunks/chunk_spread.h"
#include "sim/timing.h"
#include "traces/output_file.h"
#include "traces/printable.h"

#include <jansson.h>

enum { STALL_ROW = MOVER_QUEUES };

struct timeline *timeline_new(void)
{
    struct timeline *timeline = g_new0(struct timeline, 1);
    for (int q = 0; q < MOVER_QUEUES; q++)
        timeline->spans[q] = g_array_new(FALSE, FALSE, sizeof(struct timeline_span));
    timeline->stalls = g_array_new(FALSE, FALSE, sizeof(struct timeline_stall));
    timeline->operators = g_ptr_array_new_with_free_func(g_free);
    timeline->used_device_bytes = g_array_new(FALSE, TRUE, sizeof(uint64_t));
    return timeline;
}

void timeline_free(struct timeline *timeline)
{
    if (!timeline)
        return;
    for (int q = 0; q < MOVER_QUEUES; q++)
        g_array_unref(timeline->spans[q]);
    g_array_unref(timeline->stalls);
    g_ptr_array_unref(timeline->operators);
    g_array_unref(timeline->used_device_bytes);
    g_free(timeline);
}

struct timeline_span *timeline_note(struct timeline *timeline, enum mover_queue queue,
                                    const struct timeline_span *span)
{
    if (!timeline)
        return NULL;
    GArray *spans = timeline->spans[queue];
    g_array_append_val(spans, *span);
    return &g_array_index(spans, struct timeline_span, spans->len - 1);
}

void timeline_close(struct timeline_span *span, uint64_t start_ns, uint64_t end_ns)
{
    if (!span)
        return;
    span->start_ns = start_ns;
    span->end_ns = end_ns;
}

void timeline_show(struct timeline *timeline, uint64_t begin_ns, uint64_t end_ns)
{
    timeline->begin_ns = begin_ns;
    timeline->end_ns = end_ns;
    for (int q = 0; q < MOVER_QUEUES; q++) {
        timeline->first[q] = timeline->shown[q];
        timeline->shown[q] = timeline->spans[q]->len;
    }
}

/* Ends ascend in a queue. */
const struct timeline_span *timeline_ending(const struct timeline *timeline, enum mover_queue queue,
                                            uint64_t end_ns)
{
    const GArray *spans = timeline->spans[queue];
    guint low = 0, high = spans->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (g_array_index(spans, struct timeline_span, middle).end_ns < end_ns)
            low = middle + 1;
        else
            high = middle;
    }
    const struct timeline_span *found = &g_array_index(spans, struct timeline_span, low);
    return low < spans->len && found->end_ns == end_ns ? found : NULL;
}

const struct timeline_span *timeline_numbered(const struct timeline *timeline,
                                              enum mover_queue queue, mover_ticket number)
{
    return timeline ? &g_array_index(timeline->spans[queue], struct timeline_span, number - 1)
                    : NULL;
}

/* Returns a chunk's number, its list, and the name of its first tensor or buffer. */
static char *chunk_name(const struct plan *plan, const struct trace *trace, chunk_id chunk)
{
    const struct layout *layout = plan->layout;
    for (int list = 0; list < TRACE_ACCESS_LISTS; list++)
        for (uint32_t i = 0; layout->places[list] && i < layout_place_count(layout, list); i++)
            if (layout->places[list][i].chunk == chunk) {
                g_autofree char *name = layout_place_name(layout, trace, list, i);
                return g_strdup_printf("chunk %u (%s %s)", chunk,
                                       trace_list_name((enum trace_list)list), name);
            }
    return g_strdup_printf("chunk %u", chunk);
}

/* ---- Chrome's trace events ---- */

static const char *operator_name(const struct timeline *timeline, moment_id moment)
{
    return g_ptr_array_index(timeline->operators, moment);
}

static char *span_name(const struct timeline *timeline, const struct timeline_span *span,
                       const struct plan *plan, const struct trace *trace)
{
    static const char *const verbs[] = {[TIMELINE_FETCH] = "fetch",
                                        [TIMELINE_WRITE_BACK] = "write back",
                                        [TIMELINE_MOVE] = "move",
                                        [TIMELINE_ACTIVATIONS] = "activations"};
    if (span->kind == TIMELINE_OPERATOR)
        return g_strdup(operator_name(timeline, span->moment));
    if (span->chunk == NO_INDEX)
        return g_strdup(verbs[span->kind]);
    g_autofree char *chunk = chunk_name(plan, trace, span->chunk);
    return g_strdup_printf("%s %s", verbs[span->kind], chunk);
}

static bool is_shown(const struct timeline *timeline, uint64_t start_ns, uint64_t end_ns)
{
    return end_ns > timeline->begin_ns && start_ns < timeline->end_ns;
}

/* Returns microseconds from the iteration's begin. */
static json_t *event(const struct timeline *timeline, const char *name, int row, uint64_t start_ns,
                     uint64_t end_ns)
{
    double start = ((double)start_ns - (double)timeline->begin_ns) * 1e-3;
    return json_pack("{s:s, s:s, s:i, s:i, s:f, s:f}", "name", name, "ph", "X", "pid", 0, "tid",
                     row, "ts", start, "dur", (double)(end_ns - start_ns) * 1e-3);
}

static json_t *phase_of(const struct trace *trace, moment_id moment)
{
    return json_string(trace_phase_name((enum trace_phase)trace->operators[moment].phase));
}

static void append_spans(const struct timeline *timeline, int queue, const struct plan *plan,
                         const struct trace *trace, json_t *events)
{
    const GArray *spans = timeline->spans[queue];
    for (guint i = 0; i < spans->len; i++) {
        const struct timeline_span *span = &g_array_index(spans, struct timeline_span, i);
        if (span->kind == TIMELINE_JOIN || !is_shown(timeline, span->start_ns, span->end_ns))
            continue;
        g_autofree char *name = span_name(timeline, span, plan, trace);
        json_t *object = event(timeline, name, queue, span->start_ns, span->end_ns);
        json_t *arguments = json_pack("{s:i, s:I}", "moment", (int)span->moment, "bytes",
                                      (json_int_t)span->bytes);
        if (span->kind == TIMELINE_OPERATOR)
            json_object_set_new(arguments, "phase", phase_of(trace, span->moment));
        json_object_set_new(object, "args", arguments);
        json_array_append_new(events, object);
    }
}

static char *waited_for(const struct timeline_stall *stall, const struct plan *plan,
                        const struct trace *trace)
{
    return stall->chunk == NO_INDEX ? g_strdup("work without a chunk")
                                    : chunk_name(plan, trace, stall->chunk);
}

static void append_stalls(const struct timeline *timeline, const struct plan *plan,
                          const struct trace *trace, json_t *events)
{
    for (guint i = 0; i < timeline->stalls->len; i++) {
        const struct timeline_stall *stall = &g_array_index(timeline->stalls, struct timeline_stall,
                                                            i);
        uint64_t end_ns = stall->start_ns + stall->wait_ns;
        if (!is_shown(timeline, stall->start_ns, end_ns))
            continue;
        g_autofree char *chunk = waited_for(stall, plan, trace);
        g_autofree char *name = g_strdup_printf("%s waits for %s on %s",
                                                operator_name(timeline, stall->moment), chunk,
                                                timing_resources[stall->queue].name);
        json_t *object = event(timeline, name, STALL_ROW, stall->start_ns, end_ns);
        json_object_set_new(object, "args",
                            json_pack("{s:i, s:s}", "moment", (int)stall->moment, "waits_for",
                                      timing_resources[stall->queue].name));
        json_array_append_new(events, object);
    }
}

static void name_row(json_t *events, int row, const char *name)
{
    json_array_append_new(events, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "name", "thread_name",
                                            "ph", "M", "pid", 0, "tid", row, "args", "name", name));
}

/* Describes the iteration, under the names that sweeps use. */
static json_t *made_of(const struct plan *plan, const struct trace *trace,
                       const struct costs *costs)
{
    const struct plan_figures *f = &plan->predicted;
    const struct chunk_spread spread = chunk_spread_of(plan->layout, TRACE_PARAM);
    json_t *object = json_pack("{s:s?, s:s?, s:s?, s:I, s:I, s:f, s:f}", "digest", plan->digest,
                               "model", plan->model, "made_by", plan->made_by,
                               "device_memory_bytes", (json_int_t)plan->device_budget, "look_ahead",
                               (json_int_t)plan->look_ahead, "stall_seconds", f->stall_seconds,
                               "iteration_seconds", f->iteration_seconds);
    costs_describe(costs, trace, object);
    if (costs_network_rate(costs) > 0)
        json_object_set_new(object, "network_rate", json_real(costs_network_rate(costs)));
    json_object_set_new(object, "host_memory_bytes",
                        plan->host_budget == UINT64_MAX
                            ? json_null()
                            : json_integer((json_int_t)plan->host_budget));
    if (plan->nvme_bytes)
        json_object_set_new(object, "nvme_memory_bytes",
                            json_integer((json_int_t)plan_ample_nvme(plan)));
    chunk_spread_to_json(&spread, object);
    return object;
}

bool timeline_write(const struct timeline *timeline, const struct plan *plan,
                    const struct trace *trace, const struct costs *costs, const char *path,
                    GError **error)
{
    json_t *events = json_array();
    for (int q = 0; q < MOVER_QUEUES; q++) {
        if (q >= MOVER_NETWORK && !timeline->spans[q]->len)
            continue; /* one rank, or nothing in NVMe */
        name_row(events, q, timing_resources[q].name);
        append_spans(timeline, q, plan, trace, events);
    }
    name_row(events, STALL_ROW, "stalls");
    append_stalls(timeline, plan, trace, events);
    json_t *root = json_pack("{s:s, s:o, s:o}", "displayTimeUnit", "ms", "otherData",
                             made_of(plan, trace, costs), "traceEvents", events);
    bool done = output_file_write_json(path, root, JSON_COMPACT | JSON_REAL_PRECISION(12), error);
    json_decref(root);
    return done;
}

/* ---- the table of stalls ---- */

static int by_wait(const void *left, const void *right)
{
    const struct timeline_stall *a = left, *b = right;
    if (a->wait_ns != b->wait_ns)
        return a->wait_ns < b->wait_ns ? 1 : -1;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static GArray *shown_stalls(const struct timeline *timeline)
{
    GArray *shown = g_array_new(FALSE, FALSE, sizeof(struct timeline_stall));
    for (guint i = 0; i < timeline->stalls->len; i++) {
        const struct timeline_stall *stall = &g_array_index(timeline->stalls, struct timeline_stall,
                                                            i);
        if (is_shown(timeline, stall->start_ns, stall->start_ns + stall->wait_ns))
            g_array_append_val(shown, *stall);
    }
    g_array_sort(shown, by_wait);
    return shown;
}

void timeline_print_stalls(const struct timeline *timeline, const struct plan *plan,
                           const struct trace *trace, uint32_t most, FILE *out)
{
    g_autoptr(GArray) stalls = shown_stalls(timeline);
    double all[MOVER_QUEUES] = {0};
    for (guint i = 0; i < stalls->len; i++) {
        const struct timeline_stall *stall = &g_array_index(stalls, struct timeline_stall, i);
        all[stall->queue] += (double)stall->wait_ns * 1e-6;
    }
    fprintf(out, "\nStalls of an iteration: %u, ms by resource: H2D %.3f, D2H %.3f, host %.3f\n",
            stalls->len, all[MOVER_H2D], all[MOVER_D2H], all[MOVER_HOST]);
    fprintf(out, "%7s %10s  %-8s  %-36s %s\n", "moment", "ms", "resource", "operator", "chunk");
    for (guint i = 0; i < MIN(stalls->len, most); i++) {
        const struct timeline_stall *stall = &g_array_index(stalls, struct timeline_stall, i);
        g_autofree char *chunk = waited_for(stall, plan, trace);
        text_print_line(out, "%7u %10.3f  %-8s  %-36s %s", stall->moment,
                        (double)stall->wait_ns * 1e-6, timing_resources[stall->queue].name,
                        operator_name(timeline, stall->moment), chunk);
    }
}
