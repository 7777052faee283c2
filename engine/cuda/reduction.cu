/* Sums of several ranks' gradients (engine/reduction.h). */
#include "engine/cuda/kernel_code.h"

#include "engine/cuda/reduction.h"

enum { THREADS = 256 };

/* Returns what rank r has of element i, in a part. */
template <typename T>
__device__ static inline float number_of(const struct reduction_piece &a, int part, uint32_t r,
                                         uint64_t i)
{
    return element_load((const T *)a.received[part] + r * a.elements + i);
}

__device__ static inline float first_number(const struct reduction_piece &a, uint64_t i)
{
    float number = number_of<float>(a, 0, 0, i);
    if (a.accumulate)
        return ((const float *)a.sum)[i] + number;
    return a.rows ? 0.0f + number : number;
}

__global__ static void __launch_bounds__(THREADS) add_kernel(struct reduction_piece a)
{
    uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= a.elements)
        return;
    float sum = first_number(a, i);
    if (a.received[1])
        sum += number_of<float>(a, 1, 0, i);
    for (uint32_t r = 1; r < a.ranks; r++) {
        sum += number_of<float>(a, 0, r, i);
        if (a.received[1])
            sum += number_of<float>(a, 1, r, i);
    }
    ((float *)a.sum)[i] = sum;
}

__global__ static void __launch_bounds__(THREADS) add_narrow_kernel(struct reduction_piece a)
{
    uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    float sum = 0;
    if (i >= a.elements)
        return;
    for (uint32_t r = 0; r < a.ranks; r++) {
        sum += number_of<uint16_t>(a, 0, r, i);
        if (a.received[1])
            sum += number_of<uint16_t>(a, 1, r, i);
    }
    ((uint16_t *)a.sum)[i] = bf16_round(sum);
}

void cuda_reduction_add(const void *context, const struct reduction_piece *piece)
{
    launch(piece->narrow ? add_narrow_kernel : add_kernel, launch_blocks(piece->elements, THREADS),
           THREADS, 0, cuda_context_of(context)->stream, *piece);
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
    if (elements == 0)
        return; /* a GPU refuses a launch without blocks */
    launch(clear_kernel, launch_blocks(elements, THREADS), THREADS, 0,
           cuda_context_of(context)->stream, arguments);
}
