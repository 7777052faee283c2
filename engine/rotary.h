/* The cosines and sines by which rotary positions turn queries and keys (Su et al., RoFormer,
 * 2021).
 */
#ifndef PSTAR_ENGINE_ROTARY_H
#define PSTAR_ENGINE_ROTARY_H

#include "models/config.h"

/* Returns the bytes of all tables: two, or four if layers with a window have others; 0 if positions
 * are learned. */
static inline uint64_t rotary_bytes(const struct model_config *config, uint32_t positions)
{
    uint64_t columns = config->rotary.columns + config->local_rotary.columns;
    return positions * columns * sizeof(float);
}

/* Fills cosines[positions, columns / 2] and sines, with the magnitude of the scaling. `positions`
 * are those of the sequence. */
void rotary_fill(const struct model_rotary *rotary, uint32_t positions, float *cosines,
                 float *sines);

#endif
