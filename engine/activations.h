/* The counted allocator of non-model data: activations and workspaces of the running iteration, at
 * the places of chunks/non_model.h.
 *
 * A buffer is claimed by the first operator that names it and released by the last: counted here
 * from the operators themselves, not taken from the trace's lifetimes. Buffers that chunks hold
 * (trace_held_buffers) are none of its. */
#ifndef PSTAR_ENGINE_ACTIVATIONS_H
#define PSTAR_ENGINE_ACTIVATIONS_H

#include "chunks/non_model.h"
#include "models/iteration.h"

struct activations;

/* `iteration` and `places` outlive the result. */
struct activations *activations_new(const struct model_iteration *iteration,
                                    const struct non_model *places, uint64_t arena_bytes);
void activations_free(struct activations *activations);

/* Claims what the operator of `moment` is the first to name. */
void activations_claim(struct activations *activations, uint32_t moment);
/* Releases what it was the last to name. */
void activations_release(struct activations *activations, uint32_t moment);
/* Releases everything: after a forward pass alone. */
void activations_reset(struct activations *activations);

/* Where a claimed buffer lies: bytes from the start of the arena. */
uint64_t activations_address(const struct activations *activations, uint32_t buffer);

/* Bytes of claimed buffers, and from the arena's top down to the lowest of them. */
uint64_t activations_live_bytes(const struct activations *activations);
uint64_t activations_extent(const struct activations *activations);

#endif
