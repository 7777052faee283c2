/* Text from a trained model, token by token, through the forward pass of training. */
#ifndef PSTAR_ENGINE_SAMPLING_H
#define PSTAR_ENGINE_SAMPLING_H

#include "engine/engine.h"

/* Prints the prompt and `count` tokens drawn after it: as text where a token is a byte, else as
 * numbers. Draws depend on `seed` alone. `prompt` has prompt_count >= 1 tokens. */
bool sampling_print(struct engine *engine, const struct model_iteration *iteration, uint64_t seed,
                    const uint32_t *prompt, uint32_t prompt_count, uint32_t count, GError **error);

#endif
