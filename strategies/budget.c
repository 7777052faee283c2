#include "strategies/budget.h"

#include <math.h>

/* The least that the policy can work with; *moment needs it. */
static uint64_t least_bytes(const struct strategy_context *context, const struct budget *budget,
                            const struct homes *homes, uint32_t *moment)
{
    const struct accesses *accesses = context->accesses;
    uint64_t least = 0;
    for (uint32_t m = 0; m < accesses->moment_count; m++) {
        uint64_t bytes = budget->reserve[m] + homes->device_slot_bytes;
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            const struct chunk_access *access = &accesses->items[a];
            if (!(access->flags & ACCESS_ON_HOST) && !homes->on_device[access->chunk])
                bytes += context->layout->chunks[access->chunk].slot_bytes;
        }
        if (bytes > least) {
            least = bytes;
            *moment = m;
        }
    }
    return least;
}

struct decisions *budget_decide(const struct strategy_context *context, const struct budget *budget,
                                struct homes **homes, uint64_t *needed, GError **error)
{
    /* To the policy, what is reserved is as good as taken. */
    struct accesses reserved = *context->accesses;
    uint32_t moment = 0;
    *homes = homes_choose(context->trace, context->layout, context->accesses, context->host_budget,
                          error);
    if (!*homes)
        return NULL;
    uint64_t least = least_bytes(context, budget, *homes, &moment);
    *needed = (uint64_t)ceil((double)least / budget->share);
    if (least > budget->bytes) {
        strategy_refuse(context, moment, *needed, error);
        return NULL;
    }
    reserved.non_model = (uint64_t *)budget->reserve;
    const struct plan_inputs inputs = {.trace = context->trace,
                                       .layout = context->layout,
                                       .accesses = &reserved,
                                       .homes = *homes,
                                       .device_budget = budget->bytes,
                                       .host_budget = context->host_budget};
    const struct decide_options options = {.policy = budget->policy,
                                           .look_ahead = budget->look_ahead};
    return decide(&inputs, &options);
}
