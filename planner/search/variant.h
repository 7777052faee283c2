/* Variants of a run: other choices than the traced ones, and how each of them gets its plan. */
#ifndef PSTAR_PLANNER_SEARCH_VARIANT_H
#define PSTAR_PLANNER_SEARCH_VARIANT_H

#include "models/derivation.h"
#include "planner/search/variants.h"

/* A variant, and what became of it. */
struct variant {
    uint32_t first; /* layers before it are recomputed, those from it on kept */
    struct trace *trace;
    struct plan *plan;     /* may be NULL */
    struct search *search; /* begun and not finished; NULL if it is finished, or was never begun */
    bool swept;            /* its search is finished, with the baselines that come last */
    bool close, far;       /* as in struct search_result */
    struct certificate_alternative alternative; /* owns the choices */
};

struct variant_search {
    const struct trace *trace; /* the recorded trace */
    const struct search_options *options;
    struct derivation *derivation;       /* NULL if nothing can be derived */
    const struct recognised *recognised; /* the trace's model; NULL if pstar does not describe it */
    uint32_t layers;
    struct run_choices *traced; /* as the run was recorded; in stage 3, if only that fits */
    bool fast;                  /* ranks may sum fast */
    bool recomputes_as_traced;  /* no variant recomputes other layers */
    GPtrArray *variants;        /* struct variant */
    struct variant *best;       /* with the best plan; may be NULL */
    struct variant *first;      /* searched first, and compared with all others */
    struct search_result *full; /* of the one that was searched first */
    int32_t slack;              /* as the last search has found it (struct search_result) */
    gint64 deadline;            /* microseconds, monotonic; 0 for no limit */
    bool stopped;
};

void variant_free(void *variant);

/* Returns options with a share of the remaining time. Sets `stopped` if no time remains. */
struct search_options variants_remaining(struct variant_search *search, double share);

/* Sets the first `first` layers to be recomputed and the others to be kept, if layers are chosen.
 */
void variants_recompute_first(const struct variant_search *search, struct run_choices *run,
                              uint32_t first);

/* Returns whether other masters than the run's can be chosen. `model` is the trace's, or NULL. */
bool variants_may_split_masters(const struct run_choices *traced, const struct recognised *model,
                                unsigned scope);

/* Choices that need less memory than the traced ones. */
struct lean_choice {
    bool recompute, offload; /* all layers */
    bool second_backward;
    uint32_t batch; /* sequences in a micro-batch */
};

enum { LEAN_MOST = 6 };

/* Lists what is tried, in this order, where the traced run does not fit: all layers recomputed;
 * then also offloaded; then the same with split masters. Where a layer that runs again needs more
 * room than its activations, they are only offloaded. At last micro-batches are as small as
 * possible. Returns how many of them the scope allows. */
uint32_t variants_list_lean(const struct run_choices *traced, const struct recognised *model,
                            unsigned scope, struct lean_choice lean[LEAN_MOST]);

/* Returns the variant with these choices (updates apart), or NULL. */
struct variant *variants_find(const struct variant_search *search, const struct run_choices *run);

/* Adds a variant, with the bound of its choices. Takes ownership of `trace`, which is derived with
 * them. */
struct variant *variants_add(struct variant_search *search, const struct run_choices *run,
                             struct trace *trace);

/* Returns whether the best plan is no slower than the variant's bound, if time is what counts. */
bool variants_is_bounded(const struct variant_search *search, const struct variant *variant);

/* Returns whether the variant offloads other layers than the trace. */
bool variants_offload_differs(const struct variant_search *search, const struct variant *variant);

/* Returns the time of a step, rounded to nanoseconds. */
uint64_t variants_nanoseconds(const struct plan *plan);

/* Returns whether a plan is better by the objective. For least memory, the smaller budget wins
 * first. `than` may be NULL. */
bool variants_prefers(const struct variant_search *search, const struct plan *plan,
                      const struct plan *than);

/* Keeps the better plan of a variant, and the best of all. Takes ownership of `plan`, which may be
 * NULL. */
void variants_take_plan(struct variant_search *search, struct variant *variant, struct plan *plan);

/* Sets whether the ranks' sums are fast, which they are if they may and if that differs in their
 * stage (enum model_sums). */
void variants_choose_sums(const struct variant_search *search, struct run_choices *run);

/* Sets micro-batches of `batch` sequences, which divides the step's, and the sums that this allows.
 */
void variants_set_batch(const struct variant_search *search, struct run_choices *run,
                        uint32_t batch);

/* Returns the trace with other choices, or NULL if there is no such step. Free it with trace_free.
 */
struct trace *variants_trace(const struct variant_search *search, const struct run_choices *run);

/* Returns whether offloading the layers of `offload` [layers], instead of the traced ones, can
 * matter: it changes the largest amount of non-model data by a considerable part of the device, and
 * the bytes that must then cross the link allow a better plan. The first `first` layers are
 * recomputed; micro-batches and embedding are taken from the best plan. */
bool variants_offload_matters(const struct variant_search *search, uint32_t first,
                              const uint8_t *offload);

/* Returns the chunks of `layout`, which belongs to the trace `of`, for `trace`. A list that only
 * one of the traces has gets chunks of the parameters' size. A list of another width gets chunks
 * with the same number of elements. Free the result with layout_free. */
struct layout *variants_layout(const struct layout *layout, const struct trace *of,
                               const struct trace *trace);

/* Returns the options' layouts, which belong to the trace `of`, converted for `trace`; NULL if
 * there are none. Free the result with g_ptr_array_unref. */
GPtrArray *variants_layouts(const struct search_options *options, const struct trace *of,
                            const struct trace *trace);

/* requirement_device_bytes, requirement_is_met, search_new and search_plan for `trace`. Layouts in
 * the options belong to the trace `of` and are converted. */
uint64_t variants_requirement(const struct trace *trace, const struct trace *of,
                              const struct search_options *options);
bool variants_may_fit(const struct trace *trace, const struct trace *of,
                      const struct search_options *options, GError **error);
struct search *variants_search_new(const struct trace *trace, const struct trace *of,
                                   const struct search_options *options);
struct search_result *variants_search_fully(const struct trace *trace, const struct trace *of,
                                            const struct search_options *options, GError **error);

/* Finds plans with low effort and the layout of the best plan so far: with its updates, and with
 * more or fewer of them on the host, since what pays depends on the room on the device. */
void variants_plan_quickly(struct variant_search *search, struct variant *variant);

/* Takes the plan and the baselines of a variant's search. Takes ownership of `result`, which may be
 * NULL. */
void variants_take_result(struct variant_search *search, struct variant *variant,
                          struct search_result *result);

/* Runs the first part of the search for the best of the variants from the one numbered `from` on.
 * Returns it, or NULL if it is not good enough beside `than`. */
struct variant *variants_begin_contender(struct variant_search *search, guint from,
                                         const struct variant *than);

/* Runs the first part of the searches for the best variants. */
void variants_begin_contenders(struct variant_search *search);

/* Runs the other parts of a search that was begun. */
void variants_finish(struct variant_search *search, struct variant *variant);

/* Finishes the best variant's search, unless it had low effort only. In short iterations it goes on
 * with the others that were begun, too. */
void variants_finish_best(struct variant_search *search);

/* Tries the baselines of the variants whose searches are not finished: the search of one variant
 * ends with baselines of that variant alone. */
void variants_sweep_others(struct variant_search *search);

#endif
