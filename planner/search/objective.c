#include "planner/search/objective.h"

uint64_t objective_traffic(const struct plan *plan)
{
    return figures_traffic(&plan->predicted);
}

double objective_figure(enum objective objective, uint64_t bytes, double seconds)
{
    return objective == OBJECTIVE_TRAFFIC ? (double)bytes : seconds;
}

double objective_of_plan(enum objective objective, const struct plan *plan)
{
    return objective_figure(objective, objective_traffic(plan), plan->predicted.iteration_seconds);
}

bool objective_prefers(enum objective objective, const struct plan *plan, const struct plan *than)
{
    if (objective == OBJECTIVE_MEMORY)
        objective = OBJECTIVE_TIME;
    return !than || objective_compare(objective, &plan->predicted, &than->predicted) < 0;
}
