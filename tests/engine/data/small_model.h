/* A small GPT-2 whose model data lies in plain memory: what tests save, damage and load. */
#ifndef PSTAR_TESTS_ENGINE_DATA_SMALL_MODEL_H
#define PSTAR_TESTS_ENGINE_DATA_SMALL_MODEL_H

#include "engine/weights.h"
#include "models/iteration.h"

struct small_model {
    struct model_config config;
    struct model_iteration *iteration;
    struct trace *trace;         /* the iteration's */
    float **values[TRACE_LISTS]; /* [list][tensor][element]; NULL: no such list */
    uint64_t reads, fail_after;  /* reading fails after so many; 0: never */
    struct weights_store store;
};

/* Every value is a different one, a function of `seed`. */
struct small_model *small_model_new(bool tied, enum model_precision precision, uint32_t seed);
void small_model_free(struct small_model *model);

/* Whether weights (and, with `moments`, the optimizer's state) are the same bits. */
bool small_model_equal(const struct small_model *a, const struct small_model *b, bool moments);

#endif
