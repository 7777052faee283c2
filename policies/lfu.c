#include "policies/lists.h"

#include <glib.h>

/* Least frequently used since it came, among those the least recently used; in constant time a call
 * (Shah, Mitra, Matani 2010): chunks of one frequency are a ring, whose head is a level, and the
 * levels are a ring in the order of their frequencies. A count is forgotten when its chunk leaves.
 * Levels and chunks share one numbering: level l is number chunk_count + l. */
struct lfu {
    const struct pstar_policy_view *view;
    struct policy_link *chunks; /* [2 chunk_count] rings of chunks, the heads levels */
    struct policy_link *levels; /* [2 chunk_count + 1] ring of levels, the least frequent oldest */
    uint64_t *uses;             /* [2 chunk_count] of each level: uses of its chunks */
    uint32_t *level;            /* [chunk_count] of each resident chunk */
    uint32_t *spare;            /* [spare_count] levels without chunks */
    uint32_t spare_count;
    uint32_t head; /* of the ring of levels */
    uint8_t
        *awaited; /* [chunk_count] nonzero if the use that admitted the chunk has not come yet */
};

static void *lfu_open(const struct pstar_policy_view *view)
{
    struct lfu *lfu = g_new(struct lfu, 1);
    uint32_t count = view->chunk_count;
    lfu->view = view;
    lfu->chunks = g_new(struct policy_link, 2 * count);
    lfu->levels = g_new(struct policy_link, 2 * count + 1);
    lfu->uses = g_new(uint64_t, 2 * count);
    lfu->level = g_new(uint32_t, count);
    lfu->spare = g_new(uint32_t, count);
    lfu->spare_count = count;
    lfu->awaited = g_new(uint8_t, count);
    lfu->head = 2 * count;
    policy_ring_init(lfu->levels, lfu->head);
    for (uint32_t i = 0; i < count; i++)
        lfu->spare[i] = count + i;
    return lfu;
}

static void lfu_close(void *state)
{
    struct lfu *lfu = state;
    g_free(lfu->chunks);
    g_free(lfu->levels);
    g_free(lfu->uses);
    g_free(lfu->level);
    g_free(lfu->spare);
    g_free(lfu->awaited);
    g_free(lfu);
}

/* The level of `uses`, whose place among the levels is next to `less`. */
static uint32_t level_above(struct lfu *lfu, uint32_t less, uint64_t uses)
{
    uint32_t more = lfu->levels[less].younger;
    if (more != lfu->head && lfu->uses[more] == uses)
        return more;
    uint32_t level = lfu->spare[--lfu->spare_count];
    lfu->uses[level] = uses;
    policy_ring_init(lfu->chunks, level);
    policy_ring_insert(lfu->levels, more, level);
    return level;
}

static void enter(struct lfu *lfu, chunk_id chunk, uint32_t level)
{
    lfu->level[chunk] = level;
    policy_ring_insert(lfu->chunks, level, chunk);
}

static void leave(struct lfu *lfu, chunk_id chunk)
{
    uint32_t level = lfu->level[chunk];
    policy_ring_remove(lfu->chunks, chunk);
    if (policy_ring_oldest(lfu->chunks, level) != level)
        return;
    policy_ring_remove(lfu->levels, level);
    lfu->spare[lfu->spare_count++] = level;
}

static void lfu_admit(void *state, chunk_id chunk)
{
    struct lfu *lfu = state;
    lfu->awaited[chunk] = 1;
    enter(lfu, chunk, level_above(lfu, lfu->head, 1));
}

static void lfu_touch(void *state, chunk_id chunk)
{
    struct lfu *lfu = state;
    if (lfu->awaited[chunk]) {
        lfu->awaited[chunk] = 0;
        return;
    }
    uint32_t level = lfu->level[chunk], less = lfu->levels[level].older;
    uint64_t uses = lfu->uses[level] + 1;
    leave(lfu, chunk);
    bool emptied = lfu->levels[less].younger != level;
    enter(lfu, chunk, level_above(lfu, emptied ? less : level, uses));
}

static void lfu_remove(void *state, chunk_id chunk)
{
    leave(state, chunk);
}

static uint32_t lfu_victim(void *state)
{
    const struct lfu *lfu = state;
    for (uint32_t level = policy_ring_oldest(lfu->levels, lfu->head); level != lfu->head;
         level = lfu->levels[level].younger)
        for (chunk_id chunk = policy_ring_oldest(lfu->chunks, level); chunk != level;
             chunk = lfu->chunks[chunk].younger)
            if (!lfu->view->pinned[chunk])
                return chunk;
    return NO_INDEX;
}

const struct pstar_policy_ops policy_lfu = {
    .name = "lfu",
    .summary = "least frequently used since its fetch",
    .open = lfu_open,
    .close = lfu_close,
    .admit = lfu_admit,
    .touch = lfu_touch,
    .remove = lfu_remove,
    .victim = lfu_victim,
};
