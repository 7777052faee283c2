/* What others would do with one layout: eviction policies and the strategies of other systems.
 * Their plans are the rows of a sweep, to the byte and the nanosecond, so that a search that knows
 * them is never worse than any row. */
#ifndef PSTAR_PLANNER_SEARCH_RIVALS_H
#define PSTAR_PLANNER_SEARCH_RIVALS_H

#include "planner/search/candidate.h"
#include "planner/search/objective.h"
#include "policies/policy.h"
#include "strategies/strategy.h"

struct baselines;

/* `job` outlives the result, which the caller frees with rivals_free. */
struct baselines *baselines_new(const struct candidate_job *job, const struct layout_spec *spec);
void baselines_free(struct baselines *baselines);

/* The plan of a policy that fetches on demand, replayed. NULL where it does not fit, or is known
 * before it is replayed to be worse than `most` (see objective_figure; INFINITY: all are wanted).
 */
struct plan *baselines_policy(const struct baselines *baselines, const struct policy_ops *policy,
                              enum objective objective, double most);

/* The plan of a strategy, replayed; it places the optimizer itself. NULL where it does not fit. */
struct plan *baselines_strategy(const struct baselines *baselines, const struct strategy *strategy);

#endif
