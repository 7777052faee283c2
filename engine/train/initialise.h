/* Weights of a new model, as GPT-2's are drawn.
 *
 * Matrices and embeddings are normal with the config's initializer_range as deviation, divided by
 * sqrt(2 * layers) in the projections that end on the residual stream; norms are 1 and 0, biases 0.
 */
#ifndef PSTAR_ENGINE_TRAIN_INITIALISE_H
#define PSTAR_ENGINE_TRAIN_INITIALISE_H

#include "models/config.h"

/* Elements [first, first + count) of a tensor, named as in traces ("h.0.attn.c_attn.weight"). A
 * pure function of seed, tensor (its index in the model) and element: chunks and pieces cannot
 * matter. */
void initialise_values(const struct model_config *config, uint64_t seed, uint32_t tensor,
                       const char *name, uint64_t first, uint64_t count, float *values);

#endif
