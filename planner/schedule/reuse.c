#include "planner/schedule/reuse.h"

#include <string.h>

/* Counts the uses of each chunk on the device. */
static void count_uses(const struct accesses *accesses, const struct homes *homes,
                       struct reuses *reuses)
{
    for (uint32_t a = 0; a < accesses->count; a++) {
        const struct chunk_access *access = &accesses->items[a];
        if (!(access->flags & ACCESS_ON_HOST) && !homes->on_device[access->chunk])
            reuses->first[access->chunk + 1]++;
    }
    for (uint32_t c = 0; c < reuses->chunk_count; c++)
        reuses->first[c + 1] += reuses->first[c];
    reuses->count = reuses->first[reuses->chunk_count];
}

/* A use on the device ends the interval before it and begins one; `last` is the chunk's open
 * interval. */
static void add_use(struct reuses *reuses, chunk_id chunk, moment_id moment, uint32_t flags,
                    uint32_t *last)
{
    uint32_t first = reuses->first[chunk], end = reuses->first[chunk + 1];
    uint32_t next = *last == NO_INDEX ? first : *last + 1;
    uint32_t before = next == first ? end - 1 : *last;
    struct reuse *reuse = &reuses->items[next];
    reuse->chunk = chunk;
    reuse->from = moment;
    reuse->flags |= flags & ACCESS_WRITES ? REUSE_DIRTIES : 0;
    reuse->flags |= flags & ACCESS_LAST ? REUSE_DEAD : 0;
    reuses->items[before].to = moment;
    reuses->items[before].flags |= flags & ACCESS_FRESH ? 0 : REUSE_REFETCH;
    *last = next;
}

/* A use on the host falls into the open interval, or into the one that wraps around. */
static void add_host_use(struct reuses *reuses, chunk_id chunk, moment_id moment, uint32_t flags,
                         uint32_t last)
{
    if (reuses->first[chunk] == reuses->first[chunk + 1])
        return;
    bool wraps = last == NO_INDEX;
    struct reuse *reuse = &reuses->items[wraps ? reuses->first[chunk + 1] - 1 : last];
    uint32_t when = moment + (wraps ? reuses->moment_count : 0);

    if (!(reuse->flags & REUSE_FLUSH))
        reuse->host_first = reuse->host_last = when;
    reuse->host_first = MIN(reuse->host_first, when);
    reuse->host_last = MAX(reuse->host_last, when);
    reuse->flags |= REUSE_FLUSH | (flags & ACCESS_WRITES ? REUSE_LEAVES : 0);
}

static void add_uses(const struct accesses *accesses, const struct homes *homes,
                     struct reuses *reuses)
{
    g_autofree uint32_t *last = g_new(uint32_t, reuses->chunk_count);
    memset(last, 0xff, reuses->chunk_count * sizeof *last);
    for (uint32_t m = 0; m < reuses->moment_count; m++)
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            const struct chunk_access *access = &accesses->items[a];
            if (homes->on_device[access->chunk])
                continue;
            if (access->flags & ACCESS_ON_HOST)
                add_host_use(reuses, access->chunk, m, access->flags, last[access->chunk]);
            else
                add_use(reuses, access->chunk, m, access->flags, &last[access->chunk]);
        }
}

static void find_room(const struct accesses *accesses, const struct homes *homes,
                      uint64_t device_budget, struct reuses *reuses)
{
    for (uint32_t m = 0; m < reuses->moment_count; m++) {
        reuses->room[m] = (int64_t)device_budget -
                          (int64_t)(accesses->non_model[m] + homes->device_slot_bytes);
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            const struct chunk_access *access = &accesses->items[a];
            if (!(access->flags & ACCESS_ON_HOST) && !homes->on_device[access->chunk])
                reuses->room[m] -= (int64_t)reuses->slot_bytes[access->chunk];
        }
    }
}

/* Adds what the chunk takes between two uses to `change` [moment_count + 1], which holds for each
 * moment what is taken beyond the moment before. */
static void hold(struct reuses *reuses, struct reuse *reuse, int64_t *change)
{
    uint32_t n = reuses->moment_count, span = reuse_span(reuses, reuse);
    int64_t bytes = (int64_t)reuses->slot_bytes[reuse->chunk];
    uint32_t begin = (reuse->from + 1) % n, end = begin + span;
    reuse->flags |= REUSE_STAYS;
    change[begin] += bytes;
    change[MIN(end, n)] -= bytes;
    if (end > n) {
        change[0] += bytes;
        change[end - n] -= bytes;
    }
}

/* Holds the chunks of `stays`. Those of gradients and activations need no slot while they are dead
 * (find_slots in chunks/plan.c). */
static void hold_chunks(struct reuses *reuses, const struct layout *layout, const uint8_t *stays)
{
    g_autofree int64_t *change = g_new0(int64_t, reuses->moment_count + 1);
    int64_t held = 0;
    for (uint32_t g = 0; g < reuses->count; g++) {
        struct reuse *reuse = &reuses->items[g];
        uint8_t list = layout->chunks[reuse->chunk].list;
        bool dies = list == TRACE_GRAD || list == TRACE_ACTIVATION;
        if (stays[reuse->chunk] && (!dies || reuse_can_retain(reuse)))
            hold(reuses, reuse, change);
    }
    for (uint32_t m = 0; m < reuses->moment_count; m++) {
        held += change[m];
        reuses->room[m] -= held;
    }
}

/* Finds the writes before the intervals of a chunk, and what makes a write-back needless behind
 * them. The first round finds how the iteration begins and ends. */
static void find_writes(struct reuses *reuses, chunk_id chunk)
{
    uint32_t first = reuses->first[chunk], end = reuses->first[chunk + 1];
    uint32_t source = NO_INDEX, sink = NO_INDEX;
    for (int round = 0; round < 2; round++) {
        for (uint32_t g = first; g < end; g++) {
            uint32_t flags = reuses->items[g].flags;
            if (flags & (REUSE_DEAD | REUSE_DIRTIES))
                source = flags & REUSE_DEAD ? NO_INDEX : g;
            reuses->items[g].source = source;
            if (flags & REUSE_FLUSH)
                source = NO_INDEX;
        }
        for (uint32_t g = end; g-- > first;) {
            uint32_t flags = reuses->items[g].flags;
            reuses->items[g].sink = sink;
            if (flags & (REUSE_DEAD | REUSE_DIRTIES))
                sink = g;
            else if (flags & REUSE_FLUSH)
                sink = NO_INDEX;
        }
    }
}

void reuses_find_writes(struct reuses *reuses)
{
    for (uint32_t c = 0; c < reuses->chunk_count; c++)
        find_writes(reuses, c);
}

struct reuses *reuses_begin(uint32_t chunk_count, uint32_t moment_count)
{
    struct reuses *reuses = g_new0(struct reuses, 1);
    reuses->moment_count = moment_count;
    reuses->chunk_count = chunk_count;
    reuses->first = g_new0(uint32_t, chunk_count + 1);
    reuses->slot_bytes = g_new(uint64_t, chunk_count);
    reuses->copy_bytes = g_new(uint64_t, chunk_count);
    reuses->worth = g_new(uint64_t, chunk_count);
    reuses->room = g_new(int64_t, moment_count);
    return reuses;
}

struct reuses *reuses_new(const struct trace *trace, const struct layout *layout,
                          const struct accesses *accesses, const struct homes *homes,
                          const uint8_t *stays, uint64_t device_budget)
{
    uint32_t chunks = layout->chunk_count;
    struct reuses *reuses = reuses_begin(chunks, accesses->moment_count);
    for (uint32_t c = 0; c < chunks; c++) {
        reuses->slot_bytes[c] = layout->chunks[c].slot_bytes;
        reuses->worth[c] = layout->chunks[c].copy_bytes;
        reuses->copy_bytes[c] = layout->chunks[c].list == TRACE_GATHERED ? 0 : reuses->worth[c];
    }
    count_uses(accesses, homes, reuses);
    reuses->items = g_new0(struct reuse, reuses->count);
    add_uses(accesses, homes, reuses);
    find_room(accesses, homes, device_budget, reuses);
    hold_chunks(reuses, layout, stays ? stays : homes->transient);
    reuses_find_writes(reuses);
    for (uint32_t m = 0; m < trace->operator_count; m++)
        reuses->activation_bytes += trace->operators[m].h2d_bytes + trace->operators[m].d2h_bytes;
    return reuses;
}

void reuses_free(struct reuses *reuses)
{
    if (!reuses)
        return;
    g_free(reuses->first);
    g_free(reuses->items);
    g_free(reuses->slot_bytes);
    g_free(reuses->copy_bytes);
    g_free(reuses->worth);
    g_free(reuses->room);
    g_free(reuses);
}

uint32_t reuse_span(const struct reuses *reuses, const struct reuse *reuse)
{
    uint32_t to = reuse->to > reuse->from ? reuse->to : reuse->to + reuses->moment_count;
    return to - reuse->from - 1;
}

bool reuse_can_retain(const struct reuse *reuse)
{
    return !(reuse->flags & (REUSE_LEAVES | REUSE_STAYS)) &&
           (reuse->flags & REUSE_REFETCH || !(reuse->flags & (REUSE_DEAD | REUSE_FLUSH)));
}

/* Adds the copies of one interval, and returns whether the chunk is dirty after it. */
static bool pass(const struct reuse *reuse, bool retained, bool dirty, struct reuse_copies *copies)
{
    dirty = (dirty || reuse->flags & REUSE_DIRTIES) && !(reuse->flags & REUSE_DEAD);
    if (dirty && (reuse->flags & REUSE_FLUSH || !retained)) {
        copies->writes++;
        dirty = false;
    }
    copies->fetches += !retained && reuse->flags & REUSE_REFETCH;
    return dirty;
}

struct reuse_copies reuses_chunk_copies(const struct reuses *reuses, uint32_t chunk,
                                        const uint8_t *retained)
{
    struct reuse_copies copies = {0, 0};
    bool dirty = false;
    /* The first round finds how the iteration begins. */
    for (int round = 0; round < 2; round++) {
        copies = (struct reuse_copies){0, 0};
        for (uint32_t g = reuses->first[chunk]; g < reuses->first[chunk + 1]; g++)
            dirty = pass(&reuses->items[g], retained[g], dirty, &copies);
    }
    return copies;
}

uint64_t reuses_chunk_traffic(const struct reuses *reuses, chunk_id chunk, const uint8_t *retained)
{
    struct reuse_copies copies = reuses_chunk_copies(reuses, chunk, retained);
    return (uint64_t)(copies.fetches + copies.writes) * reuses->copy_bytes[chunk];
}

/* Returns whether the chunk is dirty in the interval if it is not written back there: nothing since
 * the write has written it back. */
static bool is_dirty(const struct reuses *reuses, uint32_t g, const uint8_t *retained)
{
    uint32_t chunk = reuses->items[g].chunk, first = reuses->first[chunk],
             end = reuses->first[chunk + 1], source = reuses->items[g].source;
    if (source == NO_INDEX)
        return false;
    if (source <= g)
        return !memrchr(retained + source, 0, g - source);
    return !memrchr(retained + first, 0, g - first) && !memrchr(retained + source, 0, end - source);
}

/* Returns whether bytes that are dirty in the interval are overwritten, or die, before they must be
 * written back. */
static bool need_not_return(const struct reuses *reuses, uint32_t g, const uint8_t *retained)
{
    uint32_t chunk = reuses->items[g].chunk, first = reuses->first[chunk],
             end = reuses->first[chunk + 1], sink = reuses->items[g].sink;
    if (sink == NO_INDEX)
        return false;
    if (sink > g)
        return !memchr(retained + g + 1, 0, sink - g - 1);
    return !memchr(retained + g + 1, 0, end - g - 1) && !memchr(retained + first, 0, sink - first);
}

struct reuse_copies reuses_saved(const struct reuses *reuses, uint32_t g, const uint8_t *retained)
{
    const struct reuse *reuse = &reuses->items[g];
    bool write = !(reuse->flags & REUSE_FLUSH) && is_dirty(reuses, g, retained) &&
                 need_not_return(reuses, g, retained);
    return (struct reuse_copies){.fetches = (reuse->flags & REUSE_REFETCH) != 0, .writes = write};
}

/* Returns the epoch that the write before the interval begins. */
static uint32_t epoch_from(const struct reuses *reuses, uint32_t begin)
{
    uint32_t chunk = reuses->items[begin].chunk, h = begin;
    for (uint32_t count = 0;; count++) {
        uint32_t flags = reuses->items[h].flags;
        if (count && (h == begin || flags & (REUSE_DIRTIES | REUSE_DEAD)))
            return count;
        if (flags & (REUSE_FLUSH | REUSE_LEAVES | REUSE_DEAD))
            return 0;
        h = h + 1 < reuses->first[chunk + 1] ? h + 1 : reuses->first[chunk];
    }
}

uint32_t *reuses_epochs(const struct reuses *reuses)
{
    uint32_t *epochs = g_new(uint32_t, reuses->count);
    for (uint32_t c = 0; c < reuses->chunk_count; c++) {
        uint32_t epoch = 0;
        /* The first round finds how the iteration begins. */
        for (int round = 0; round < 2; round++)
            for (uint32_t g = reuses->first[c]; g < reuses->first[c + 1]; g++) {
                uint32_t flags = reuses->items[g].flags;
                if (flags & REUSE_DIRTIES)
                    epoch = epoch_from(reuses, g);
                else if (flags & REUSE_DEAD)
                    epoch = 0;
                epochs[g] = epoch;
            }
    }
    return epochs;
}

uint64_t reuses_traffic(const struct reuses *reuses, const uint8_t *retained)
{
    uint64_t traffic = reuses->activation_bytes;
    for (uint32_t c = 0; c < reuses->chunk_count; c++)
        traffic += reuses_chunk_traffic(reuses, c, retained);
    return traffic;
}

uint32_t reuses_find(const struct reuses *reuses, chunk_id chunk, moment_id moment)
{
    uint32_t low = reuses->first[chunk], end = reuses->first[chunk + 1], high = end;
    g_assert(low < end);
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (reuses->items[middle].from < moment)
            low = middle + 1;
        else
            high = middle;
    }
    return low == reuses->first[chunk] ? end - 1 : low - 1;
}
