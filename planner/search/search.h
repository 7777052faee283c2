/* The search: over layouts, where the optimizer runs, what is kept, homes, and how far ahead to
 * fetch, every plan timed by the simulator.
 *
 * The plan found is the best of all that were tried, by the objective. Every eviction policy and,
 * where updates can be placed, every strategy of other systems are tried too, with the sizes of a
 * sweep. */
#ifndef PSTAR_PLANNER_SEARCH_SEARCH_H
#define PSTAR_PLANNER_SEARCH_SEARCH_H

#include "chunks/plan.h"
#include "planner/search/objective.h"
#include "platforms/platform.h"
#include "sim/costs.h"

struct search_options {
    enum objective objective;
    const GPtrArray
        *layouts; /* struct named_layout, to choose from; NULL: planner/search/trials.h */
    const struct layout *start; /* that the optimizer's place is sought with; NULL: those of
                                   `layouts`, or of a sweep */
    uint64_t device_budget;     /* budget of the arena */
    uint64_t host_budget;       /* budget; UINT64_MAX: unlimited */
    const struct costs *costs;
    const struct platform *platform; /* of updates that are moved to the other side; NULL: they take
                                        what the trace's own take there, if it has any */
    bool alone;                      /* do not try what others do */
    uint32_t seed;     /* the same seed gives the same plan, unless time or a person stops it */
    double time_limit; /* seconds; 0: none */
    uint32_t threads;  /* 0: as many as there are processors */

    /* As in sim/workers.h; returns false to stop with the best so far. May be NULL. */
    bool (*progress)(void *data, uint32_t done, uint32_t total);
    void *progress_data;
};

/* What the plan is compared with: the best of its kind by the objective. */
struct search_baseline {
    char *name; /* NULL: none was tried that fits */
    uint64_t chunk_bytes;
    struct plan_figures figures;
};

struct search_result {
    struct plan *plan;
    struct trace *trace; /* with the updates where the plan has them */
    struct search_baseline policy, strategy;
    uint32_t layouts_tried, plans_tried; /* plans: since the last result of the same search */
    bool stopped;                        /* before its end */
};

/* NULL where nothing fits: PLAN_ERROR_DOES_NOT_FIT says what would. The caller frees the result
 * with search_result_free. */
struct search_result *search_plan(const struct trace *trace, const struct search_options *options,
                                  GError **error);
void search_result_free(struct search_result *result);

/* The same in two parts, for those who compare several traces. The first finds the optimizer's
 * place and a layout, which shows what a trace is good for, and may be the end of it. The second
 * goes on from there, to the end of its own time limit (seconds; 0: none). Results are as those of
 * search_plan; the second's plan is the first's where it finds no better one. The trace, and what
 * the options point at but for the layouts, outlive the search. */
struct search *search_new(const struct trace *trace, const struct search_options *options);
struct search_result *search_begin(struct search *search, GError **error);
struct search_result *search_go_on(struct search *search, double time_limit, GError **error);
void search_free(struct search *search);

/* What a trace needs to be trained at all. */

/* The least device memory, of the arena, with which search_plan finds a plan within the host budget
 * of `options`: that of one chunk a tensor, which needs no more than any other layout, with the
 * updates as traced or, where they can be placed, all on the host. UINT64_MAX where the host lacks
 * memory, whatever the device has; the error then says how much. */
uint64_t requirement_device_bytes(const struct trace *trace, const struct search_options *options,
                                  GError **error);

/* Whether the budgets of `options` suffice; otherwise PLAN_ERROR_DOES_NOT_FIT says what lacks. */
bool requirement_is_met(const struct trace *trace, const struct search_options *options,
                        GError **error);

#endif
