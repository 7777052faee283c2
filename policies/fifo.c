#include "policies/lists.h"

const struct pstar_policy_ops policy_fifo = {
    .name = "fifo",
    .summary = "first in, first out",
    .open = policy_queue_open,
    .close = policy_queue_close,
    .admit = policy_queue_push,
    .remove = policy_queue_remove,
    .victim = policy_queue_oldest,
};
