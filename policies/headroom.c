#include "policies/headroom.h"

#include <glib.h>
#include <stdbool.h>

/* Moments are grouped into blocks. Each block knows its lowest value and what was taken from all of
 * its moments, so that a long range costs one step a block. Of two and three levels, several block
 * sizes and a segment tree, this is the fastest for the planner's operations (800 to 2,000
 * moments). In longer iterations blocks are grouped in the same way once more: the planner is as
 * fast with 3,800 moments, and opt-dirty saves a fourth of its instructions with 3,083. */
enum { BLOCK = 16, GROUP = BLOCK * BLOCK, LONG = 2048 };

/* The value of the moments that pad the last block. */
#define PADDING (INT64_MAX / 2)

struct headroom {
    uint32_t moment_count, block_count;
    uint32_t group_count; /* of GROUP moments each; 0 if the iteration is not long */
    int64_t *bytes;       /* [block_count * BLOCK] without what was taken from whole blocks */
    int64_t *least;       /* [block_count] lowest value, without what was taken from the group */
    int64_t *taken;       /* [block_count] from each moment of the block, not by groups */
    int64_t *group_least; /* [group_count] lowest value, with everything taken */
    int64_t *group_taken; /* [group_count] from each moment of the group */
};

static int64_t lowest(const int64_t *bytes, uint32_t count)
{
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < count; i++)
        least = MIN(least, bytes[i]);
    return least;
}

static void find_group_least(struct headroom *headroom, uint32_t group)
{
    uint32_t first = group * BLOCK, count = MIN(BLOCK, headroom->block_count - first);
    headroom->group_least[group] = lowest(headroom->least + first, count) -
                                   headroom->group_taken[group];
}

static void find_least(struct headroom *headroom, uint32_t block)
{
    headroom->least[block] = lowest(headroom->bytes + block * BLOCK, BLOCK) -
                             headroom->taken[block];
    if (headroom->group_count)
        find_group_least(headroom, block / BLOCK);
}

static int64_t taken_from_group(const struct headroom *headroom, uint32_t block)
{
    return headroom->group_count ? headroom->group_taken[block / BLOCK] : 0;
}

struct headroom *headroom_new(const int64_t *bytes, uint32_t moment_count)
{
    struct headroom *headroom = g_new(struct headroom, 1);
    uint32_t blocks = (moment_count + BLOCK - 1) / BLOCK;
    uint32_t groups = moment_count > LONG ? (blocks + BLOCK - 1) / BLOCK : 0;
    *headroom = (struct headroom){.moment_count = moment_count,
                                  .block_count = blocks,
                                  .group_count = groups,
                                  .bytes = g_new(int64_t, (size_t)blocks * BLOCK),
                                  .least = g_new(int64_t, blocks),
                                  .taken = g_new(int64_t, blocks),
                                  .group_least = g_new(int64_t, groups),
                                  .group_taken = g_new(int64_t, groups)};
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
    g_free(headroom->group_least);
    g_free(headroom->group_taken);
    g_free(headroom);
}

void headroom_reset(struct headroom *headroom, const int64_t *bytes)
{
    for (uint32_t m = 0; m < headroom->block_count * BLOCK; m++)
        headroom->bytes[m] = m < headroom->moment_count ? bytes[m] : PADDING;
    for (uint32_t block = 0; block < headroom->block_count; block++) {
        headroom->taken[block] = 0;
        headroom->least[block] = lowest(headroom->bytes + block * BLOCK, BLOCK);
    }
    for (uint32_t group = 0; group < headroom->group_count; group++) {
        headroom->group_taken[group] = 0;
        find_group_least(headroom, group);
    }
}

int64_t headroom_at(const struct headroom *headroom, moment_id moment)
{
    uint32_t block = moment / BLOCK;
    return headroom->bytes[moment] - headroom->taken[block] - taken_from_group(headroom, block);
}

/* The moments [begin, end) lie in one block. */
static void take_part(struct headroom *headroom, uint32_t begin, uint32_t end, int64_t bytes)
{
    for (uint32_t m = begin; m < end; m++)
        headroom->bytes[m] -= bytes;
    find_least(headroom, begin / BLOCK);
}

/* The blocks [first, last) lie in one group. */
static void take_blocks_of_group(struct headroom *headroom, uint32_t first, uint32_t last,
                                 int64_t bytes)
{
    for (uint32_t block = first; block < last; block++) {
        headroom->taken[block] += bytes;
        headroom->least[block] -= bytes;
    }
    if (headroom->group_count && first < last)
        find_group_least(headroom, first / BLOCK);
}

static void take_blocks(struct headroom *headroom, uint32_t first, uint32_t last, int64_t bytes)
{
    uint32_t begin = (first + BLOCK - 1) / BLOCK,
             end = last / BLOCK; /* whole groups: [begin, end) */
    if (!headroom->group_count || begin > end) {
        take_blocks_of_group(headroom, first, last, bytes);
        return;
    }
    take_blocks_of_group(headroom, first, begin * BLOCK, bytes);
    for (uint32_t group = begin; group < end; group++) {
        headroom->group_taken[group] += bytes;
        headroom->group_least[group] -= bytes;
    }
    take_blocks_of_group(headroom, end * BLOCK, last, bytes);
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
    take_blocks(headroom, first, last, bytes);
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
    uint32_t next;
    for (uint32_t m = begin; m < end; m = next) {
        uint32_t block = m / BLOCK;
        if (headroom->group_count && headroom->group_least[m / GROUP] >= bytes) {
            next = (m / GROUP + 1) * GROUP;
            continue;
        }
        next = (block + 1) * BLOCK;
        if (headroom->least[block] - taken_from_group(headroom, block) >= bytes)
            continue;
        for (uint32_t i = m; i < MIN(next, end); i++)
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
    uint32_t block = begin / BLOCK;
    return lowest(headroom->bytes + begin, end - begin) - headroom->taken[block] -
           taken_from_group(headroom, block);
}

static int64_t least_of_blocks(const struct headroom *headroom, uint32_t first, uint32_t last)
{
    int64_t least = INT64_MAX;
    for (uint32_t block = first; block < last;) {
        bool whole = headroom->group_count && block % BLOCK == 0 && block + BLOCK <= last;
        least = MIN(least, whole ? headroom->group_least[block / BLOCK]
                                 : headroom->least[block] - taken_from_group(headroom, block));
        block += whole ? BLOCK : 1;
    }
    return least;
}

static int64_t least_between(const struct headroom *headroom, uint32_t begin, uint32_t end)
{
    uint32_t first = (begin + BLOCK - 1) / BLOCK,
             last = end / BLOCK; /* whole blocks: [first, last) */
    if (begin >= end)
        return INT64_MAX;
    if (first > last)
        return least_of_part(headroom, begin, end);
    int64_t least = least_of_blocks(headroom, first, last);
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
