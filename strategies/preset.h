/* What strategies are made of: what they see, where the optimizer runs, and schedules by rules or
 * by a policy. For strategies/ alone. */
#ifndef PSTAR_STRATEGIES_PRESET_H
#define PSTAR_STRATEGIES_PRESET_H

#include "policies/policy.h"
#include "strategies/strategy.h"

/* What a strategy sees. */
struct strategy_context {
    const struct trace *trace; /* its updates where the strategy placed them; before, as it came */
    const struct layout *layout;
    const struct accesses *accesses; /* NULL while updates are placed */
    const uint64_t *non_model;       /* [operator_count] extents (chunks/non_model.h) */
    const uint8_t *host_used; /* [chunk_count] nonzero: a host operator uses the chunk; NULL while
                                 updates are placed */
    uint64_t device_budget, host_budget; /* budgets */
    double value;                        /* of the strategy's parameter */
};

/* Sets PLAN_ERROR_DOES_NOT_FIT: the moment needs `needed` bytes of device memory. */
void strategy_refuse(const struct strategy_context *context, uint32_t moment, uint64_t needed,
                     GError **error);

/* ---- schedules by rules ---- */

/* A schedule by rules: each chunk stays, or comes and goes, by where it is used. */

/* A chunk that a host operator writes leaves the device after its last use before that, whatever
 * its rule. */
struct script_rule {
    bool retained;   /* between its uses; else it leaves after each visit: the operators of a layer,
                     in forward, backward or update, that use it without others in between */
    bool offloads;   /* leaves for host operators that read it too; else it is flushed for them */
    bool early;      /* comes back as soon as the host has written it and there is room */
    bool blocks_out; /* the operator after it left waits for the copy */
    bool blocks_in;  /* the operator after its fetch was issued waits for the copy */
};

struct script {
    const struct script_rule *rules; /* [chunk_count] */
    uint32_t look_ahead; /* moments that what is not early is fetched ahead, within an iteration and
                            where there is room */
};

/* Chunks that stay and that no host operator uses are at home on the device, all others on the
 * host. *needed is the least device memory with which it fits. Fails with PLAN_ERROR_DOES_NOT_FIT.
 */
struct decisions *script_decide(const struct strategy_context *context, const struct script *script,
                                struct homes **homes, uint64_t *needed, GError **error);

/* ---- schedules by a policy ---- */

/* Schedules by an eviction policy under a budget that is kept smaller than the device. */

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

/* ---- where the optimizer runs ---- */

/* Which part of the optimizer runs on the host, by chunk groups: the subgroups of other systems. */

void updates_all(const struct strategy_context *context, uint8_t *on_host);

/* The first groups, until they hold `share` of the elements, rounded up to whole groups. */
void updates_first(const struct strategy_context *context, double share, uint8_t *on_host);

/* The first `share` of the groups, whatever they hold, rounded down. */
void updates_first_groups(const struct strategy_context *context, double share, uint8_t *on_host);

/* All but every `period`-th group. */
void updates_but_every(const struct strategy_context *context, uint32_t period, uint8_t *on_host);

/* All but the first groups, as many as have room for their optimizer states (master, exp_avg,
 * exp_avg_sq) in `most` bytes, or, if these are more, as many as it takes for `least` bytes. */
void updates_but_first_bytes(const struct strategy_context *context, uint64_t least, uint64_t most,
                             uint8_t *on_host);

/* The rule of gradients and parameters beside an optimizer on the host: parameters stay on the
 * device and come back as soon as they are updated, gradients leave as soon as they are complete.
 */
struct script_rule updates_offload_rule(const struct strategy_context *context, uint32_t chunk);
/* The same, and training waits for both copies. */
struct script_rule updates_blocking_rule(const struct strategy_context *context, uint32_t chunk);

#endif
