/* The least memory that trains nearly as fast. */
#ifndef PSTAR_PLANNER_ANSWERS_LEAST_MEMORY_H
#define PSTAR_PLANNER_ANSWERS_LEAST_MEMORY_H

#include "planner/search/search.h"

enum least_memory_of { LEAST_DEVICE_MEMORY, LEAST_HOST_MEMORY };

/* The plan for the least budget of one memory, the other's as in `options`, with which an iteration
 * takes at most `most_seconds`. Budgets below what `reference` takes, a plan for `options` that
 * keeps the time, are bisected to a 64th, by probes (planner/search/probe.h) and, where these come
 * near, by full searches. NULL where nothing was found that takes less than the reference, or a
 * person stopped it: then *stopped is set. The caller frees the result with search_result_free. */
struct search_result *least_memory_find(const struct trace *trace,
                                        const struct search_options *options,
                                        const struct plan *reference, enum least_memory_of memory,
                                        double most_seconds, bool *stopped);

/* What a plan takes of a memory: of the device the arena, of the host the pool. */
uint64_t least_memory_taken(const struct plan *plan, enum least_memory_of memory);

#endif
