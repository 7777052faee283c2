/* The parts of strategies: their inputs, schedules by rules or by a policy, and the placement of
 * the optimizer. For strategies/ alone. */
#ifndef PSTAR_STRATEGIES_PRESET_H
#define PSTAR_STRATEGIES_PRESET_H

#include "policies/policy.h"
#include "strategies/strategy.h"

/* The inputs of a strategy. */
struct strategy_context {
    const struct trace
        *trace; /* with its updates where the strategy placed them; before that, as it came */
    const struct layout *layout;
    const struct accesses *accesses; /* NULL while updates are placed */
    const uint64_t *non_model;       /* [operator_count] extents (chunks/non_model.h) */
    const uint8_t *host_used; /* [chunk_count] nonzero if a host operator uses the chunk; NULL while
                                 updates are placed */
    const uint8_t *outside;   /* [chunk_count] nonzero if forward or backward use the chunk outside
                                 of the layers; NULL while updates are placed */
    uint64_t device_budget, host_budget; /* for chunks and non-model data; of the host */
    const struct nvme_budget *nvme;      /* as in struct strategy_job */
    uint64_t given_budget;               /* of the device, from which `beside` is taken */
    uint64_t beside;                     /* as in struct strategy_ops; 0 while updates are placed */
    double value;                        /* of the strategy's parameter */
};

/* Sets PLAN_ERROR_DOES_NOT_FIT, because the moment needs `needed` bytes of device memory, which
 * do not include `beside`. */
void strategy_refuse(const struct strategy_context *context, moment_id moment, uint64_t needed,
                     GError **error);

/* ---- schedules by rules ---- */

/* A schedule by rules. A chunk's rule says whether it stays, or when it comes and goes around its
 * uses. */

/* The rule of a chunk. If a host operator writes the chunk, it leaves the device after its last use
 * before that, whatever the rule. */
struct script_rule {
    bool retained; /* stays between its uses. If false, it leaves after each visit, which is a row
                      of operators of one layer, in forward, backward or update, that use it */
    bool offloads; /* leaves for host operators that only read it, too; if false, it is flushed for
                      them */
    bool early;    /* comes back as soon as the host has written it and there is room */
    bool buffered; /* is fetched ahead of each use in any case: if there is no room for it then, the
                      schedule does not fit */
    bool summed;   /* leaves after each micro-batch, in which backward adds to it, although it is
                      retained */
    bool blocks_out; /* where a host operator uses it next, the operator after it left waits for the
                        copy */
    bool blocks_in;  /* the operator after its fetch was issued waits for the copy */
};

/* The rule of chunks that stay. */
struct script_rule script_rule_retained(const struct strategy_context *context, chunk_id chunk);

struct script {
    const struct script_rule *rules; /* [chunk_count] */
    uint32_t look_ahead; /* moments that chunks which are not early are fetched ahead, within an
                            iteration and if there is room */
    moment_id (*fetch_from)(const struct strategy_context *context, moment_id use);
    moment_id (*return_from)(const struct strategy_context *context, moment_id write);
    /* as in struct strategy_ops */
};

/* Decides by rules. Chunks that stay, and that no host operator uses, are at home on the device,
 * all others on the host. *needed becomes the least device memory with which the schedule fits.
 * Fails with PLAN_ERROR_DOES_NOT_FIT. */
struct decisions *script_decide(const struct strategy_context *context, const struct script *script,
                                struct homes **homes, uint64_t *needed, GError **error);

/* ---- schedules by a policy ---- */

/* A schedule by an eviction policy whose budget is smaller than the device. */

struct budget {
    uint64_t bytes; /* for chunks and the reserve; at most the device's budget */
    double share;   /* the share of the device's memory that `bytes` is, which says how much memory
                       would fit */
    const uint64_t *reserve; /* [operator_count] bytes kept free of chunks; at least the extents of
                                non-model data */
    const struct accesses *accesses; /* those that the policy sees; NULL: the context's */
    const struct pstar_policy_ops *policy;
    uint32_t look_ahead;
};

/* Sets the homes as homes_choose does, and returns the policy's decisions. See struct strategy_ops.
 */
struct decisions *budget_decide(const struct strategy_context *context, const struct budget *budget,
                                struct homes **homes, uint64_t *needed, GError **error);

/* ---- where the optimizer runs ---- */

/* These functions choose the part of the optimizer that runs on the host, by chunk groups, which
 * other systems call subgroups. */

/* Returns the group of the tensor's parameter. */
uint32_t updates_group(const struct strategy_context *context, tensor_id tensor);

void updates_all(const struct strategy_context *context, uint8_t *on_host);

/* Chooses the first groups until they hold `share` of the elements, rounded up to whole groups. */
void updates_first(const struct strategy_context *context, double share, uint8_t *on_host);

/* Chooses the first `share` of the groups, by their number, rounded down. */
void updates_first_groups(const struct strategy_context *context, double share, uint8_t *on_host);

/* Chooses all groups except every `period`-th one. */
void updates_but_every(const struct strategy_context *context, uint32_t period, uint8_t *on_host);

/* Chooses all groups except the first ones. Of these, it leaves out those whose optimizer states
 * (master, exp_avg, exp_avg_sq) fit into `most` bytes, or more of them if it takes more to reach
 * `least` bytes. */
void updates_but_first_bytes(const struct strategy_context *context, uint64_t least, uint64_t most,
                             uint8_t *on_host);

/* Returns the most operators that a pass through a layer has. */
uint32_t updates_layer_ahead(const struct strategy_context *context);

/* Returns the slot bytes of all chunks of the list. */
uint64_t updates_list_bytes(const struct strategy_context *context, enum trace_list list);

/* Returns what `bytes` of device memory leave beside the greatest non-model data and the
 * parameters. */
uint64_t updates_margin(const struct strategy_context *context, uint64_t bytes);

/* Returns the bytes of the gradients in fp32 that DeepSpeed's optimizer on the device reads, where
 * a trace has no list of them and holds them in the parameters' place. */
uint64_t updates_device_gradients(const struct strategy_context *context);

/* Returns for each tensor behind which tensor's gradient its update comes, as
 * model_place_updates_after takes it: for tensors on the host, the last one of their group. The
 * caller frees the result with g_free. */
tensor_id *updates_in_backward(const struct strategy_context *context, const uint8_t *on_host);

/* The rule of gradients and parameters if the optimizer runs on the host. Parameters stay on the
 * device and come back as soon as they are updated. Gradients leave as soon as they are complete.
 */
struct script_rule updates_offload_rule(const struct strategy_context *context, chunk_id chunk);
/* As updates_offload_rule, but parameters live on the host, and visit the device for their layer's
 * forward and backward. */
struct script_rule updates_visiting_rule(const struct strategy_context *context, chunk_id chunk);
/* As updates_offload_rule, but training waits for both copies, and a list of gradients is on the
 * device only while a micro-batch adds to it. */
struct script_rule updates_blocking_rule(const struct strategy_context *context, chunk_id chunk);
/* Returns the moments that this list is fetched ahead: a layer's. Nothing else is, so it is 0 with
 * one micro-batch. */
uint32_t updates_blocking_ahead(const struct strategy_context *context);

#endif
