#include "planner/schedule/stays.h"

#include <math.h>

struct stayer {
    chunk_id chunk;
    double gain; /* copies saved for the share of the iteration in which the chunk takes room */
};

static int most_gain_first(const void *left, const void *right)
{
    const struct stayer *a = left, *b = right;
    if (a->gain != b->gain)
        return a->gain > b->gain ? -1 : 1;
    return a->chunk < b->chunk ? -1 : 1;
}

/* Returns the share of the moments at which the chunk must be on the device or is kept there. */
static double share_of(const struct reuses *reuses, chunk_id chunk)
{
    uint32_t moments = 0;
    for (uint32_t g = reuses->first[chunk]; g < reuses->first[chunk + 1]; g++)
        moments += 1 + (reuse_can_retain(&reuses->items[g]) ? reuse_span(reuses, &reuses->items[g])
                                                            : 0);
    return (double)MAX(moments, 1) / reuses->moment_count;
}

static bool may_stay(const struct layout *layout, const struct reuses *reuses, chunk_id chunk)
{
    for (uint32_t g = reuses->first[chunk]; g < reuses->first[chunk + 1]; g++)
        if (reuses->items[g].flags & REUSE_FLUSH)
            return false;
    return layout->chunks[chunk].list != TRACE_GATHERED &&
           reuses->first[chunk] < reuses->first[chunk + 1];
}

static GArray *rank_stayers(const struct layout *layout, const struct retention *free_choice)
{
    const struct reuses *reuses = free_choice->reuses;
    GArray *stayers = g_array_new(FALSE, FALSE, sizeof(struct stayer));
    for (chunk_id c = 0; c < reuses->chunk_count; c++) {
        if (!may_stay(layout, reuses, c))
            continue;
        struct reuse_copies copies = reuses_chunk_copies(reuses, c, free_choice->retained);
        uint32_t count = copies.fetches + copies.writes;
        struct stayer stayer = {c, count ? count / share_of(reuses, c) : INFINITY};
        g_array_append_val(stayers, stayer);
    }
    g_array_sort(stayers, most_gain_first);
    return stayers;
}

uint8_t *stays_choose(const struct layout *layout, const struct retention *free_choice,
                      uint64_t excess)
{
    g_autoptr(GArray) stayers = rank_stayers(layout, free_choice);
    uint8_t *stays = g_new0(uint8_t, layout->chunk_count);
    uint64_t bytes = 0;
    for (guint i = 0; i < stayers->len && bytes < excess; i++) {
        chunk_id chunk = g_array_index(stayers, struct stayer, i).chunk;
        stays[chunk] = 1;
        bytes += layout->chunks[chunk].copy_bytes;
    }
    if (bytes < excess)
        g_clear_pointer(&stays, g_free);
    return stays;
}
