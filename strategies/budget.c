#include "strategies/budget.h"

#include <math.h>

struct decisions *budget_decide(const struct strategy_context *context, const struct budget *budget,
                                struct homes **homes, uint64_t *needed, GError **error)
{
    /* To the policy, what is reserved is as good as taken. */
    struct accesses reserved = *context->accesses;
    uint32_t moment = 0;
    reserved.non_model = (uint64_t *)budget->reserve;
    *homes = homes_choose(context->trace, context->layout, context->accesses, context->host_budget,
                          error);
    if (!*homes)
        return NULL;
    const struct plan_inputs inputs = {.trace = context->trace,
                                       .layout = context->layout,
                                       .accesses = &reserved,
                                       .homes = *homes,
                                       .device_budget = budget->bytes,
                                       .host_budget = context->host_budget};
    uint64_t least = decide_least_bytes(&inputs, &moment);
    *needed = (uint64_t)ceil((double)least / budget->share);
    if (least > budget->bytes) {
        strategy_refuse(context, moment, *needed, error);
        return NULL;
    }
    const struct decide_options options = {.policy = budget->policy,
                                           .look_ahead = budget->look_ahead};
    return decide(&inputs, &options);
}
