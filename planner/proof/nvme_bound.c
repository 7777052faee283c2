#include "planner/proof/nvme_bound.h"

#include "chunks/accesses.h"

/* An access of a chunk. */
struct nvme_access {
    uint32_t moment; /* NO_INDEX: none yet */
    uint32_t flags;
};

/* Bytes that lie somewhere because a later access reads them. */
struct live_bytes {
    int64_t all, changed; /* of chunks that the iteration changes */
};

struct live_walk {
    const struct layout *layout;
    const struct accesses *accesses;
    bool *changes;                    /* [chunk_count] */
    struct nvme_access *first, *last; /* [chunk_count] */
    struct live_bytes *begins; /* [moment_count + 1] what begins to live before a moment, less what
                                  ends there */
};

static void live(const struct live_walk *walk, chunk_id c, uint32_t from, uint32_t to)
{
    int64_t bytes = (int64_t)walk->layout->chunks[c].copy_bytes;
    int64_t changed = walk->changes[c] ? bytes : 0;
    walk->begins[from].all += bytes;
    walk->begins[from].changed += changed;
    walk->begins[to].all -= bytes;
    walk->begins[to].changed -= changed;
}

static bool is_read_later(const struct nvme_access *use, const struct nvme_access *next)
{
    return !(use->flags & ACCESS_LAST) && !(next->flags & ACCESS_FRESH);
}

static void note(const struct live_walk *walk, uint32_t moment, const struct chunk_access *access)
{
    const struct nvme_access use = {moment, access->flags};
    struct nvme_access *last = &walk->last[access->chunk];
    if (last->moment == NO_INDEX)
        walk->first[access->chunk] = use;
    else if (is_read_later(last, &use))
        live(walk, access->chunk, last->moment + 1, moment + 1);
    *last = use;
}

/* Gathered chunks are made from shards, so they are in no memory below the device's. */
static void walk_accesses(const struct live_walk *walk)
{
    const struct accesses *accesses = walk->accesses;
    for (uint32_t a = 0; a < accesses->count; a++)
        walk->changes[accesses->items[a].chunk] |= (accesses->items[a].flags & ACCESS_WRITES) != 0;
    for (uint32_t m = 0; m < accesses->moment_count; m++)
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++)
            if (walk->layout->chunks[accesses->items[a].chunk].list != TRACE_GATHERED)
                note(walk, m, &accesses->items[a]);
    for (chunk_id c = 0; c < walk->layout->chunk_count; c++)
        if (walk->last[c].moment != NO_INDEX && is_read_later(&walk->last[c], &walk->first[c])) {
            live(walk, c, walk->last[c].moment + 1, accesses->moment_count);
            live(walk, c, 0, walk->first[c].moment + 1);
        }
}

/* Returns what of `bytes` neither the host nor the device has room for, beside `taken` bytes that
 * lie on the device. */
static uint64_t beyond(const struct plan *plan, uint64_t taken, int64_t bytes)
{
    uint64_t device = plan->device_budget - MIN(taken, plan->device_budget);
    uint64_t left = (uint64_t)bytes - MIN((uint64_t)bytes, device);
    return left - MIN(left, plan->host_budget);
}

/* Looks at each moment when its operator begins: its non-model data has its room then. */
static struct nvme_least find_most(const struct live_walk *walk, const struct plan *plan,
                                   const struct non_model *non_model)
{
    struct live_bytes now = {0, 0};
    struct nvme_least most = {0, 0};
    for (uint32_t m = 0; m < walk->accesses->moment_count; m++) {
        uint64_t taken = non_model->extent[m];
        now.all += walk->begins[m].all;
        now.changed += walk->begins[m].changed;
        most.read_bytes = MAX(most.read_bytes, beyond(plan, taken, now.all));
        most.write_bytes = MAX(most.write_bytes, beyond(plan, taken, now.changed));
    }
    return most;
}

struct nvme_least nvme_least(const struct plan *plan, const struct trace *trace)
{
    const struct layout *layout = plan->layout;
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, layout, non_model->extent);
    g_autofree bool *changes = g_new0(bool, layout->chunk_count);
    g_autofree struct nvme_access *first = g_new(struct nvme_access, layout->chunk_count);
    g_autofree struct nvme_access *last = g_new(struct nvme_access, layout->chunk_count);
    g_autofree struct live_bytes *begins = g_new0(struct live_bytes, accesses->moment_count + 1);
    for (chunk_id c = 0; c < layout->chunk_count; c++)
        first[c] = last[c] = (struct nvme_access){NO_INDEX, 0};
    const struct live_walk walk = {layout, accesses, changes, first, last, begins};
    walk_accesses(&walk);
    const struct nvme_least most = find_most(&walk, plan, non_model);
    accesses_free(accesses);
    non_model_free(non_model);
    return most;
}

/* A transfer may end half a nanosecond early, and one of each chunk counts. */
uint64_t nvme_bound_ns(const struct plan *plan, const struct trace *trace,
                       const struct costs *costs)
{
    const struct nvme_least least = nvme_least(plan, trace);
    uint64_t read_ns = costs_ns(&costs->nvme[0], least.read_bytes);
    uint64_t write_ns = costs_ns(&costs->nvme[1], least.write_bytes);
    uint64_t ns = MAX(read_ns, write_ns);
    return ns - MIN(ns, plan->layout->chunk_count);
}
