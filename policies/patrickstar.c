#include "policies/next_use.h"

#include <glib.h>

/* PatrickStar evicts by farthest next use, but knows next uses only after the warm-up iteration; in
 * it, every chunk has the same priority and the lowest number leaves. (Fang et al., IEEE TPDS 2022;
 * Tencent/PatrickStar v0.4.6.) */
static uint32_t patrickstar_victim(void *state)
{
    const struct policy_next_use *set = state;
    if (*set->view->iteration > 0)
        return policy_next_use_farthest(state);
    uint32_t lowest = POLICY_NONE;
    for (uint32_t i = 0; i < set->count; i++)
        if (!set->view->pinned[set->heap[i]])
            lowest = MIN(lowest, set->heap[i]);
    return lowest;
}

const struct policy_ops policy_patrickstar = {
    .name = "patrickstar",
    .summary = "PatrickStar's: lowest number in the warm-up, then farthest next use",
    .open = policy_next_use_open,
    .close = policy_next_use_close,
    .admit = policy_next_use_admit,
    .touch = policy_next_use_touch,
    .remove = policy_next_use_remove,
    .victim = patrickstar_victim,
};
