/* Replays every combination of layouts, budgets, and ways of training, on all cores. A way is a
 * policy with a look-ahead, or a strategy. */
#ifndef PSTAR_SIM_SWEEP_H
#define PSTAR_SIM_SWEEP_H

#include "chunks/nvme_homes.h"
#include "chunks/objective.h"
#include "chunks/plan.h"
#include "policies/policy.h"
#include "sim/costs.h"
#include "sim/phases.h"
#include "sim/sizes.h"
#include "strategies/strategy.h"

/* What strategies with a stage of their own are for. */
struct sweep_stage {
    struct trace *trace;
    GPtrArray *layouts; /* struct named_layout, with the chunk sizes of the options' layouts */
};

struct sweep_options {
    const GPtrArray *layouts;                       /* struct named_layout */
    const GArray *budgets;                          /* uint64_t, bytes of device memory */
    const GArray *look_aheads;                      /* uint32_t, moments */
    const struct pstar_policy_ops *const *policies; /* ends with NULL */
    const GPtrArray *strategies;                    /* struct strategy; may be NULL */
    const struct sweep_stage *stages; /* [STRATEGY_STAGES]; of each stage that a strategy has, or
                                         NULL: these strategies are for the trace of the others */
    const struct platform *platform;  /* for updates that a strategy moves; may be NULL */
    bool unclipped;                   /* as in struct strategy_job */
    uint64_t host_budget;             /* budget; UINT64_MAX: unlimited */
    const struct nvme_budget *nvme;   /* as in struct baselines, with the same host budget; NULL */
    bool phases;                      /* whether rows have them */
    enum objective objective;         /* by which rows are ranked */
    const struct costs *costs;
    uint32_t threads; /* 0 for all processors */

    /* Called about ten times a second, from the thread that sweeps, with how many of `total`
     * configurations are done; returns false to stop. May be NULL. */
    bool (*progress)(void *data, uint32_t done, uint32_t total);
    void *progress_data;
};

/* One configuration's row. */
struct sweep_row {
    const struct named_layout *layout;     /* of the options, or of the strategy's stage */
    uint64_t chunk_bytes;                  /* of its parameter list */
    uint64_t device_budget;                /* the arena is smaller by the trace's library_bytes */
    const struct pstar_policy_ops *policy; /* NULL in a strategy's row */
    const struct strategy *strategy;       /* of the options; NULL in a policy's row */
    uint32_t look_ahead;                   /* a strategy chooses it */
    bool done;                             /* false if the sweep was stopped before it */
    bool fits;
    bool failed;                 /* the policy gave a wrong answer */
    uint64_t least_device_bytes; /* the largest sum of an operator's chunks and non-model data, plus
                                    what a strategy keeps on the device, and what the host's budget
                                    leaves there if it does not fit; 0 if not known */
    bool host_lacks; /* chunks for which the host has no room add to what the device needs */
    char *reason;    /* why it does not fit, or failed; NULL if it fits */
    struct plan_figures figures; /* of the steady iteration; all 0 if it does not fit */
    struct stage_result *stages; /* of a pipeline: [stage_count]; NULL if it does not fit */
    struct phases *phases; /* of the same iteration; NULL if not asked for, or if it does not fit */
};

struct sweep {
    enum objective objective; /* of the options */
    uint64_t host_budget;     /* of the options */
    uint64_t nvme_budget;     /* of the options; 0 if there is none */
    uint32_t stage_count;     /* 0 if it is not of a pipeline */
    uint32_t row_count;
    struct sweep_row *rows; /* by budget and layout: by policy and look-ahead, then the
                               strategies; each in the order given */
};

/* Never fails: a configuration that does not fit has a row that says so. The rows do not depend on
 * the number of threads. The caller frees the result with sweep_free. */
struct sweep *sweep_run(const struct trace *trace, const struct sweep_options *options);
void sweep_free(struct sweep *sweep);

/* Returns whether a row fits. */
bool sweep_fits(const struct sweep *sweep);

/* Returns the trace that a row is for: `trace`, or that of the strategy's stage. */
const struct trace *sweep_row_trace(const struct trace *trace, const struct sweep_options *options,
                                    const struct sweep_row *row);

/* Returns the plan of a row that fits; the caller frees it. `trace` is that of sweep_row_trace, or
 * one with other durations. `timeline`, which may be NULL, receives what ran when. */
struct plan *sweep_plan(const struct trace *trace, const struct sweep_options *options,
                        const struct sweep_row *row, struct timeline *timeline);

/* Returns the indices of the rows that are done, budget by budget. Rows that fit come first, by the
 * objective, then chunk size; the first of a budget is its best. */
GArray *sweep_rank(const struct sweep *sweep);

#endif
