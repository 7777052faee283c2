/* Sums of several ranks' gradients (engine/shards.h). */
#include "engine/cuda/kernel_code.h"

#include "engine/cuda/reduction.h"

enum { THREADS = 256 };

__device__ static inline float first_number(const struct reduction_piece &a, uint64_t i)
{
    float number = a.received[0][i];
    if (a.accumulate)
        return a.sum[i] + number;
    return a.rows ? 0.0f + number : number;
}

__global__ static void __launch_bounds__(THREADS) add_kernel(struct reduction_piece a)
{
    uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= a.elements)
        return;
    float sum = first_number(a, i);
    if (a.received[1])
        sum += a.received[1][i];
    for (uint32_t r = 1; r < a.ranks; r++) {
        sum += a.received[0][r * a.elements + i];
        if (a.received[1])
            sum += a.received[1][r * a.elements + i];
    }
    a.sum[i] = sum;
}

void cuda_reduction_add(const void *context, const struct reduction_piece *piece)
{
    launch(add_kernel, launch_blocks(piece->elements, THREADS), THREADS, 0,
           cuda_context_of(context)->stream, *piece);
}

struct clear {
    uint64_t elements;
    float *gradient;
};

__global__ static void __launch_bounds__(THREADS) clear_kernel(struct clear a)
{
    uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < a.elements)
        a.gradient[i] = -0.0f;
}

void cuda_reduction_clear(const void *context, uint64_t elements, float *gradient)
{
    struct clear arguments = {elements, gradient};
    launch(clear_kernel, launch_blocks(elements, THREADS), THREADS, 0,
           cuda_context_of(context)->stream, arguments);
}
