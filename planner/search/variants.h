/* The search over variants of a run: which layers are recomputed, whether activations may be
 * offloaded, where the embedding runs, whether masters are split at the price of a second backward,
 * and the size of micro-batches.
 *
 * The bounds of a plan hold for its own choices. The other variants that were tried are listed with
 * the plan, each with a bound and an outcome. */
#ifndef PSTAR_PLANNER_SEARCH_VARIANTS_H
#define PSTAR_PLANNER_SEARCH_VARIANTS_H

#include "planner/search/search.h"

struct variants_result {
    struct search_result *best;
    struct trace *traced; /* with the choices of the plan, updates as traced */
    struct certificate_alternative *alternatives; /* [alternative_count] the other variants */
    uint32_t alternative_count;
};

/* Calls search_plan for the trace as it is. If other variants of the model can be derived
 * (models/derive.h), it also tries them: the first layers recomputed and the last ones kept, in
 * shares that are halved around the best; all layers offloaded, or none, if that changes the free
 * memory considerably, and only as many as the host can hold, if the others are recomputed; several
 * ranks in the other stages, with a search of their own; the embedding on the other side; two
 * backwards over split masters, or one over whole ones; every size of micro-batches that divides
 * the step's batch. Only variants whose bound may be better are tried, with low effort; the best
 * one is searched again.
 *
 * Fails as search_plan does if no variant fits, and with TRACE_ERROR_INVALID if micro-batches are
 * to be chosen for a trace that was not synthesised for the options' platform. Free the result with
 * variants_result_free.
 *
 * `scope` is the set of choices (bits of enum run_choice) that may differ from the traced ones; all
 * but RUN_OFFLOAD need RUN_RECOMPUTE with them. RUN_EMBEDDING needs a platform to time it.
 * RUN_STAGE needs several ranks, and a platform that knows how they exchange; with RUN_SUMS ranks
 * may sum fast, which changes how their sums are rounded. RUN_MICRO_BATCHES changes how sums of
 * gradients are rounded, and in bf16 they may need a list of their own; no result depends on the
 * other choices. RUN_UPDATES is ignored: every search places updates. */
struct variants_result *variants_search(const struct trace *trace,
                                        const struct search_options *options, unsigned scope,
                                        GError **error);

/* The same; but where the plan stays far above its bound, and a search is quick, up to two others
 * follow with other random numbers, within the same limit of the time. Keeps the best plan, which
 * is never worse than that of variants_search. */
struct variants_result *variants_search_anew(const struct trace *trace,
                                             const struct search_options *options, unsigned scope,
                                             GError **error);
void variants_result_free(struct variants_result *result);

/* Moves the alternatives into the certificate of the best plan. */
void variants_list(struct variants_result *result, struct certificate *certificate);

#endif
