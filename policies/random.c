#include "policies/lists.h"

#include <glib.h>

/* The step of the generator's counter. */
#define STEP UINT64_C(0x9e3779b97f4a7c15)

static const struct pstar_policy_parameter random_parameters[] = {
    {"seed", "every run with the same one draws the same", 0, 0, 1e9, true},
    {NULL, NULL, 0, 0, 0, false}};

struct random_state {
    const struct pstar_policy_view *view;
    uint32_t *chunks;   /* [count] resident */
    uint32_t *position; /* [chunk_count] of each in chunks */
    uint32_t count;
    uint64_t draws; /* the counter of the generator; its upper half began as the seed */
};

/* Mixes a counter with the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). */
static uint64_t draw(struct random_state *state)
{
    uint64_t x = STEP * ++state->draws;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void put(struct random_state *state, uint32_t position, chunk_id chunk)
{
    state->chunks[position] = chunk;
    state->position[chunk] = position;
}

static void *random_open(const struct pstar_policy_view *view)
{
    struct random_state *state = g_new0(struct random_state, 1);
    state->view = view;
    state->draws = (uint64_t)policy_value(view, random_parameters, 0) << 32;
    state->chunks = g_new(uint32_t, view->chunk_count);
    state->position = g_new(uint32_t, view->chunk_count);
    return state;
}

static void random_close(void *opaque)
{
    struct random_state *state = opaque;
    g_free(state->chunks);
    g_free(state->position);
    g_free(state);
}

static void random_admit(void *opaque, chunk_id chunk)
{
    struct random_state *state = opaque;
    put(state, state->count++, chunk);
}

static void random_remove(void *opaque, chunk_id chunk)
{
    struct random_state *state = opaque;
    put(state, state->position[chunk], state->chunks[--state->count]);
}

/* A pinned chunk that is drawn goes behind those that may still be drawn, so that all unpinned
 * chunks are equally likely. */
static uint32_t random_victim(void *opaque)
{
    struct random_state *state = opaque;
    for (uint32_t left = state->count; left > 0; left--) {
        uint32_t drawn = (uint32_t)(((draw(state) >> 32) * left) >> 32);
        chunk_id chunk = state->chunks[drawn];
        if (!state->view->pinned[chunk])
            return chunk;
        put(state, drawn, state->chunks[left - 1]);
        put(state, left - 1, chunk);
    }
    return NO_INDEX;
}

const struct pstar_policy_ops policy_random = {
    .name = "random",
    .summary = "a random chunk, with a fixed seed",
    .open = random_open,
    .close = random_close,
    .admit = random_admit,
    .remove = random_remove,
    .victim = random_victim,
    .parameters = random_parameters,
};
