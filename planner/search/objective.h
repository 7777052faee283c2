/* The objectives of a search, which say when a plan is better than another. */
#ifndef PSTAR_PLANNER_SEARCH_OBJECTIVE_H
#define PSTAR_PLANNER_SEARCH_OBJECTIVE_H

#include "chunks/objective.h"
#include "chunks/plan.h"

/* Returns whether `plan` is better than `than` by their predicted figures; any plan is better than
 * NULL. With OBJECTIVE_MEMORY both have the same budget, and time decides. */
bool objective_prefers(enum objective objective, const struct plan *plan, const struct plan *than);

/* Returns the figure that the objective minimises: bytes over the link, or seconds an iteration. */
double objective_figure(enum objective objective, uint64_t bytes, double seconds);

/* Returns the figure as predicted for the plan. */
double objective_of_plan(enum objective objective, const struct plan *plan);

/* Returns bytes over the link in both directions. */
uint64_t objective_traffic(const struct plan *plan);

#endif
