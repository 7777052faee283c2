/* The search over what a trace can be rewritten to: which layers are computed again, whether
 * activations may leave the device, on which side the embedding runs, whether masters are split at
 * the price of a second backward, and in how many micro-batches a step is done.
 *
 * A plan's bounds hold for its own choice. The others that were looked at are listed with it, each
 * with a bound of its own and with what became of it. */
#ifndef PSTAR_PLANNER_SEARCH_VARIANTS_H
#define PSTAR_PLANNER_SEARCH_VARIANTS_H

#include "planner/search/search.h"

struct variants_result {
    struct search_result *best;
    struct trace
        *traced; /* with the layers and micro-batches that the plan has, updates as traced */
    struct certificate_alternative *alternatives; /* [alternative_count] the others */
    uint32_t alternative_count;
};

/* search_plan of the trace as it is; and, where it is of a model that others can be derived for
 * (models/recognise.h), of its first layers computed again and its last ones kept, in shares that
 * are halved about the best; of all its layers offloaded, or none, where that frees or takes a part
 * of the device worth looking at; of its embedding on the other side; with two backwards over split
 * masters where it has one over whole ones, or the other way round; with every size of
 * micro-batches that divides the step's batch.
 * Only what may be better by its bound is tried, at a glance; the best is searched again. Fails as
 * search_plan does where no choice fits, and with TRACE_ERROR_INVALID where micro-batches are to be
 * chosen for a trace that was not synthesised for the options' platform. The caller frees the
 * result with variants_result_free.
 *
 * `scope` is the set of choices (bits of enum run_choice) that may differ from the traced ones; the
 * others need RUN_RECOMPUTE with them. RUN_EMBEDDING needs a platform to time it.
 * RUN_MICRO_BATCHES changes how sums of gradients are rounded, and in bf16 they may take a list of
 * their own; no result depends on the other choices. RUN_UPDATES is ignored: every search places
 * them. */
struct variants_result *variants_search(const struct trace *trace,
                                        const struct search_options *options, unsigned scope,
                                        GError **error);
void variants_result_free(struct variants_result *result);

/* Moves the alternatives into the certificate of the best plan. */
void variants_list(struct variants_result *result, struct certificate *certificate);

#endif
