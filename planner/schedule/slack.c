#include "planner/schedule/slack.h"

#include <glib.h>

/* Moments go in blocks, of which each knows its least and what was taken of all of it, so that long
 * stretches are not walked moment by moment. */
enum { BLOCK = 8 };
#define ENOUGH (INT64_MAX / 2)

struct headroom {
    uint32_t moment_count, block_count;
    int64_t *left;  /* [block_count * BLOCK] but for what was taken of the whole block; ENOUGH
                       where there is no moment */
    int64_t *least; /* [block_count] of the block, whatever was taken */
    int64_t *taken; /* [block_count] of the whole block */
};

static void find_least(struct headroom *headroom, uint32_t block)
{
    int64_t least = INT64_MAX;

    for (uint32_t i = 0; i < BLOCK; i++)
        least = MIN(least, headroom->left[block * BLOCK + i]);
    headroom->least[block] = least - headroom->taken[block];
}

struct headroom *headroom_new(const int64_t *room, uint32_t moment_count)
{
    struct headroom *headroom = g_new(struct headroom, 1);
    uint32_t blocks = (moment_count + BLOCK - 1) / BLOCK;

    *headroom = (struct headroom){.moment_count = moment_count,
                                  .block_count = blocks,
                                  .left = g_new(int64_t, (size_t)blocks * BLOCK),
                                  .least = g_new(int64_t, blocks),
                                  .taken = g_new(int64_t, blocks)};
    headroom_reset(headroom, room);
    return headroom;
}

void headroom_free(struct headroom *headroom)
{
    if (!headroom)
        return;
    g_free(headroom->left);
    g_free(headroom->least);
    g_free(headroom->taken);
    g_free(headroom);
}

void headroom_reset(struct headroom *headroom, const int64_t *room)
{
    for (uint32_t m = 0; m < headroom->block_count * BLOCK; m++)
        headroom->left[m] = m < headroom->moment_count ? room[m] : ENOUGH;
    for (uint32_t block = 0; block < headroom->block_count; block++) {
        headroom->taken[block] = 0;
        find_least(headroom, block);
    }
}

int64_t headroom_at(const struct headroom *headroom, uint32_t moment)
{
    return headroom->left[moment] - headroom->taken[moment / BLOCK];
}

static void take_part(struct headroom *headroom, uint32_t begin, uint32_t end, int64_t bytes)
{
    for (uint32_t m = begin; m < end; m++)
        headroom->left[m] -= bytes;
    find_least(headroom, begin / BLOCK);
}

void headroom_take(struct headroom *headroom, uint32_t begin, uint32_t end, int64_t bytes)
{
    uint32_t first = (begin + BLOCK - 1) / BLOCK, last = end / BLOCK; /* whole: [first, last) */

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

uint32_t headroom_first_below(const struct headroom *headroom, uint32_t begin, uint32_t end,
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
    return end;
}
