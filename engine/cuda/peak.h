/* What a GPU computes at best. */
#ifndef PSTAR_ENGINE_CUDA_PEAK_H
#define PSTAR_ENGINE_CUDA_PEAK_H

#include "models/iteration.h"

/* Operations a second of a large matrix product on random numbers, the best of a few, on the
 * current device and in memory of its own; 0 where there is not enough. */
double cuda_peak_flops(enum model_precision precision);

#endif
