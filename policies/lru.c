#include "policies/queue.h"

static void lru_touch(void *queue, uint32_t chunk)
{
    policy_queue_remove(queue, chunk);
    policy_queue_push(queue, chunk);
}

const struct policy_ops policy_lru = {
    .name = "lru",
    .summary = "least recently used",
    .open = policy_queue_open,
    .close = policy_queue_close,
    .admit = policy_queue_push,
    .touch = lru_touch,
    .remove = policy_queue_remove,
    .victim = policy_queue_oldest,
};
