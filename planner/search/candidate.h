/* One layout of the search with its optimizer placed, and the plans that are made for them. */
#ifndef PSTAR_PLANNER_SEARCH_CANDIDATE_H
#define PSTAR_PLANNER_SEARCH_CANDIDATE_H

#include "chunks/plan.h"
#include "planner/schedule/intervals.h"
#include "planner/schedule/placement.h"
#include "planner/schedule/retention.h"
#include "planner/search/objective.h"
#include "sim/costs.h"
#include "sim/replay.h"

/* What the whole search is about. */
struct candidate_job {
    const struct trace *trace;
    const struct non_model *non_model;
    const struct costs *costs;
    const struct platform *platform; /* of updates that are placed elsewhere; may be NULL */
    const char *digest;     /* that plans get, for those who digest the trace of the best one alone;
                               NULL: their trace's */
    uint64_t device_budget; /* of the arena */
    uint64_t host_budget;   /* budget */
};

struct candidate {
    const struct candidate_job *job;
    struct layout *layout;
    struct trace *placed;      /* NULL: updates stay where they were traced */
    const struct trace *trace; /* that the plans are for: `placed`, or the job's */
    struct accesses *accesses;
    struct homes *homes; /* the least that must live on the device */
    struct reuses *reuses;
    struct retention *retention;
};

/* NULL where the layout does not fit: the error says what would; *needed is the device memory that
 * would, UINT64_MAX where it is the host's that lacks. `job` outlives the result. */
struct candidate *candidate_new(const struct candidate_job *job, const struct layout_spec *spec,
                                const struct placement *placement, uint64_t *needed,
                                GError **error);
void candidate_free(struct candidate *candidate);

/* The plan of what is kept, replayed: chunks that never leave live on the device. `pace` (may be
 * NULL) receives its pace, which the caller frees. Copies take what the candidate knows, whatever
 * the options say. */
struct plan *candidate_plan(const struct candidate *candidate,
                            const struct interval_options *options, struct moment_times **times);

/* The same; NULL where no addresses are found by which nothing moves within the device. */
struct plan *candidate_plan_still(const struct candidate *candidate,
                                  const struct interval_options *options,
                                  struct moment_times **times);

/* What a candidate promises before its schedule is made, and a plan before it is replayed: figures
 * that are not beaten, for a fraction of the time. The search leaves out what promises too little.
 */

/* Of any schedule of what is kept: its bytes are known; its time is at least that of the device's
 * operators, of the copies of either direction, of the host's operators, and of backward and those
 * of them that follow it and whose results the next forward uses. */
double candidate_lower_bound(const struct candidate *candidate, enum objective objective);

/* Of a plan that fetches nothing ahead: the device computes nothing while an operator's chunks are
 * fetched. */
double on_demand_lower_bound(const struct replay_view *view, const struct plan *plan,
                             enum objective objective);

#endif
