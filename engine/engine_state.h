/* What the engine's files share. */
#ifndef PSTAR_ENGINE_ENGINE_STATE_H
#define PSTAR_ENGINE_ENGINE_STATE_H

#include "engine/engine.h"
#include "engine/executor.h"

struct engine {
    struct device *device;
    struct non_model *places;
    struct accesses *accesses;
    struct usage *usage;
    struct chunk_mover mover;
    struct residency *residency;
    struct executor executor;
    struct plan_figures outside; /* loading, evaluation, saving */
    bool started;
};

/* `count` elements of the precision, at the start of `values`, become fp32 in place. */
void engine_widen(enum model_precision precision, uint64_t count, float *values);

#endif
