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

uint32_t policy_next_use_farthest(void *state)
{
    const struct policy_next_use *set = state;
    if (!set->count)
        return POLICY_NONE;
    if (!set->view->pinned[set->heap[0]])
        return set->heap[0];
    /* Pinned chunks are used soon: one on top means that little else is left. */
    uint32_t best = POLICY_NONE;
    for (uint32_t i = 1; i < set->count; i++) {
        uint32_t chunk = set->heap[i];
        if (!set->view->pinned[chunk] && (best == POLICY_NONE || farther(set, chunk, best)))
            best = chunk;
    }
    return best;
}
