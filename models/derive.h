/* From a trace, the one of the same model with other layers computed again or offloaded, the
 * embedding elsewhere, backward run twice, or other micro-batches. */
#ifndef PSTAR_MODELS_DERIVE_H
#define PSTAR_MODELS_DERIVE_H

#include "models/recognise.h"
#include "platforms/platform.h"

/* How a step is made, as in struct model_job, where its results do not depend on it; of the layers
 * each [layers], or NULL: none. */
struct model_choice {
    const uint8_t *recompute, *offload;
    bool host_embedding;
    bool twice; /* backward runs twice, over split masters (model_second_backward); otherwise
                   masters lie as traced, or whole where it ran twice there */
};

/* `recognised` is that of `trace`.
 *
 * Tensors, operators, accesses, counts and buffers are exactly those of a run that chooses so.
 * Operators that both have keep their durations; one that computes again what the trace kept takes
 * as long as its forward did, and one of a second backward as long as in the first: synthesised
 * durations are those of a synthesis, measured ones those of the same work at another time. An
 * embedding on the other side takes what a synthesis for the platform says; NULL: as long as it
 * did. Where masters lie otherwise, some move other bytes: synthesised ones take what a
 * synthesis says, measured ones as long as they did. Durations that are not the trace's mark the
 * result as estimated. NULL where the model has no such step: an embedding on the host with
 * gradients in buffers, two backwards in fp32 or with several micro-batches. The caller frees the
 * result with trace_free. */
struct trace *model_derive(const struct recognised *recognised, const struct trace *trace,
                           struct model_choice choice, const struct platform *platform);

/* Whether the trace's durations are those of a synthesis for the platform. */
bool model_is_synthesised(const struct recognised *recognised, const struct trace *trace,
                          const struct platform *platform);

/* The synthesis of the same model with other micro-batches. What operators take with other
 * micro-batches no measurement tells: this is for a trace that model_is_synthesised. NULL where the
 * model has no such step, or it would be too large. The caller frees the result with trace_free. */
struct trace *model_rebatch(const struct recognised *recognised, const struct trace *trace,
                            const struct platform *platform, uint32_t batch, uint32_t micro_batches,
                            struct model_choice choice);

#endif
