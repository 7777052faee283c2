#include "planner/proof/nvme_bound.h"

#include "planner/proof/nvme_order.h"

/* An access of a chunk. */
struct nvme_access {
    uint32_t moment; /* NO_INDEX: none yet */
    uint32_t flags;
};

/* Bytes that lie somewhere because a later access reads them. */
struct live_bytes {
    int64_t all;
    int64_t changed; /* of chunks that the iteration changes */
    int64_t updated; /* of chunks as the last updates have left them, if those have all run */
};

struct live_walk {
    const struct plan *plan;
    const struct trace *trace;
    const struct layout *layout;
    struct non_model *non_model;
    struct accesses *accesses;
    struct nvme_order order;
    uint32_t *changed;                /* [chunk_count] when it is last written; NO_INDEX: never */
    uint32_t *updated, *used;         /* [chunk_count] see find_updates */
    struct nvme_access *first, *last; /* [chunk_count] */
    int64_t *update_reads; /* [moment_count] bytes that updates are the first to read after the work
                              before them, of chunks by when they have been used */
    struct live_bytes *begins; /* [moment_count + 1] what begins to live before a moment, less what
                                  ends there */
};

static void live(const struct live_walk *walk, chunk_id c, uint32_t from, uint32_t to)
{
    int64_t bytes = (int64_t)walk->layout->chunks[c].copy_bytes;
    int64_t changed = walk->changed[c] != NO_INDEX ? bytes : 0;
    walk->begins[from].all += bytes;
    walk->begins[from].changed += changed;
    walk->begins[to].all -= bytes;
    walk->begins[to].changed -= changed;
    if (walk->updated[c] < to) {
        walk->begins[MAX(from, walk->updated[c])].updated += bytes;
        walk->begins[to].updated -= bytes;
    }
}

/* Finds of each chunk the first moment before the updates at whose beginning those of the iteration
 * before that change it have surely all run (updated), and at whose beginning one has that uses it
 * (used), on whichever side. It is NO_INDEX if that is not known, or if there is no such update. */
static void find_updates(const struct live_walk *walk)
{
    const struct accesses *accesses = walk->accesses;
    for (chunk_id c = 0; c < walk->layout->chunk_count; c++) {
        bool is_updated = walk->changed[c] != NO_INDEX &&
                          walk->changed[c] >= walk->order.first_update;
        walk->updated[c] = is_updated ? 0 : NO_INDEX;
        walk->used[c] = NO_INDEX;
    }
    for (uint32_t m = walk->order.first_update; m < accesses->moment_count; m++) {
        uint32_t over = walk->order.over[m];
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            chunk_id c = accesses->items[a].chunk;
            if (accesses->items[a].flags & ACCESS_WRITES)
                walk->updated[c] = MAX(walk->updated[c], over);
            walk->used[c] = MIN(walk->used[c], over);
        }
    }
}

static bool is_read_later(const struct nvme_access *use, const struct nvme_access *next)
{
    return !(use->flags & ACCESS_LAST) && !(next->flags & ACCESS_FRESH);
}

/* Fills first, last and changed. Gathered chunks are made from shards, so they are in no memory
 * below the device's, and have no last access. */
static void find_ends(const struct live_walk *walk)
{
    const struct accesses *accesses = walk->accesses;
    for (uint32_t m = 0; m < accesses->moment_count; m++)
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            chunk_id c = accesses->items[a].chunk;
            const struct nvme_access use = {m, accesses->items[a].flags};
            if (walk->first[c].moment == NO_INDEX)
                walk->first[c] = use;
            if (walk->layout->chunks[c].list != TRACE_GATHERED)
                walk->last[c] = use;
            if (use.flags & ACCESS_WRITES)
                walk->changed[c] = m;
        }
}

/* Notes what is read at moment `to`, and there from its access at moment `from`, which may be one
 * of the iteration before. */
static void live_between(const struct live_walk *walk, chunk_id c, uint32_t from, uint32_t to)
{
    if (from < to) {
        live(walk, c, from + 1, to + 1);
    } else {
        live(walk, c, from + 1, walk->accesses->moment_count);
        live(walk, c, 0, to + 1);
    }
    bool is_first = to >= walk->order.first_update &&
                    (from < walk->order.first_update || from >= to);
    if (is_first && walk->used[c] != NO_INDEX)
        walk->update_reads[walk->used[c]] += walk->layout->chunks[c].copy_bytes;
}

static void live_at_ends(const struct live_walk *walk, chunk_id c)
{
    if (walk->last[c].moment != NO_INDEX && is_read_later(&walk->last[c], &walk->first[c]))
        live_between(walk, c, walk->last[c].moment, walk->first[c].moment);
}

/* What an operator before the updates writes is not what they have left. */
static void note(const struct live_walk *walk, uint32_t moment, const struct chunk_access *access)
{
    const struct nvme_access use = {moment, access->flags};
    struct nvme_access *last = &walk->last[access->chunk];
    if (moment != walk->first[access->chunk].moment && is_read_later(last, &use))
        live_between(walk, access->chunk, last->moment, moment);
    if ((access->flags & ACCESS_WRITES) && moment < walk->order.first_update)
        walk->updated[access->chunk] = NO_INDEX;
    *last = use;
}

static void walk_accesses(const struct live_walk *walk)
{
    const struct accesses *accesses = walk->accesses;
    find_ends(walk);
    find_updates(walk);
    for (chunk_id c = 0; c < walk->layout->chunk_count; c++)
        live_at_ends(walk, c);
    for (uint32_t m = 0; m < accesses->moment_count; m++)
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++)
            if (walk->layout->chunks[accesses->items[a].chunk].list != TRACE_GATHERED)
                note(walk, m, &accesses->items[a]);
}

/* Returns what of `bytes` neither the host nor the device has room for, beside the non-model data
 * of a moment. */
static uint64_t beyond(const struct live_walk *walk, uint32_t moment, int64_t bytes)
{
    const struct plan *plan = walk->plan;
    uint64_t taken = walk->non_model->extent[moment];
    uint64_t device = plan->device_budget - MIN(taken, plan->device_budget);
    uint64_t left = (uint64_t)bytes - MIN((uint64_t)bytes, device);
    return left - MIN(left, plan->host_budget);
}

/* Looks at each moment when its operator begins: its non-model data has its room then. */
static struct nvme_least find_most(const struct live_walk *walk)
{
    struct live_bytes now = {0, 0, 0};
    struct nvme_least most = {0, 0};
    for (uint32_t m = 0; m < walk->accesses->moment_count; m++) {
        now.all += walk->begins[m].all;
        now.changed += walk->begins[m].changed;
        most.read_bytes = MAX(most.read_bytes, beyond(walk, m, now.all));
        most.write_bytes = MAX(most.write_bytes, beyond(walk, m, now.changed));
    }
    return most;
}

/* Returns the nanoseconds that a transfer of at least so many bytes takes. It may end half a
 * nanosecond early, and one of each chunk counts. */
static uint64_t transfer_ns(const struct live_walk *walk, const struct costs *costs,
                            const struct nvme_least *least)
{
    uint64_t ns = MAX(costs_ns(&costs->nvme[0], least->read_bytes),
                      costs_ns(&costs->nvme[1], least->write_bytes));
    return ns - MIN(ns, walk->layout->chunk_count);
}

/* Returns the last moment before the updates whose operator runs on the device; NO_INDEX if there
 * is none. */
static uint32_t last_before_updates(const struct live_walk *walk)
{
    uint32_t m = walk->order.first_update;
    while (m-- > 0)
        if (nvme_order_has(&walk->trace->operators[m]))
            return m;
    return NO_INDEX;
}

/* Looks at the time from the end of the device's work before the updates to the begin of each of
 * its operators before the next ones: the iteration takes as much longer as the device works from
 * that operator to the updates. */
static uint64_t find_longest_span(const struct live_walk *walk, const struct costs *costs)
{
    uint32_t last = last_before_updates(walk);
    uint64_t longest_ns = 0, device_ns = 0;
    int64_t updated = 0, reads = 0;
    if (last == NO_INDEX)
        return 0;
    for (uint32_t m = 0; m <= last; m++) {
        updated += walk->begins[m].updated;
        reads += walk->update_reads[m];
    }
    for (uint32_t m = last + 1; m-- > 0;
         updated -= walk->begins[m].updated, reads -= walk->update_reads[m]) {
        const struct trace_operator *op = &walk->trace->operators[m];
        if (!nvme_order_has(op))
            continue;
        device_ns += op->duration_ns;
        const struct nvme_least least = {.read_bytes = beyond(walk, last, reads),
                                         .write_bytes = beyond(walk, m, updated)};
        if (least.read_bytes || least.write_bytes)
            longest_ns = MAX(longest_ns, device_ns + transfer_ns(walk, costs, &least));
    }
    return longest_ns;
}

static struct live_walk walk_new(const struct plan *plan, const struct trace *trace)
{
    const struct layout *layout = plan->layout;
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, layout, non_model->extent);
    struct live_walk walk = {.plan = plan,
                             .trace = trace,
                             .layout = layout,
                             .non_model = non_model,
                             .accesses = accesses,
                             .order = nvme_order_of(trace, layout, accesses),
                             .changed = g_new(uint32_t, layout->chunk_count),
                             .updated = g_new(uint32_t, layout->chunk_count),
                             .used = g_new(uint32_t, layout->chunk_count),
                             .first = g_new(struct nvme_access, layout->chunk_count),
                             .last = g_new(struct nvme_access, layout->chunk_count),
                             .update_reads = g_new0(int64_t, accesses->moment_count),
                             .begins = g_new0(struct live_bytes, accesses->moment_count + 1)};
    for (chunk_id c = 0; c < layout->chunk_count; c++) {
        walk.first[c] = walk.last[c] = (struct nvme_access){NO_INDEX, 0};
        walk.changed[c] = NO_INDEX;
    }
    walk_accesses(&walk);
    return walk;
}

static void walk_clear(struct live_walk *walk)
{
    nvme_order_clear(&walk->order);
    g_free(walk->changed);
    g_free(walk->updated);
    g_free(walk->used);
    g_free(walk->first);
    g_free(walk->last);
    g_free(walk->update_reads);
    g_free(walk->begins);
    accesses_free(walk->accesses);
    non_model_free(walk->non_model);
}

struct nvme_least nvme_least(const struct plan *plan, const struct trace *trace)
{
    struct live_walk walk = walk_new(plan, trace);
    const struct nvme_least most = find_most(&walk);
    walk_clear(&walk);
    return most;
}

uint64_t nvme_bound_ns(const struct plan *plan, const struct trace *trace,
                       const struct costs *costs)
{
    struct live_walk walk = walk_new(plan, trace);
    const struct nvme_least most = find_most(&walk);
    uint64_t ns = MAX(transfer_ns(&walk, costs, &most), find_longest_span(&walk, costs));
    walk_clear(&walk);
    return ns;
}
