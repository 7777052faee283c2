/* What a candidate promises before its schedule is made, and a plan before it is replayed: figures
 * that are not beaten, for a fraction of the time. The search leaves out what promises too little.
 */
#ifndef PSTAR_PLANNER_SEARCH_LEAST_H
#define PSTAR_PLANNER_SEARCH_LEAST_H

#include "planner/search/candidate.h"
#include "planner/search/objective.h"
#include "sim/replay.h"

/* Of any schedule of what is kept: its bytes are known; its time is at least that of the device's
 * operators, of the copies of either direction, of the host's operators, and of backward and those
 * of them that follow it and whose results the next forward uses. */
double candidate_lower_bound(const struct candidate *candidate, enum objective objective);

/* Of a plan that fetches nothing ahead: the device computes nothing while an operator's chunks are
 * fetched. */
double on_demand_lower_bound(const struct replay_view *view, const struct plan *plan,
                             enum objective objective);

#endif
