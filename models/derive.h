/* From a trace, the one of the same model with other layers computed again. */
#ifndef PSTAR_MODELS_DERIVE_H
#define PSTAR_MODELS_DERIVE_H

#include "models/recognise.h"

/* `recompute` [layers]: nonzero computes the layer's activations again in backward. `recognised` is
 * that of `trace`.
 *
 * Tensors, operators, accesses, counts and buffers are exactly those of a run that chooses so.
 * Operators that both have keep their durations; one that computes again what the trace kept takes
 * as long as its forward did, and the result is then marked as estimated: synthesised durations are
 * those of a synthesis, measured ones those of the same work at another time. The caller frees the
 * result with trace_free. */
struct trace *model_derive(const struct recognised *recognised, const struct trace *trace,
                           const uint8_t *recompute);

#endif
