#include "policies/lists.h"

#include <glib.h>

/* SIEVE (Zhang et al., NSDI 2024): a hand walks a FIFO queue from the oldest to the youngest,
 * clears the bit of those used again and evicts the first that was not, which leaves the survivors
 * in their places. The hand passes over pinned chunks and leaves their bits; where the chunk under
 * it leaves by itself, it moves on to the next younger one. */
struct sieve {
    struct policy_queue *queue;
    int8_t *reuse; /* [chunk_count] see lists.h */
    uint32_t hand; /* a resident chunk, or the head of the queue: start from the oldest */
    uint32_t count;
};

static void *sieve_open(const struct pstar_policy_view *view)
{
    struct sieve *sieve = g_new0(struct sieve, 1);
    sieve->queue = policy_queue_open(view);
    sieve->reuse = g_new(int8_t, view->chunk_count);
    sieve->hand = sieve->queue->head;
    return sieve;
}

static void sieve_close(void *state)
{
    struct sieve *sieve = state;
    policy_queue_close(sieve->queue);
    g_free(sieve->reuse);
    g_free(sieve);
}

static void sieve_admit(void *state, chunk_id chunk)
{
    struct sieve *sieve = state;
    sieve->reuse[chunk] = POLICY_AWAITED;
    sieve->count++;
    policy_queue_push(sieve->queue, chunk);
}

static void sieve_touch(void *state, chunk_id chunk)
{
    struct sieve *sieve = state;
    policy_reuse_touch(&sieve->reuse[chunk], 1);
}

static void sieve_remove(void *state, chunk_id chunk)
{
    struct sieve *sieve = state;
    if (chunk == sieve->hand)
        sieve->hand = sieve->queue->links[chunk].younger;
    sieve->count--;
    policy_queue_remove(sieve->queue, chunk);
}

static uint32_t sieve_victim(void *state)
{
    struct sieve *sieve = state;
    const struct pstar_policy_view *view = sieve->queue->view;
    uint32_t head = sieve->queue->head, pinned = 0;
    while (pinned < sieve->count) {
        if (sieve->hand == head) {
            sieve->hand = policy_ring_oldest(sieve->queue->links, head);
            pinned = 0;
        }
        chunk_id chunk = sieve->hand;
        if (!view->pinned[chunk] && sieve->reuse[chunk] <= 0)
            return chunk;
        if (view->pinned[chunk])
            pinned++;
        else
            sieve->reuse[chunk] = 0;
        sieve->hand = sieve->queue->links[chunk].younger;
    }
    return NO_INDEX;
}

const struct pstar_policy_ops policy_sieve = {
    .name = "sieve",
    .summary = "SIEVE: a FIFO queue whose hand skips chunks that were used again",
    .open = sieve_open,
    .close = sieve_close,
    .admit = sieve_admit,
    .touch = sieve_touch,
    .remove = sieve_remove,
    .victim = sieve_victim,
};
