/* What other budgets or a faster link would buy. */
#ifndef PSTAR_PLANNER_ANSWERS_SENSITIVITY_H
#define PSTAR_PLANNER_ANSWERS_SENSITIVITY_H

#include "planner/search/search.h"

enum { SENSITIVITY_MEMORIES = 5, SENSITIVITY_LINKS = 2 };

/* How many times as fast as it is a link is taken to be: 1 first, ascending. */
extern const double sensitivity_links[SENSITIVITY_LINKS];

/* Iteration times over device memory, a row a link. */
struct sensitivity {
    uint64_t more[SENSITIVITY_MEMORIES]; /* device memory beside the budget; 0 first, ascending */
    double seconds[SENSITIVITY_LINKS][SENSITIVITY_MEMORIES];
};

/* Searches a plan for each (planner/answers/narrow_search.h), beginning with `plan`, the best for
 * `options`. A plan for less memory serves with more, and one for a slower link with a faster one,
 * so times never rise. `costs` [SENSITIVITY_LINKS] are those of the links, the first being that of
 * `options`. False where a person stopped it. */
bool sensitivity_find(const struct trace *trace, const struct search_options *options,
                      const struct plan *plan, struct costs *const *costs,
                      struct sensitivity *sensitivity);

/* Draws times over device memory with gnuplot, as an SVG; `device_budget` is the budget.
 * PLAN_ERROR_INVALID where gnuplot is not in PATH or fails. */
bool sensitivity_draw(const struct sensitivity *sensitivity, uint64_t device_budget,
                      const char *path, GError **error);

#endif
