/* Makes the plans of the eviction policies and of other systems' strategies for one layout, timed
 * by the simulator. A sweep lists them; the planner's own plan has to beat them. */
#ifndef PSTAR_SIM_BASELINES_H
#define PSTAR_SIM_BASELINES_H

#include "chunks/dry_run.h"
#include "chunks/nvme_homes.h"
#include "sim/replay.h"
#include "strategies/strategy.h"

/* The inputs that the plans of one layout share. The pointers above `slots` belong to the caller.
 */
struct baselines {
    const struct trace *trace;
    const char *digest; /* of the trace; baselines_open computes it if this is NULL */
    const struct layout *layout;
    const uint64_t *non_model; /* [moments] extent of what each takes beside the chunks */
    const struct costs *costs;
    const struct platform *platform;        /* for updates that a strategy moves; may be NULL */
    bool unclipped;                         /* as in struct strategy_job */
    const struct strategy_contest *contest; /* for strategies of a search; may be NULL */
    const struct nvme_budget *nvme; /* plans are made as if the host were unlimited, and states for
                                       which its budget has no room live in NVMe; may be NULL */

    struct layout *slots; /* the layout with rounded slots */
    struct accesses *accesses;
};

/* Fills in the last two fields, which baselines_close frees. */
void baselines_open(struct baselines *baselines);
void baselines_close(struct baselines *baselines);

/* Returns a policy's plan without predicted times, or NULL where dry_run_accesses or
 * nvme_homes_give fails. The caller frees it. */
struct plan *baselines_policy(const struct baselines *baselines,
                              const struct dry_run_options *options, GError **error);

/* Replays a policy's plan, and puts the figures of its steady iteration into it. `timeline`
 * receives what ran when; it may be NULL. */
void baselines_time(const struct baselines *baselines, struct plan *plan,
                    struct timeline *timeline);

/* Returns a strategy's plan with the figures of its steady iteration, on the trace that the
 * strategy has changed. Returns NULL as strategy_plan does, and sets *needed then. The caller frees
 * the plan. */
struct plan *baselines_strategy(const struct baselines *baselines, const struct strategy *strategy,
                                uint64_t device_budget, uint64_t host_budget,
                                struct timeline *timeline, uint64_t *needed, GError **error);

#endif
