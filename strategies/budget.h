/* Schedules by an eviction policy under a budget that is kept smaller than the device. */
#ifndef PSTAR_STRATEGIES_BUDGET_H
#define PSTAR_STRATEGIES_BUDGET_H

#include "policies/policy.h"
#include "strategies/strategy.h"

struct budget {
    uint64_t bytes;          /* for chunks and what is reserved; at most the device's */
    double share;            /* of the device's memory that `bytes` is, for what would fit */
    const uint64_t *reserve; /* [operator_count] kept free of chunks; at least the extents */
    const struct pstar_policy_ops *policy;
    uint32_t look_ahead;
};

/* Homes where host memory allows (homes_choose), and the policy's decisions. See strategy_ops. */
struct decisions *budget_decide(const struct strategy_context *context, const struct budget *budget,
                                struct homes **homes, uint64_t *needed, GError **error);

#endif
