/* Evaluates other budgets and links: the least memory that is nearly as fast, and the gain from
 * more memory or a faster link. */
#ifndef PSTAR_PLANNER_ANSWERS_BUDGETS_H
#define PSTAR_PLANNER_ANSWERS_BUDGETS_H

#include "planner/search/search.h"

/* One of the ways in which the ranks of a run may train together. */
struct budget_stage {
    struct trace *trace;        /* of a rank */
    struct search_result *best; /* the plan for the given budgets; NULL if nothing fits them */
};

enum min_memory_kind { MIN_DEVICE_MEMORY, MIN_HOST_MEMORY };

/* Returns the plan for the least budget of one memory with which an iteration takes at most
 * `most_seconds`; the other memory has the budget of `options`. `reference` is a plan for `options`
 * that is fast enough; budgets below what it takes are bisected to a 64th, by narrow searches and,
 * if these come close, by full ones. Returns NULL if nothing less suffices, or if a person stopped
 * it, which sets *stopped. Free the result with search_result_free. */
struct search_result *min_memory_find(const struct trace *trace,
                                      const struct search_options *options,
                                      const struct plan *reference, enum min_memory_kind memory,
                                      double most_seconds, bool *stopped);

/* Returns what a plan takes: the arena of the device, or the pool of the host. */
uint64_t min_memory_taken(const struct plan *plan, enum min_memory_kind memory);

enum { SENSITIVITY_MEMORIES = 5, SENSITIVITY_LINKS = 2 };

/* Speed of each link relative to the given one: 1 first, ascending. */
extern const double sensitivity_links[SENSITIVITY_LINKS];

/* Iteration times by device memory, one row for each link. */
struct sensitivity {
    uint64_t more[SENSITIVITY_MEMORIES]; /* device memory beyond the budget; 0 first, ascending */
    double seconds[SENSITIVITY_LINKS][SENSITIVITY_MEMORIES];
};

/* Searches a plan for each pair in each of `count` stages, at least one of which has a plan, by
 * narrow searches from the stage's plan or, if it has none for `options`, from one for the most
 * memory. A plan for less memory also serves with more, and one for a slower link with a faster
 * one, so times never rise. `costs` [SENSITIVITY_LINKS] belong to the links; the first are those of
 * `options`. Returns false if a person stopped it. */
bool sensitivity_find(const struct budget_stage *stages, uint32_t count,
                      const struct search_options *options, struct costs *const *costs,
                      struct sensitivity *sensitivity);

/* Draws times over device memory with gnuplot, as SVG. Fails with PLAN_ERROR_INVALID if gnuplot is
 * not in PATH, and with FAILURE_RUNNING if it fails or the file cannot be written. */
bool sensitivity_draw(const struct sensitivity *sensitivity, uint64_t device_budget,
                      const char *path, GError **error);

#endif
