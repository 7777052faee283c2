/* The search: over layouts, what is kept, homes, and how far ahead to fetch, every plan timed by
 * the simulator.
 *
 * The plan found moves the least of all that were tried, every eviction policy with the sizes of a
 * sweep among them; among equals it is the fastest predicted. */
#ifndef PSTAR_PLANNER_SEARCH_H
#define PSTAR_PLANNER_SEARCH_H

#include "chunks/plan.h"
#include "policies/policy.h"
#include "sim/costs.h"

struct search_options {
    uint64_t device_bytes; /* budget of the arena */
    uint64_t host_bytes;   /* budget; UINT64_MAX: unlimited */
    const struct costs *costs;
    uint32_t seed;     /* the same seed gives the same plan, unless time or a person stops it */
    double time_limit; /* seconds; 0: none */
    uint32_t threads;  /* 0: as many as there are processors */

    /* As in sim/workers.h; returns false to stop with the best so far. May be NULL. */
    bool (*progress)(void *data, uint32_t done, uint32_t total);
    void *progress_data;
};

struct search_result {
    struct plan *plan;
    const struct policy_ops *policy; /* that moves the least of all policies and sizes tried */
    uint64_t policy_chunk_bytes;
    struct plan_figures policy_figures;
    uint32_t layouts_tried, plans_tried;
    bool stopped; /* before its end */
};

/* NULL where nothing fits: PLAN_ERROR_DOES_NOT_FIT says what would. The caller frees the result
 * with search_result_free. */
struct search_result *search_plan(const struct trace *trace, const struct search_options *options,
                                  GError **error);
void search_result_free(struct search_result *result);

#endif
