/* The functions of struct reduction_place on a GPU, queued on the stream of a
 * struct cuda_context. They give the bits of those on the host. */
#ifndef PSTAR_ENGINE_CUDA_REDUCTION_H
#define PSTAR_ENGINE_CUDA_REDUCTION_H

#include "engine/cuda/kernels.h"
#include "engine/reduction_place.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads every part once, and reads and writes the sum: 4 (ranks x parts + 2) bytes an element;
 * if it is narrow, 2 (ranks x parts + 1). */
void cuda_reduction_add(const void *context, const struct reduction_piece *piece);
/* 4 bytes an element. */
void cuda_reduction_clear(const void *context, uint64_t elements, float *gradient);

#ifdef __cplusplus
}
#endif

#endif
