/* From a trace, the one of the same model with other layers computed again or offloaded, or other
 * micro-batches. */
#ifndef PSTAR_MODELS_DERIVE_H
#define PSTAR_MODELS_DERIVE_H

#include "models/recognise.h"
#include "platforms/platform.h"

/* What layers do with their activations, as in struct model_job; each [layers], or NULL: none. */
struct model_layers {
    const uint8_t *recompute, *offload;
};

/* `recognised` is that of `trace`.
 *
 * Tensors, operators, accesses, counts and buffers are exactly those of a run that chooses so.
 * Operators that both have keep their durations; one that computes again what the trace kept takes
 * as long as its forward did, and the result is then marked as estimated: synthesised durations are
 * those of a synthesis, measured ones those of the same work at another time. The caller frees the
 * result with trace_free. */
struct trace *model_derive(const struct recognised *recognised, const struct trace *trace,
                           struct model_layers layers);

/* Whether the trace's durations are those of a synthesis for the platform. */
bool model_is_synthesised(const struct recognised *recognised, const struct trace *trace,
                          const struct platform *platform);

/* The synthesis of the same model with other micro-batches. What operators take with other
 * micro-batches no measurement tells: this is for a trace that model_is_synthesised. NULL where the
 * step would be too large. The caller frees the result with trace_free. */
struct trace *model_rebatch(const struct recognised *recognised, const struct trace *trace,
                            const struct platform *platform, uint32_t batch, uint32_t micro_batches,
                            struct model_layers layers);

#endif
