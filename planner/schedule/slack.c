#include "planner/schedule/slack.h"

#include <glib.h>

/* Moments go in blocks, of which each knows its least and what was taken of all of it, so that long
 * stretches are not walked moment by moment. */
enum { BLOCK = 8 };
#define ENOUGH (INT64_MAX / 2)

struct slack {
    uint32_t moment_count, block_count;
    int64_t *left;  /* [block_count * BLOCK] but for what was taken of the whole block; ENOUGH
                       where there is no moment */
    int64_t *least; /* [block_count] of the block, whatever was taken */
    int64_t *taken; /* [block_count] of the whole block */
};

static void find_least(struct slack *slack, uint32_t block)
{
    int64_t least = INT64_MAX;

    for (uint32_t i = 0; i < BLOCK; i++)
        least = MIN(least, slack->left[block * BLOCK + i]);
    slack->least[block] = least - slack->taken[block];
}

struct slack *slack_new(const int64_t *room, uint32_t moment_count)
{
    struct slack *slack = g_new(struct slack, 1);
    uint32_t blocks = (moment_count + BLOCK - 1) / BLOCK;

    *slack = (struct slack){.moment_count = moment_count,
                            .block_count = blocks,
                            .left = g_new(int64_t, (size_t)blocks * BLOCK),
                            .least = g_new(int64_t, blocks),
                            .taken = g_new(int64_t, blocks)};
    slack_reset(slack, room);
    return slack;
}

void slack_free(struct slack *slack)
{
    if (!slack)
        return;
    g_free(slack->left);
    g_free(slack->least);
    g_free(slack->taken);
    g_free(slack);
}

void slack_reset(struct slack *slack, const int64_t *room)
{
    for (uint32_t m = 0; m < slack->block_count * BLOCK; m++)
        slack->left[m] = m < slack->moment_count ? room[m] : ENOUGH;
    for (uint32_t block = 0; block < slack->block_count; block++) {
        slack->taken[block] = 0;
        find_least(slack, block);
    }
}

int64_t slack_at(const struct slack *slack, uint32_t moment)
{
    return slack->left[moment] - slack->taken[moment / BLOCK];
}

static void take_part(struct slack *slack, uint32_t begin, uint32_t end, int64_t bytes)
{
    for (uint32_t m = begin; m < end; m++)
        slack->left[m] -= bytes;
    find_least(slack, begin / BLOCK);
}

void slack_take(struct slack *slack, uint32_t begin, uint32_t end, int64_t bytes)
{
    uint32_t first = (begin + BLOCK - 1) / BLOCK, last = end / BLOCK; /* whole: [first, last) */

    if (begin >= end)
        return;
    if (first > last) {
        take_part(slack, begin, end, bytes);
        return;
    }
    if (begin < first * BLOCK)
        take_part(slack, begin, first * BLOCK, bytes);
    for (uint32_t block = first; block < last; block++) {
        slack->taken[block] += bytes;
        slack->least[block] -= bytes;
    }
    if (last * BLOCK < end)
        take_part(slack, last * BLOCK, end, bytes);
}

uint32_t slack_lacking(const struct slack *slack, uint32_t begin, uint32_t end, int64_t bytes)
{
    for (uint32_t m = begin; m < end; m = (m / BLOCK + 1) * BLOCK) {
        if (slack->least[m / BLOCK] >= bytes)
            continue;
        uint32_t until = MIN((m / BLOCK + 1) * BLOCK, end);
        for (uint32_t i = m; i < until; i++)
            if (slack_at(slack, i) < bytes)
                return i;
    }
    return end;
}
