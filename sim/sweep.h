/* Every combination of layouts, budgets, and ways of training: policies with look-aheads, and
 * strategies. Replayed on all cores. */
#ifndef PSTAR_SIM_SWEEP_H
#define PSTAR_SIM_SWEEP_H

#include "chunks/plan.h"
#include "policies/policy.h"
#include "sim/costs.h"
#include "sim/phases.h"
#include "sim/sizes.h"
#include "strategies/strategy.h"

struct sweep_options {
    const GPtrArray *layouts;                       /* struct named_layout */
    const GArray *budgets;                          /* uint64_t, bytes of device memory */
    const GArray *look_aheads;                      /* uint32_t, moments */
    const struct pstar_policy_ops *const *policies; /* ends with NULL */
    const GPtrArray *strategies;                    /* struct strategy; NULL: none */
    const struct platform *platform; /* for updates that a strategy moves; NULL: not known */
    uint64_t host_budget;            /* budget; UINT64_MAX: unlimited */
    bool phases;                     /* rows have theirs */
    const struct costs *costs;
    uint32_t threads; /* 0: as many as there are processors */

    /* Called about ten times a second, from the thread that sweeps, with how many of `total`
     * configurations are done; returns false to stop. May be NULL. */
    bool (*progress)(void *data, uint32_t done, uint32_t total);
    void *progress_data;
};

/* One configuration's row. */
struct sweep_row {
    const struct named_layout *layout; /* of the options */
    uint64_t chunk_bytes;              /* its parameter list's */
    uint64_t device_budget; /* of the device; the arena is smaller by the trace's library_bytes */
    const struct pstar_policy_ops *policy; /* NULL: a strategy's row */
    const struct strategy *strategy;       /* NULL: a policy's row; of the options */
    uint32_t look_ahead;                   /* a strategy has its own */
    bool done;                             /* false: the sweep was stopped before it */
    bool fits;
    bool failed;                 /* not for want of memory: the policy answered wrongly */
    uint64_t least_device_bytes; /* every operator's chunks and non-model data at once; for a
                                    strategy, with what it keeps beside them; 0: not known */
    char *reason;                /* why it does not fit, or failed; NULL where it fits */
    struct plan_figures figures; /* the steady iteration's; all 0 where it does not fit */
    struct phases *phases;       /* the same iteration's; NULL: not asked for, or it does not fit */
};

struct sweep {
    uint32_t row_count;
    struct sweep_row *rows; /* by budget and layout: by policy and look-ahead, then the
                               strategies; each in the order given */
};

/* Never fails: what does not fit is a row that says so. The rows do not depend on the number of
 * threads. The caller frees the result with sweep_free. */
struct sweep *sweep_run(const struct trace *trace, const struct sweep_options *options);
void sweep_free(struct sweep *sweep);

/* The plan of a row that fits, which the caller frees; `timeline` receives what ran when, and may
 * be NULL. */
struct plan *sweep_plan(const struct trace *trace, const struct sweep_options *options,
                        const struct sweep_row *row, struct timeline *timeline);

/* Indices of the rows that are done, [row_count] at most, budget by budget: what fits first, by
 * bytes over the link, then time, then chunk size. The first of a budget is its best. */
GArray *sweep_rank(const struct sweep *sweep);

#endif
