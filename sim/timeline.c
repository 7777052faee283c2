#include "sim/timeline.h"

#include "base/output_file.h"
#include "base/printable.h"
#include "chunks/chunk_spread.h"
#include "sim/timing.h"

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
    timeline->first_stall = timeline->shown_stalls;
    timeline->shown_stalls = timeline->stalls->len;
}

struct timeline_stretch timeline_when(const struct timeline *timeline, enum mover_queue queue,
                                      guint i)
{
    const GArray *spans = timeline->spans[queue];
    const struct timeline_span *span = &g_array_index(spans, struct timeline_span, i);
    guint of_a_lap = timeline->shown[queue] - timeline->first[queue];
    uint64_t later_ns = 0;
    if (!span->end_ns && of_a_lap <= i) {
        span = &g_array_index(spans, struct timeline_span, i - of_a_lap);
        later_ns = timeline->end_ns - timeline->begin_ns;
    }
    return (struct timeline_stretch){span->start_ns + later_ns,
                                     MAX(span->end_ns, span->start_ns) + later_ns};
}

struct timeline_stretch timeline_wrap(const struct timeline *timeline, uint64_t origin_ns,
                                      struct timeline_stretch *rest)
{
    uint64_t period = timeline->end_ns - timeline->begin_ns, length = rest->end_ns - rest->start_ns;
    uint64_t offset = period ? (rest->start_ns + period - origin_ns % period) % period : 0;
    length = period ? MIN(length, period - offset) : length;
    rest->start_ns += length;
    return (struct timeline_stretch){origin_ns + offset, origin_ns + offset + length};
}

uint64_t timeline_moved(uint64_t bytes, uint64_t ran_ns, uint64_t all_ns)
{
    return ran_ns < all_ns ? (uint64_t)((double)bytes * (double)ran_ns / (double)all_ns) : bytes;
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

/* Returns when the first operator of the iteration starts. */
static uint64_t first_start(const struct timeline *timeline)
{
    const enum mover_queue queues[] = {MOVER_COMPUTE, MOVER_HOST};
    for (size_t q = 0; q < G_N_ELEMENTS(queues); q++) {
        const GArray *spans = timeline->spans[queues[q]];
        for (guint i = timeline->first[queues[q]]; i < timeline->shown[queues[q]]; i++) {
            const struct timeline_span *span = &g_array_index(spans, struct timeline_span, i);
            if (span->kind == TIMELINE_OPERATOR && span->moment == 0)
                return span->start_ns;
        }
    }
    return timeline->begin_ns;
}

/* What events are made of. */
struct event_writer {
    const struct timeline *timeline;
    const struct plan *plan;
    const struct trace *trace;
    uint64_t origin_ns; /* when the iteration begins */
    json_t *events;     /* an array */
};

/* An event that may be written in two pieces, one at each end of the iteration. */
struct shown_event {
    const char *name;
    int row;
    struct timeline_stretch when;
    uint64_t bytes;
    const json_t *arguments; /* of each piece; those of work get their share of the bytes, too */
};

/* Times are microseconds from the start of the first operator. */
static void append_event(const struct event_writer *to, const struct shown_event *event)
{
    struct timeline_stretch rest = event->when;
    uint64_t all_ns = rest.end_ns - rest.start_ns, bytes = 0;
    do {
        struct timeline_stretch piece = timeline_wrap(to->timeline, to->origin_ns, &rest);
        uint64_t so_far = timeline_moved(event->bytes, rest.start_ns - event->when.start_ns,
                                         all_ns);
        json_t *arguments = json_copy((json_t *)event->arguments);
        if (event->row != STALL_ROW)
            json_object_set_new(arguments, "bytes", json_integer((json_int_t)(so_far - bytes)));
        json_array_append_new(
            to->events,
            json_pack("{s:s, s:s, s:i, s:i, s:f, s:f, s:o}", "name", event->name, "ph", "X", "pid",
                      0, "tid", event->row, "ts", (double)(piece.start_ns - to->origin_ns) * 1e-3,
                      "dur", (double)(piece.end_ns - piece.start_ns) * 1e-3, "args", arguments));
        bytes = so_far;
    } while (rest.start_ns < rest.end_ns);
}

static json_t *phase_of(const struct trace *trace, moment_id moment)
{
    return json_string(trace_phase_name((enum trace_phase)trace->operators[moment].phase));
}

static void append_spans(const struct event_writer *to, enum mover_queue queue)
{
    const struct timeline *timeline = to->timeline;
    const GArray *spans = timeline->spans[queue];
    for (guint i = timeline->first[queue]; i < timeline->shown[queue]; i++) {
        const struct timeline_span *span = &g_array_index(spans, struct timeline_span, i);
        if (span->kind == TIMELINE_JOIN)
            continue;
        g_autofree char *name = span_name(timeline, span, to->plan, to->trace);
        json_t *arguments = json_pack("{s:i}", "moment", (int)span->moment);
        if (span->kind == TIMELINE_OPERATOR)
            json_object_set_new(arguments, "phase", phase_of(to->trace, span->moment));
        const struct shown_event event = {name, (int)queue, timeline_when(timeline, queue, i),
                                          span->bytes, arguments};
        append_event(to, &event);
        json_decref(arguments);
    }
}

static char *waited_for(const struct timeline_stall *stall, const struct plan *plan,
                        const struct trace *trace)
{
    return stall->chunk == NO_INDEX ? g_strdup("work without a chunk")
                                    : chunk_name(plan, trace, stall->chunk);
}

static void append_stalls(const struct event_writer *to)
{
    const struct timeline *timeline = to->timeline;
    for (guint i = timeline->first_stall; i < timeline->shown_stalls; i++) {
        const struct timeline_stall *stall = &g_array_index(timeline->stalls, struct timeline_stall,
                                                            i);
        const char *resource = timing_resources[stall->queue].name;
        g_autofree char *chunk = waited_for(stall, to->plan, to->trace);
        g_autofree char *name = g_strdup_printf(
            "%s waits for %s on %s", operator_name(timeline, stall->moment), chunk, resource);
        json_t *arguments = json_pack("{s:i, s:s}", "moment", (int)stall->moment, "waits_for",
                                      resource);
        const struct shown_event event = {
            name, STALL_ROW, {stall->start_ns, stall->start_ns + stall->wait_ns}, 0, arguments};
        append_event(to, &event);
        json_decref(arguments);
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
    const struct event_writer to = {timeline, plan, trace, first_start(timeline), events};
    for (int q = 0; q < MOVER_QUEUES; q++) {
        if (q >= MOVER_NETWORK && !timeline->spans[q]->len)
            continue; /* one rank, or nothing in NVMe */
        name_row(events, q, timing_resources[q].name);
        append_spans(&to, (enum mover_queue)q);
    }
    name_row(events, STALL_ROW, "stalls");
    append_stalls(&to);
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
    g_array_append_vals(
        shown, &g_array_index(timeline->stalls, struct timeline_stall, timeline->first_stall),
        timeline->shown_stalls - timeline->first_stall);
    g_array_sort(shown, by_wait);
    return shown;
}

/* The link and the host stand in every table, the other resources where the device waits for
 * them. */
static void print_sums(const GArray *stalls, FILE *out)
{
    double ms[MOVER_QUEUES] = {0};
    for (guint i = 0; i < stalls->len; i++) {
        const struct timeline_stall *stall = &g_array_index(stalls, struct timeline_stall, i);
        ms[stall->queue] += (double)stall->wait_ns * 1e-6;
    }
    fprintf(out, "\nStalls of an iteration: %u, ms by resource: H2D %.3f", stalls->len,
            ms[MOVER_H2D]);
    for (int q = MOVER_D2H; q < MOVER_QUEUES; q++)
        if (q <= MOVER_HOST || ms[q] > 0)
            fprintf(out, ", %s %.3f", timing_resources[q].name, ms[q]);
    fprintf(out, "\n");
}

void timeline_print_stalls(const struct timeline *timeline, const struct plan *plan,
                           const struct trace *trace, uint32_t most, FILE *out)
{
    g_autoptr(GArray) stalls = shown_stalls(timeline);
    print_sums(stalls, out);
    fprintf(out, "%7s %10s  %-8s  %-36s %s\n", "moment", "ms", "resource", "operator", "chunk");
    for (guint i = 0; i < MIN(stalls->len, most); i++) {
        const struct timeline_stall *stall = &g_array_index(stalls, struct timeline_stall, i);
        g_autofree char *chunk = waited_for(stall, plan, trace);
        text_print_line(out, "%7u %10.3f  %-8s  %-36s %s", stall->moment,
                        (double)stall->wait_ns * 1e-6, timing_resources[stall->queue].name,
                        operator_name(timeline, stall->moment), chunk);
    }
}
