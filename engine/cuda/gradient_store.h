/* What becomes of a parameter's gradient: see enum kernel_gradient. */
#ifndef PSTAR_ENGINE_CUDA_GRADIENT_STORE_H
#define PSTAR_ENGINE_CUDA_GRADIENT_STORE_H

#include "engine/cuda/element.h"
#include "engine/kernels.h"

__host__ __device__ static inline bool gradient_is_half(enum kernel_gradient gradient)
{
    return gradient == KERNEL_GRADIENT_SET_BF16 || gradient == KERNEL_GRADIENT_ADD_BF16;
}

__host__ __device__ static inline bool gradient_adds(enum kernel_gradient gradient)
{
    return gradient == KERNEL_GRADIENT_ADD || gradient == KERNEL_GRADIENT_ADD_BF16;
}

template <typename T> __device__ inline void gradient_store_as(T *to, bool add, float value)
{
    element_store(to, add ? value + element_load(to) : value);
}

__device__ static inline void gradient_store(enum kernel_gradient gradient, void *to,
                                             uint64_t element, float value)
{
    if (gradient_is_half(gradient))
        gradient_store_as((uint16_t *)to + element, gradient_adds(gradient), value);
    else
        gradient_store_as((float *)to + element, gradient_adds(gradient), value);
}

/* Elements `column` and the next, of a row of `columns`. */
__device__ static inline void gradient_store_pair(enum kernel_gradient gradient, void *to,
                                                  uint64_t row, uint32_t column, uint32_t columns,
                                                  struct pair pair)
{
    if (column < columns)
        gradient_store(gradient, to, row * columns + column, pair.a);
    if (column + 1 < columns)
        gradient_store(gradient, to, row * columns + column + 1, pair.b);
}

#endif
