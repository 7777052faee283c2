/* A candidate: one layout with its optimizer placed, and the plans that are made for it. */
#ifndef PSTAR_PLANNER_SEARCH_CANDIDATE_H
#define PSTAR_PLANNER_SEARCH_CANDIDATE_H

#include "chunks/plan.h"
#include "planner/schedule/intervals.h"
#include "planner/schedule/placement.h"
#include "planner/schedule/retention.h"
#include "planner/search/objective.h"
#include "sim/costs.h"
#include "sim/replay.h"

/* The data that all candidates of a search share. */
struct candidate_job {
    const struct trace *trace;
    const struct non_model *non_model;
    const struct costs *costs;
    const struct platform
        *platform;      /* for updates that are placed on the other side; may be NULL */
    const char *digest; /* the plans' digest, so that only the best plan's trace is hashed; NULL for
                           the digest of their trace */
    uint64_t device_budget; /* of the arena */
    uint64_t host_budget;   /* budget */
};

struct candidate {
    const struct candidate_job *job;
    struct layout *layout;
    struct trace *placed;      /* NULL if updates stay where they were traced */
    const struct trace *trace; /* of the plans: `placed`, or the job's */
    struct accesses *accesses;
    struct homes *homes; /* with the fewest chunks that must live on the device */
    struct reuses *reuses;
    struct retention *retention;
};

/* Returns NULL if the layout does not fit; the error says what would. *needed receives the device
 * memory that would fit, UINT64_MAX if host memory is what lacks. `job` outlives the result. */
struct candidate *candidate_new(const struct candidate_job *job, const struct layout_spec *spec,
                                const struct placement *placement, uint64_t *needed,
                                GError **error);
void candidate_free(struct candidate *candidate);

/* Returns the replayed plan of what is retained. Chunks that never leave live on the device.
 * `times` (may be NULL) receives its moment times, which the caller frees. Copy times come from the
 * candidate, not from the options. */
struct plan *candidate_plan(const struct candidate *candidate,
                            const struct interval_options *options, struct moment_times **times);

/* Like candidate_plan, but returns NULL if no addresses are found by which nothing moves within the
 * device. */
struct plan *candidate_plan_still(const struct candidate *candidate,
                                  const struct interval_options *options,
                                  struct moment_times **times);

/* Returns a lower bound of the objective for any schedule of what is retained, much faster than a
 * schedule. The bytes are known. The time is at least each of these sums: the device's operators;
 * the copies in either direction; the host's operators; backward with the host's operators that
 * follow it and whose results the next forward uses. The search skips candidates whose bound is
 * poor. */
double candidate_lower_bound(const struct candidate *candidate, enum objective objective);

/* Returns a lower bound for a plan without prefetches: the device computes nothing while it fetches
 * the chunks of an operator. */
double on_demand_lower_bound(const struct replay_view *view, const struct plan *plan,
                             enum objective objective);

#endif
