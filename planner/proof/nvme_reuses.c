#include "planner/proof/nvme_reuses.h"

#include "planner/proof/nvme_order.h"

/* How the updates of a chunk use it. */
struct tier_updates {
    bool any, fresh, writes, dead; /* the first overwrites it, one writes it, the last kills it */
    uint32_t over;                 /* as in struct nvme_order, of all of them */
};

struct tier {
    const struct plan *plan;
    const struct trace *trace;
    const struct layout *layout;
    struct accesses *accesses;
    struct nvme_order order;
    uint8_t *left_out;            /* [chunk_count] nothing is claimed of the chunk */
    struct tier_updates *updates; /* [chunk_count] */
    struct reuses *reuses;
    uint32_t *open; /* [chunk_count] the chunk's last interval so far; NO_INDEX */
};

static uint32_t before_updates(const struct tier *tier)
{
    return tier->order.first_update;
}

static uint32_t in_updates(const struct tier *tier)
{
    return tier->order.first_update + 1;
}

/* ---- uses ---- */

static void note_before(const struct tier *tier, uint32_t m, const struct chunk_access *access)
{
    if (!nvme_order_has(&tier->trace->operators[m]) || access->flags & ACCESS_ON_HOST)
        tier->left_out[access->chunk] = 1;
    tier->reuses->first[access->chunk + 1]++;
}

static void note_update(const struct tier *tier, uint32_t m, const struct chunk_access *access)
{
    struct tier_updates *updates = &tier->updates[access->chunk];
    if (!updates->any) {
        updates->fresh = access->flags & ACCESS_FRESH;
        tier->reuses->first[access->chunk + 1]++;
    }
    updates->any = true;
    updates->writes |= (access->flags & ACCESS_WRITES) != 0;
    updates->dead = access->flags & ACCESS_LAST;
    updates->over = MAX(updates->over, tier->order.over[m]);
}

static void note_uses(const struct tier *tier)
{
    const struct accesses *accesses = tier->accesses;
    for (chunk_id c = 0; c < tier->layout->chunk_count; c++)
        tier->left_out[c] = tier->layout->chunks[c].list == TRACE_GATHERED;
    for (uint32_t m = 0; m < accesses->moment_count; m++)
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            if (m < tier->order.first_update)
                note_before(tier, m, &accesses->items[a]);
            else
                note_update(tier, m, &accesses->items[a]);
        }
}

static void count_reuses(const struct tier *tier)
{
    struct reuses *reuses = tier->reuses;
    for (chunk_id c = 0; c < reuses->chunk_count; c++) {
        uint32_t uses = tier->left_out[c] ? 0 : reuses->first[c + 1];
        reuses->first[c + 1] = reuses->first[c] + uses;
    }
    reuses->count = reuses->first[reuses->chunk_count];
    reuses->items = g_new0(struct reuse, reuses->count);
}

/* ---- intervals ---- */

/* Ends the chunk's interval at a use, and begins the next one. */
static void add_use(const struct tier *tier, chunk_id chunk, uint32_t moment, uint32_t flags)
{
    struct reuses *reuses = tier->reuses;
    if (tier->left_out[chunk])
        return;
    uint32_t first = reuses->first[chunk], end = reuses->first[chunk + 1], open = tier->open[chunk];
    uint32_t next = open == NO_INDEX ? first : open + 1;
    struct reuse *before = &reuses->items[open == NO_INDEX ? end - 1 : open];
    before->to = moment;
    before->flags |= flags & ACCESS_FRESH ? 0 : REUSE_REFETCH;
    reuses->items[next].chunk = chunk;
    reuses->items[next].from = moment;
    reuses->items[next].flags |= (flags & ACCESS_WRITES ? REUSE_DIRTIES : 0u) |
                                 (flags & ACCESS_LAST ? REUSE_DEAD : 0u);
    tier->open[chunk] = next;
}

static uint32_t flags_of(const struct tier_updates *updates)
{
    return (updates->fresh ? ACCESS_FRESH : 0u) | (updates->writes ? ACCESS_WRITES : 0u) |
           (updates->dead ? ACCESS_LAST : 0u);
}

/* What begins with the updates takes room from the moment on at which they are over. */
static void begin_when_over(const struct tier *tier, chunk_id chunk)
{
    const uint32_t over = tier->updates[chunk].over;
    struct reuse *reuse = &tier->reuses->items[tier->open[chunk]];
    bool ends_later = reuse->to == in_updates(tier) || reuse->to > over;
    if (over == NO_INDEX || !ends_later) {
        reuse->from = before_updates(tier); /* no moment lies between */
        reuse->to = in_updates(tier);
    } else if (over > 0) {
        reuse->from = over - 1;
    }
}

static void add_uses(const struct tier *tier)
{
    const struct accesses *accesses = tier->accesses;
    for (uint32_t m = 0; m < tier->order.first_update; m++)
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++)
            add_use(tier, accesses->items[a].chunk, m, accesses->items[a].flags);
    for (chunk_id c = 0; c < tier->layout->chunk_count; c++) {
        if (!tier->updates[c].any || tier->left_out[c])
            continue;
        add_use(tier, c, in_updates(tier), flags_of(&tier->updates[c]));
        begin_when_over(tier, c);
    }
}

/* ---- room ---- */

static int64_t bytes_used(const struct tier *tier, uint32_t m)
{
    int64_t bytes = 0;
    for (uint32_t a = tier->accesses->first[m]; a < tier->accesses->first[m + 1]; a++) {
        const struct chunk_access *access = &tier->accesses->items[a];
        if (!(access->flags & ACCESS_ON_HOST))
            bytes += (int64_t)tier->layout->chunks[access->chunk].copy_bytes;
    }
    return bytes;
}

/* Where the device does not work in order, all that is there at the device's next operator counts,
 * that operator's chunks too. */
static void find_room(const struct tier *tier, const uint64_t *non_model)
{
    uint64_t device = MIN(tier->plan->device_budget, INT64_MAX / 2),
             host = MIN(tier->plan->host_budget, INT64_MAX / 2);
    for (uint32_t m = 0; m < tier->reuses->moment_count; m++) {
        tier->reuses->room[m] = (int64_t)(device + host);
        if (m < tier->order.first_update && nvme_order_has(&tier->trace->operators[m]))
            tier->reuses->room[m] -= (int64_t)non_model[m] + bytes_used(tier, m);
    }
}

/* What moves are copy bytes, and so is the room that a chunk takes at least. */
static struct reuses *begin_reuses(const struct layout *layout, uint32_t moments)
{
    struct reuses *reuses = reuses_begin(layout->chunk_count, moments);
    for (chunk_id c = 0; c < layout->chunk_count; c++) {
        uint64_t bytes = layout->chunks[c].copy_bytes;
        reuses->slot_bytes[c] = reuses->copy_bytes[c] = reuses->worth[c] = bytes;
    }
    return reuses;
}

static void fill(struct tier *tier, const uint64_t *non_model)
{
    uint32_t chunks = tier->layout->chunk_count;
    tier->reuses = begin_reuses(tier->layout, in_updates(tier) + 1);
    tier->left_out = g_new0(uint8_t, chunks);
    tier->updates = g_new0(struct tier_updates, chunks);
    tier->open = g_new(uint32_t, chunks);
    for (chunk_id c = 0; c < chunks; c++)
        tier->open[c] = NO_INDEX;
    note_uses(tier);
    count_reuses(tier);
    add_uses(tier);
    find_room(tier, non_model);
    reuses_find_writes(tier->reuses);
    g_free(tier->left_out);
    g_free(tier->updates);
    g_free(tier->open);
}

struct reuses *nvme_reuses_new(const struct plan *plan, const struct trace *trace)
{
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, plan->layout, non_model->extent);
    struct tier tier = {
        plan, trace, plan->layout, accesses, nvme_order_of(trace, plan->layout, accesses),
        NULL, NULL,  NULL,         NULL};
    fill(&tier, non_model->extent);
    nvme_order_clear(&tier.order);
    accesses_free(accesses);
    non_model_free(non_model);
    return tier.reuses;
}
