/* What the search over choices knows, and how one choice gets its plan. */
#ifndef PSTAR_PLANNER_SEARCH_VARIANT_H
#define PSTAR_PLANNER_SEARCH_VARIANT_H

#include "models/derive.h"
#include "planner/search/variants.h"

/* A run's choices that were tried, and what became of them. */
struct variant {
    uint32_t first; /* the layers before it are computed again, those from it on kept */
    struct trace *trace;
    struct plan *plan;     /* NULL: none was made */
    struct search *search; /* whose second part is still to come; NULL: it had a glance, or both */
    struct certificate_alternative alternative; /* owns the choices */
};

struct variant_search {
    const struct trace *trace; /* as it was recorded */
    const struct search_options *options;
    struct recognised *recognised; /* NULL: nothing can be derived */
    uint32_t layers;
    struct run_choices *traced; /* as the run was recorded */
    GPtrArray *variants;        /* struct variant */
    struct variant *best;       /* with the best plan; NULL: none yet */
    struct variant *first;      /* that was searched first: the others are compared with it */
    struct search_result *full; /* of the one that was searched first */
    gint64 deadline;            /* microseconds, monotonic; 0: none */
    bool stopped;
};

void variant_free(void *variant);

/* The options of a search with a share of the time that is left of their limit; where there is
 * none, the search is over: `stopped`. */
struct search_options variants_remaining(struct variant_search *choices, double share);

/* Returns what was tried with these choices of a run (updates apart), or NULL. */
struct variant *variants_find(const struct variant_search *choices, const struct run_choices *run);

/* Adds the choices of a run to the alternatives, with their bound. Takes `trace`, which is derived
 * with them. */
struct variant *variants_add(struct variant_search *choices, const struct run_choices *run,
                             struct trace *trace);

/* Whether other layers are offloaded than in the trace. */
bool variants_offload_differs(const struct variant_search *choices, const struct variant *variant);

/* A step's time in whole nanoseconds. */
uint64_t variants_nanoseconds(const struct plan *plan);

/* Whether a plan is better by the objective; for least memory, plans of different budgets are no
 * equals. `than` may be NULL. */
bool variants_prefers(const struct variant_search *choices, const struct plan *plan,
                      const struct plan *than);

/* Keeps the better plan of a choice, and the best of all. Takes `plan`, which may be NULL. */
void variants_take_plan(struct variant_search *choices, struct variant *variant, struct plan *plan);

/* Sets micro-batches of `batch` sequences, which divides the step's. */
void variants_set_batch(const struct variant_search *choices, struct run_choices *run,
                        uint32_t batch);

/* Returns the trace with other choices, or NULL if there is no such step. The caller frees it with
 * trace_free. */
struct trace *variants_trace(const struct variant_search *choices, const struct run_choices *run);

/* Whether `offload` [layers], instead of the traced layers, frees or takes a part of the device
 * that is worth looking at, where non-model data takes the most, and what then must cross the link
 * permits a better plan; the first layers, as many as `first`, are computed again, and
 * micro-batches and embedding are as in the best plan. */
bool variants_offload_matters(const struct variant_search *choices, uint32_t first,
                              const uint8_t *offload);

/* The same chunks, of a layout of the trace `of`; where `trace` has a list that the layout lacks,
 * or the other way round, chunks of the same sizes, and where it has one of another width, chunks
 * of as many elements. The caller frees it with layout_free. */
struct layout *variants_layout(const struct layout *layout, const struct trace *of,
                               const struct trace *trace);

/* search_new, and search_plan, with the options' layouts, if they name any, which are of the trace
 * `of`, made for this trace. */
struct search *variants_search_new(const struct trace *trace, const struct trace *of,
                                   const struct search_options *options);
struct search_result *variants_search_fully(const struct trace *trace, const struct trace *of,
                                            const struct search_options *options, GError **error);

/* Plans at a glance, with the layout of the best plan so far: with the updates where that has them,
 * and with more or fewer on the host, since room on the device changes what pays. */
void variants_plan_quickly(struct variant_search *choices, struct variant *variant);

#endif
