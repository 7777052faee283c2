#include "policies/lists.h"

#include <glib.h>

/* The clock of Corbató (1969), with one bit a chunk, as FIFO with a second chance: under the hand
 * is the oldest of a queue, and a chunk that was used again since it came by goes back as the
 * youngest. With `uses` a chunk has as many chances as it had uses, up to this number. The hand
 * passes over pinned chunks and leaves their counts. */
struct clock_state {
    struct policy_queue *queue;
    int8_t *reuse; /* [chunk_count] see lists.h */
    int8_t most_uses;
};

static const struct pstar_policy_parameter clock_parameters[] = {
    {"uses", "that count, at most: each is a chance to stay", 1, 1, 100, true},
    {NULL, NULL, 0, 0, 0, false}};

static void *clock_open(const struct pstar_policy_view *view)
{
    struct clock_state *state = g_new(struct clock_state, 1);
    state->queue = policy_queue_open(view);
    state->reuse = g_new(int8_t, view->chunk_count);
    state->most_uses = (int8_t)policy_value(view, clock_parameters, 0);
    return state;
}

static void clock_close(void *opaque)
{
    struct clock_state *state = opaque;
    policy_queue_close(state->queue);
    g_free(state->reuse);
    g_free(state);
}

static void clock_admit(void *opaque, chunk_id chunk)
{
    struct clock_state *state = opaque;
    state->reuse[chunk] = POLICY_AWAITED;
    policy_queue_push(state->queue, chunk);
}

static void clock_touch(void *opaque, chunk_id chunk)
{
    struct clock_state *state = opaque;
    policy_reuse_touch(&state->reuse[chunk], state->most_uses);
}

static void clock_remove(void *opaque, chunk_id chunk)
{
    struct clock_state *state = opaque;
    policy_queue_remove(state->queue, chunk);
}

static uint32_t clock_victim(void *opaque)
{
    struct clock_state *state = opaque;
    chunk_id chunk = policy_queue_oldest(state->queue);
    while (chunk != NO_INDEX && state->reuse[chunk] > 0) {
        state->reuse[chunk]--;
        policy_queue_remove(state->queue, chunk);
        policy_queue_push(state->queue, chunk);
        chunk = policy_queue_oldest(state->queue);
    }
    return chunk;
}

const struct pstar_policy_ops policy_clock = {
    .name = "clock",
    .summary = "first in, first out, with a second chance for chunks used again",
    .open = clock_open,
    .close = clock_close,
    .admit = clock_admit,
    .touch = clock_touch,
    .remove = clock_remove,
    .victim = clock_victim,
    .parameters = clock_parameters,
};
