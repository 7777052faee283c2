/* Text from a trained model, token by token, through the forward pass of training. */
#ifndef PSTAR_ENGINE_TRAIN_SAMPLING_H
#define PSTAR_ENGINE_TRAIN_SAMPLING_H

#include "engine/engine.h"

/* Appends `count` tokens (uint32_t) to `text`, which holds at least one to begin with. Draws depend
 * on `seed` alone. */
bool sampling_continue(struct engine *engine, const struct model_iteration *iteration,
                       uint64_t seed, uint32_t count, GArray *text, GError **error);

#endif
