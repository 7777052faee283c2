#include "policies/headroom.h"

#include <glib.h>

/* Moments are grouped into blocks. Each block knows its lowest value and what was taken from all of
 * its moments, so that a long range costs one step a block. Of two and three levels, several block
 * sizes and a segment tree, this is the fastest for the planner's operations (800 to 3,000
 * moments).
 */
enum { BLOCK = 16 };

/* The value of the moments that pad the last block. */
#define PADDING (INT64_MAX / 2)

struct headroom {
    uint32_t moment_count, block_count;
    int64_t *bytes; /* [block_count * BLOCK] without what was taken from the whole block */
    int64_t *least; /* [block_count] lowest value, with everything taken */
    int64_t *taken; /* [block_count] from each moment of the block */
};

static void find_least(struct headroom *headroom, uint32_t block)
{
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < BLOCK; i++)
        least = MIN(least, headroom->bytes[block * BLOCK + i]);
    headroom->least[block] = least - headroom->taken[block];
}

struct headroom *headroom_new(const int64_t *bytes, uint32_t moment_count)
{
    struct headroom *headroom = g_new(struct headroom, 1);
    uint32_t blocks = (moment_count + BLOCK - 1) / BLOCK;
    *headroom = (struct headroom){.moment_count = moment_count,
                                  .block_count = blocks,
                                  .bytes = g_new(int64_t, (size_t)blocks * BLOCK),
                                  .least = g_new(int64_t, blocks),
                                  .taken = g_new(int64_t, blocks)};
    headroom_reset(headroom, bytes);
    return headroom;
}

void headroom_free(struct headroom *headroom)
{
    if (!headroom)
        return;
    g_free(headroom->bytes);
    g_free(headroom->least);
    g_free(headroom->taken);
    g_free(headroom);
}

void headroom_reset(struct headroom *headroom, const int64_t *bytes)
{
    for (uint32_t m = 0; m < headroom->block_count * BLOCK; m++)
        headroom->bytes[m] = m < headroom->moment_count ? bytes[m] : PADDING;
    for (uint32_t block = 0; block < headroom->block_count; block++) {
        headroom->taken[block] = 0;
        find_least(headroom, block);
    }
}

int64_t headroom_at(const struct headroom *headroom, moment_id moment)
{
    return headroom->bytes[moment] - headroom->taken[moment / BLOCK];
}

/* The moments [begin, end) lie in one block. */
static void take_part(struct headroom *headroom, uint32_t begin, uint32_t end, int64_t bytes)
{
    for (uint32_t m = begin; m < end; m++)
        headroom->bytes[m] -= bytes;
    find_least(headroom, begin / BLOCK);
}

static void take_between(struct headroom *headroom, uint32_t begin, uint32_t end, int64_t bytes)
{
    uint32_t first = (begin + BLOCK - 1) / BLOCK,
             last = end / BLOCK; /* whole blocks: [first, last) */
    if (begin >= end)
        return;
    if (first > last) {
        take_part(headroom, begin, end, bytes);
        return;
    }
    if (begin < first * BLOCK)
        take_part(headroom, begin, first * BLOCK, bytes);
    for (uint32_t block = first; block < last; block++) {
        headroom->taken[block] += bytes;
        headroom->least[block] -= bytes;
    }
    if (last * BLOCK < end)
        take_part(headroom, last * BLOCK, end, bytes);
}

void headroom_take(struct headroom *headroom, uint32_t first, uint32_t length, int64_t bytes)
{
    uint32_t end = MIN(first + length, headroom->moment_count);
    take_between(headroom, first, end, bytes);
    take_between(headroom, 0, first + length - end, bytes);
}

static uint32_t first_below_between(const struct headroom *headroom, uint32_t begin, uint32_t end,
                                    int64_t bytes)
{
    for (uint32_t m = begin; m < end; m = (m / BLOCK + 1) * BLOCK) {
        if (headroom->least[m / BLOCK] >= bytes)
            continue;
        uint32_t until = MIN((m / BLOCK + 1) * BLOCK, end);
        for (uint32_t i = m; i < until; i++)
            if (headroom_at(headroom, i) < bytes)
                return i;
    }
    return NO_INDEX;
}

uint32_t headroom_first_below(const struct headroom *headroom, uint32_t first, uint32_t length,
                              int64_t bytes)
{
    uint32_t end = MIN(first + length, headroom->moment_count);
    uint32_t found = first_below_between(headroom, first, end, bytes);
    return found != NO_INDEX ? found
                             : first_below_between(headroom, 0, first + length - end, bytes);
}

/* The moments [begin, end), at least one, lie in one block. */
static int64_t least_of_part(const struct headroom *headroom, uint32_t begin, uint32_t end)
{
    int64_t least = headroom->bytes[begin];
    for (uint32_t m = begin + 1; m < end; m++)
        least = MIN(least, headroom->bytes[m]);
    return least - headroom->taken[begin / BLOCK];
}

static int64_t least_between(const struct headroom *headroom, uint32_t begin, uint32_t end)
{
    uint32_t first = (begin + BLOCK - 1) / BLOCK,
             last = end / BLOCK; /* whole blocks: [first, last) */
    int64_t least = INT64_MAX;
    if (begin >= end)
        return least;
    if (first > last)
        return least_of_part(headroom, begin, end);
    for (uint32_t block = first; block < last; block++)
        least = MIN(least, headroom->least[block]);
    if (begin < first * BLOCK)
        least = MIN(least, least_of_part(headroom, begin, first * BLOCK));
    if (last * BLOCK < end)
        least = MIN(least, least_of_part(headroom, last * BLOCK, end));
    return least;
}

int64_t headroom_least(const struct headroom *headroom, uint32_t first, uint32_t length)
{
    uint32_t end = MIN(first + length, headroom->moment_count);
    return MIN(least_between(headroom, first, end),
               least_between(headroom, 0, first + length - end));
}
