/* A plan for a trace with a given layout and its updates where they are, in a fraction of a
 * search's time. */
#ifndef PSTAR_PLANNER_SEARCH_GLANCE_H
#define PSTAR_PLANNER_SEARCH_GLANCE_H

#include "planner/search/search.h"

/* The best plan of a short local search, replayed. NULL where it does not fit, or promises clearly
 * less than `best` (planner/search/trials.h). Of `options` the objective, the budgets, the costs
 * and the seed count. */
struct plan *plan_quickly(const struct trace *trace, const struct layout *layout, struct plan *best,
                          const struct search_options *options);

#endif
