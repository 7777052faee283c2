/* The least memory that trains nearly as fast. */
#ifndef PSTAR_PLANNER_ANSWERS_BUDGETS_H
#define PSTAR_PLANNER_ANSWERS_BUDGETS_H

#include "planner/search/search.h"

enum min_memory_kind { MIN_DEVICE_MEMORY, MIN_HOST_MEMORY };

/* The plan for the least budget of one memory, the other's as in `options`, with which an iteration
 * takes at most `most_seconds`. Budgets below what `reference` takes, a plan for `options` that
 * keeps the time, are bisected to a 64th, by probes (planner/answers/budgets.h) and, where
 * these come near, by full searches. NULL where nothing was found that takes less than the
 * reference, or a person stopped it: then *stopped is set. The caller frees the result with
 * search_result_free. */
struct search_result *min_memory_find(const struct trace *trace,
                                      const struct search_options *options,
                                      const struct plan *reference, enum min_memory_kind memory,
                                      double most_seconds, bool *stopped);

/* What a plan takes of a memory: of the device the arena, of the host the pool. */
uint64_t min_memory_taken(const struct plan *plan, enum min_memory_kind memory);

/* What other budgets or a faster link would buy. */

enum { SENSITIVITY_MEMORIES = 5, SENSITIVITY_LINKS = 2 };

/* How many times as fast as it is a link is taken to be: 1 first, ascending. */
extern const double sensitivity_links[SENSITIVITY_LINKS];

/* Iteration times over device memory, a row a link. */
struct sensitivity {
    uint64_t more[SENSITIVITY_MEMORIES]; /* device memory beside the budget; 0 first, ascending */
    double seconds[SENSITIVITY_LINKS][SENSITIVITY_MEMORIES];
};

/* Searches a plan for each (planner/answers/budgets.h), beginning with `plan`, the best for
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
