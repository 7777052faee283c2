/* Cuts the run of a trace into the stages of a pipeline. */
#ifndef PSTAR_MODELS_PIPELINE_DERIVE_H
#define PSTAR_MODELS_PIPELINE_DERIVE_H

#include "models/derive.h"
#include "models/pipeline.h"

struct pipeline_request {
    struct pipeline_shape shape;
    uint32_t micro_batches; /* of a step, of all ranks of a stage; 0 for the trace's */
};

/* Returns the traces of a run's stages: [request->shape.stages], each of one of its ranks, of which
 * every stage has as many as the trace. Operators take the time of the trace's
 * (model_derive_iteration); what stages add takes the time of its bytes in the platform's memory,
 * or none if `platform` is NULL. Fails if the trace's model is not known here
 * (TRACE_ERROR_INVALID), or if the run cannot be cut so (MODEL_ERROR_CONFIG). Free with
 * pipeline_traces_free. */
struct trace **pipeline_traces_new(const struct trace *trace,
                                   const struct pipeline_request *request,
                                   const struct platform *platform, GError **error);

/* Returns the traces of the stages of an iteration whose operators have durations, in the same way.
 * Fails (MODEL_ERROR_CONFIG) if it cannot be cut so. */
struct trace **pipeline_traces_of(const struct model_iteration *whole,
                                  const struct pipeline_shape *shape,
                                  const struct platform *platform, GError **error);
void pipeline_traces_free(struct trace **traces, uint32_t stages); /* NULL is allowed */

#endif
