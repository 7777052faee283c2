/* The least memory that trains nearly as fast. */
#ifndef PSTAR_PLANNER_ANSWERS_BUDGETS_H
#define PSTAR_PLANNER_ANSWERS_BUDGETS_H

#include "planner/search/search.h"

enum min_memory_kind { MIN_DEVICE_MEMORY, MIN_HOST_MEMORY };

/* The plan for the least budget of one memory, the other's as in `options`, with which an iteration
 * takes at most `most_seconds`. Budgets below what `reference` takes, a plan for `options` that
 * keeps the time, are bisected to a 64th, by probes (planner/answers/narrow_search.h) and, where
 * these come near, by full searches. NULL where nothing was found that takes less than the
 * reference, or a person stopped it: then *stopped is set. The caller frees the result with
 * search_result_free. */
struct search_result *min_memory_find(const struct trace *trace,
                                      const struct search_options *options,
                                      const struct plan *reference, enum min_memory_kind memory,
                                      double most_seconds, bool *stopped);

/* What a plan takes of a memory: of the device the arena, of the host the pool. */
uint64_t min_memory_taken(const struct plan *plan, enum min_memory_kind memory);

#endif
