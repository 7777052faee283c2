/* The cosines and sines by which rotary positions turn queries and keys (Su et al., RoFormer,
 * 2021).
 */
#ifndef PSTAR_ENGINE_ROTARY_H
#define PSTAR_ENGINE_ROTARY_H

#include "models/config.h"

/* Fills cosines[positions, columns / 2] and sines, with the magnitude of the scaling. */
void rotary_fill(const struct model_config *config, uint32_t positions, float *cosines,
                 float *sines);

#endif
