/* Plans over one link, for a device with a share of the memory that a trace needs. Tests make
 * certificates of them. */
#ifndef PSTAR_TESTS_PLANNER_LINK_PLAN_H
#define PSTAR_TESTS_PLANNER_LINK_PLAN_H

#include "planner/search/search.h"
#include "sim/sizes.h"

#define LINK "h2d=900MB/s,d2h=700MB/s"

/* Returns a plan for a device with a share like "50%" and a host with so many bytes, or NULL if
 * none fits. The seed of the search is drawn. `placed` becomes the trace with updates where the
 * plan has them, or NULL. The caller frees both. */
static inline struct plan *search_within(const struct trace *trace, const char *share,
                                         uint64_t host_budget, GRand *random, struct trace **placed)
{
    struct costs *costs = costs_new(NULL, LINK, NULL);
    struct search_options options = {
        .host_budget = host_budget, .costs = costs, .seed = g_rand_int(random), .threads = 1};
    g_assert_true(sizes_parse_budget(share, trace, &options.device_budget, NULL));
    struct search_result *result = search_plan(trace, &options, NULL);
    struct plan *plan = result ? g_steal_pointer(&result->plan) : NULL;
    *placed = result ? g_steal_pointer(&result->trace) : NULL;
    search_result_free(result);
    costs_free(costs);
    return plan;
}

/* The same with a host that has room for everything. */
static inline struct plan *search(const struct trace *trace, const char *share, GRand *random,
                                  struct trace **placed)
{
    return search_within(trace, share, UINT64_MAX, random, placed);
}

#endif
