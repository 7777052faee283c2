/* Places and counts non-model data: activations and workspaces of the running iteration, at the
 * places of chunks/non_model.h.
 *
 * The first operator that names a buffer claims it, the last one releases it. That is found from
 * the operators themselves, not taken from the trace's lifetimes. Buffers that chunks hold
 * (trace_held_buffers) are left out. */
#ifndef PSTAR_ENGINE_ACTIVATIONS_H
#define PSTAR_ENGINE_ACTIVATIONS_H

#include "chunks/non_model.h"
#include "models/iteration.h"

struct activations;

/* `iteration` and `places` must outlive the result. */
struct activations *activations_new(const struct model_iteration *iteration,
                                    const struct non_model *places, uint64_t arena_bytes);
void activations_free(struct activations *activations);

/* Claims the buffers that the operator of `moment` is the first to name. */
void activations_claim(struct activations *activations, moment_id moment);
/* Releases the buffers that the operator of `moment` is the last to name. */
void activations_release(struct activations *activations, moment_id moment);
/* Releases every buffer, after a forward pass without backward. */
void activations_reset(struct activations *activations);

/* Returns the address of a claimed buffer, in bytes from the start of the arena. */
uint64_t activations_address(const struct activations *activations, uint32_t buffer);

/* Return the bytes of claimed buffers, and those from the arena's top down to the lowest of them.
 */
uint64_t activations_live_bytes(const struct activations *activations);
uint64_t activations_extent(const struct activations *activations);

#endif
