#include "policies/next_use.h"

#include <glib.h>

static bool farther(const struct policy_next_use *set, uint32_t chunk, uint32_t other)
{
    uint32_t a = set->view->next_use[chunk], b = set->view->next_use[other];
    return a != b ? a > b : chunk < other;
}

static void put(struct policy_next_use *set, uint32_t position, uint32_t chunk)
{
    set->heap[position] = chunk;
    set->position[chunk] = position;
}

static void rise(struct policy_next_use *set, uint32_t position)
{
    uint32_t chunk = set->heap[position];
    while (position > 0 && farther(set, chunk, set->heap[(position - 1) / 2])) {
        put(set, position, set->heap[(position - 1) / 2]);
        position = (position - 1) / 2;
    }
    put(set, position, chunk);
}

static void sink(struct policy_next_use *set, uint32_t position)
{
    uint32_t chunk = set->heap[position];
    for (;;) {
        uint32_t child = 2 * position + 1;
        if (child >= set->count)
            break;
        if (child + 1 < set->count && farther(set, set->heap[child + 1], set->heap[child]))
            child++;
        if (!farther(set, set->heap[child], chunk))
            break;
        put(set, position, set->heap[child]);
        position = child;
    }
    put(set, position, chunk);
}

void *policy_next_use_open(const struct policy_view *view)
{
    struct policy_next_use *set = g_new0(struct policy_next_use, 1);
    set->view = view;
    set->heap = g_new(uint32_t, view->chunk_count);
    set->position = g_new(uint32_t, view->chunk_count);
    return set;
}

void policy_next_use_close(void *state)
{
    struct policy_next_use *set = state;
    g_free(set->heap);
    g_free(set->position);
    g_free(set);
}

void policy_next_use_admit(void *state, uint32_t chunk)
{
    struct policy_next_use *set = state;
    put(set, set->count++, chunk);
    rise(set, set->count - 1);
}

void policy_next_use_touch(void *state, uint32_t chunk)
{
    struct policy_next_use *set = state;
    rise(set, set->position[chunk]);
    sink(set, set->position[chunk]);
}

void policy_next_use_remove(void *state, uint32_t chunk)
{
    struct policy_next_use *set = state;
    uint32_t position = set->position[chunk], last = set->heap[--set->count];
    if (last == chunk)
        return;
    put(set, position, last);
    policy_next_use_touch(set, last);
}

/* Of the part of the heap below `position`. Whatever lies below an unpinned chunk is nearer, so the
 * search goes only through pinned ones. */
static uint32_t farthest_unpinned(const struct policy_next_use *set, uint32_t position)
{
    if (position >= set->count)
        return POLICY_NONE;
    if (!set->view->pinned[set->heap[position]])
        return set->heap[position];
    uint32_t left = farthest_unpinned(set, 2 * position + 1);
    uint32_t right = farthest_unpinned(set, 2 * position + 2);
    if (left == POLICY_NONE || right == POLICY_NONE)
        return left == POLICY_NONE ? right : left;
    return farther(set, left, right) ? left : right;
}

uint32_t policy_next_use_farthest(void *state)
{
    return farthest_unpinned(state, 0);
}
