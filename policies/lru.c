#include "policies/lists.h"

static void lru_touch(void *state, chunk_id chunk)
{
    struct policy_queue *queue = state;
    policy_ring_remove(queue->links, chunk);
    policy_ring_insert(queue->links, queue->head, chunk);
}

const struct pstar_policy_ops policy_lru = {
    .name = "lru",
    .summary = "least recently used",
    .open = policy_queue_open,
    .close = policy_queue_close,
    .admit = policy_queue_push,
    .touch = lru_touch,
    .remove = policy_queue_remove,
    .victim = policy_queue_oldest,
};
