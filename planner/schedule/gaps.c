#include "planner/schedule/gaps.h"

/* Uses on the device a chunk. */
static void count_uses(const struct accesses *accesses, const struct homes *homes,
                       struct gaps *gaps)
{
    for (uint32_t a = 0; a < accesses->count; a++) {
        const struct chunk_access *access = &accesses->items[a];
        if (!(access->flags & ACCESS_ON_HOST) && !homes->on_device[access->chunk])
            gaps->first[access->chunk + 1]++;
    }
    for (uint32_t c = 0; c < gaps->chunk_count; c++)
        gaps->first[c + 1] += gaps->first[c];
    gaps->count = gaps->first[gaps->chunk_count];
}

/* A use on the device closes the gap before it and opens one. `last` is the chunk's open gap. */
static void add_use(struct gaps *gaps, uint32_t chunk, uint32_t moment, uint32_t flags,
                    uint32_t *last)
{
    uint32_t first = gaps->first[chunk], end = gaps->first[chunk + 1];
    uint32_t next = *last == NO_INDEX ? first : *last + 1;
    uint32_t before = next == first ? end - 1 : *last;
    struct gap *gap = &gaps->items[next];

    gap->chunk = chunk;
    gap->from = moment;
    gap->flags |= flags & ACCESS_WRITES ? GAP_DIRTIES : 0;
    gap->flags |= flags & ACCESS_LAST ? GAP_DEAD : 0;
    gaps->items[before].to = moment;
    gaps->items[before].flags |= flags & ACCESS_FRESH ? 0 : GAP_REFETCH;
    *last = next;
}

/* A use on the host falls into the open gap, or into the one that wraps round. */
static void add_host_use(struct gaps *gaps, uint32_t chunk, uint32_t moment, uint32_t flags,
                         uint32_t last)
{
    if (gaps->first[chunk] == gaps->first[chunk + 1])
        return;
    bool wraps = last == NO_INDEX;
    struct gap *gap = &gaps->items[wraps ? gaps->first[chunk + 1] - 1 : last];
    uint32_t when = moment + (wraps ? gaps->moment_count : 0);

    if (!(gap->flags & GAP_FLUSH))
        gap->host_first = gap->host_last = when;
    gap->host_first = MIN(gap->host_first, when);
    gap->host_last = MAX(gap->host_last, when);
    gap->flags |= GAP_FLUSH | (flags & ACCESS_WRITES ? GAP_LEAVES : 0);
}

static void add_uses(const struct accesses *accesses, const struct homes *homes, struct gaps *gaps)
{
    g_autofree uint32_t *last = g_new(uint32_t, gaps->chunk_count);

    memset(last, 0xff, gaps->chunk_count * sizeof *last);
    for (uint32_t m = 0; m < gaps->moment_count; m++)
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            const struct chunk_access *access = &accesses->items[a];
            if (homes->on_device[access->chunk])
                continue;
            if (access->flags & ACCESS_ON_HOST)
                add_host_use(gaps, access->chunk, m, access->flags, last[access->chunk]);
            else
                add_use(gaps, access->chunk, m, access->flags, &last[access->chunk]);
        }
}

static void find_room(const struct accesses *accesses, const struct homes *homes,
                      uint64_t device_bytes, struct gaps *gaps)
{
    for (uint32_t m = 0; m < gaps->moment_count; m++) {
        gaps->room[m] = (int64_t)device_bytes -
                        (int64_t)(accesses->non_model[m] + homes->device_bytes);
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            const struct chunk_access *access = &accesses->items[a];
            if (!(access->flags & ACCESS_ON_HOST) && !homes->on_device[access->chunk])
                gaps->room[m] -= (int64_t)gaps->bytes[access->chunk];
        }
    }
}

struct gaps *gaps_new(const struct trace *trace, const struct layout *layout,
                      const struct accesses *accesses, const struct homes *homes,
                      uint64_t device_bytes)
{
    struct gaps *gaps = g_new0(struct gaps, 1);
    uint32_t chunks = layout->chunk_count;

    gaps->moment_count = accesses->moment_count;
    gaps->chunk_count = chunks;
    gaps->first = g_new0(uint32_t, chunks + 1);
    gaps->bytes = g_new(uint64_t, chunks);
    gaps->used = g_new(uint64_t, chunks);
    gaps->room = g_new(int64_t, accesses->moment_count);
    for (uint32_t c = 0; c < chunks; c++) {
        gaps->bytes[c] = layout->chunks[c].bytes;
        gaps->used[c] = layout->chunks[c].used;
    }
    count_uses(accesses, homes, gaps);
    gaps->items = g_new0(struct gap, gaps->count);
    add_uses(accesses, homes, gaps);
    find_room(accesses, homes, device_bytes, gaps);
    for (uint32_t m = 0; m < trace->operator_count; m++)
        gaps->activation_bytes += trace->operators[m].h2d_bytes + trace->operators[m].d2h_bytes;
    return gaps;
}

void gaps_free(struct gaps *gaps)
{
    if (!gaps)
        return;
    g_free(gaps->first);
    g_free(gaps->items);
    g_free(gaps->bytes);
    g_free(gaps->used);
    g_free(gaps->room);
    g_free(gaps);
}

uint32_t gaps_span(const struct gaps *gaps, const struct gap *gap)
{
    uint32_t to = gap->to > gap->from ? gap->to : gap->to + gaps->moment_count;
    return to - gap->from - 1;
}

bool gaps_can_keep(const struct gap *gap)
{
    return gap->flags & GAP_REFETCH && !(gap->flags & GAP_LEAVES);
}

/* The state after the use and the gap that follows it, and what the gap costs. */
static bool pass(const struct gap *gap, bool keep, bool dirty, struct gaps_copies *copies)
{
    dirty = (dirty || gap->flags & GAP_DIRTIES) && !(gap->flags & GAP_DEAD);
    if (dirty && (gap->flags & GAP_FLUSH || !keep)) {
        copies->writes++;
        dirty = false;
    }
    copies->fetches += !keep && gap->flags & GAP_REFETCH;
    return dirty;
}

struct gaps_copies gaps_chunk_copies(const struct gaps *gaps, uint32_t chunk, const uint8_t *keep)
{
    struct gaps_copies copies = {0, 0};
    bool dirty = false;

    /* The first round finds how the iteration begins. */
    for (int round = 0; round < 2; round++) {
        copies = (struct gaps_copies){0, 0};
        for (uint32_t g = gaps->first[chunk]; g < gaps->first[chunk + 1]; g++)
            dirty = pass(&gaps->items[g], keep[g], dirty, &copies);
    }
    return copies;
}

uint64_t gaps_chunk_traffic(const struct gaps *gaps, uint32_t chunk, const uint8_t *keep)
{
    struct gaps_copies copies = gaps_chunk_copies(gaps, chunk, keep);
    return (uint64_t)(copies.fetches + copies.writes) * gaps->used[chunk];
}

static bool is_written_back(const struct gap *gap, bool keep)
{
    return !keep || gap->flags & GAP_FLUSH;
}

/* Whether the chunk is dirty in the gap, if nothing is written back in it. */
static bool is_dirty(const struct gaps *gaps, uint32_t g, const uint8_t *keep)
{
    uint32_t chunk = gaps->items[g].chunk, first = gaps->first[chunk], h = g;

    do {
        if (gaps->items[h].flags & GAP_DEAD)
            return false;
        if (gaps->items[h].flags & GAP_DIRTIES)
            return true;
        h = (h > first ? h : gaps->first[chunk + 1]) - 1;
    } while (h != g && !is_written_back(&gaps->items[h], keep[h]));
    return false;
}

/* Whether what is dirty in the gap is written again, or dies, before it must be written back. */
static bool need_not_return(const struct gaps *gaps, uint32_t g, const uint8_t *keep)
{
    uint32_t chunk = gaps->items[g].chunk, end = gaps->first[chunk + 1], h = g;

    do {
        h = h + 1 < end ? h + 1 : gaps->first[chunk];
        if (gaps->items[h].flags & (GAP_DEAD | GAP_DIRTIES))
            return true;
    } while (h != g && !is_written_back(&gaps->items[h], keep[h]));
    return false;
}

uint64_t gaps_saved(const struct gaps *gaps, uint32_t g, const uint8_t *keep)
{
    const struct gap *gap = &gaps->items[g];
    bool write = !(gap->flags & GAP_FLUSH) && is_dirty(gaps, g, keep) &&
                 need_not_return(gaps, g, keep);
    bool fetch = gap->flags & GAP_REFETCH;

    return (uint64_t)(write + fetch) * gaps->used[gap->chunk];
}

uint64_t gaps_traffic(const struct gaps *gaps, const uint8_t *keep)
{
    uint64_t traffic = gaps->activation_bytes;

    for (uint32_t c = 0; c < gaps->chunk_count; c++)
        traffic += gaps_chunk_traffic(gaps, c, keep);
    return traffic;
}

uint32_t gaps_find(const struct gaps *gaps, uint32_t chunk, uint32_t moment)
{
    uint32_t low = gaps->first[chunk], end = gaps->first[chunk + 1], high = end;

    g_assert(low < end);
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (gaps->items[middle].from < moment)
            low = middle + 1;
        else
            high = middle;
    }
    return low == gaps->first[chunk] ? end - 1 : low - 1;
}
