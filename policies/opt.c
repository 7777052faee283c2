#include "policies/next_use.h"

/* Belady's rule: optimal in fetches of chunks of one size, also where the room varies over time
 * (Peserico 2019); blind to write-backs. */
const struct pstar_policy_ops policy_opt = {
    .name = "opt",
    .summary = "farthest next use, wrapping round the iteration",
    .open = policy_next_use_open,
    .close = policy_next_use_close,
    .admit = policy_next_use_admit,
    .touch = policy_next_use_touch,
    .remove = policy_next_use_remove,
    .victim = policy_next_use_farthest,
};
