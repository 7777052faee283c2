#include "engine/cuda/by_precision.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/last_block.h"
#include "engine/cuda/tile.h"

/* ---- sums of squares: a warp a block of engine/cpu/gradient.c, whose order of sums it is ---- */

enum { WARPS = 8, SQUARES_THREADS = WARPS * WARP, SQUARES_BLOCKS = CPU_SQUARES_BLOCKS };

template <typename T> struct squares {
    uint64_t elements, block; /* elements of a warp */
    const T *values;
    uint16_t *rounded; /* NULL: squares of the values themselves */
    double *parts;     /* [SQUARES_BLOCKS] */
    uint32_t *counter;
    double *sum; /* NULL: not wanted */
};

struct squares_shared {
    double sums[SQUARES_THREADS];
    uint32_t last;
};

template <typename T> __device__ inline double warp_squares(const struct squares<T> &a, uint64_t w)
{
    uint64_t begin = w * a.block, end = begin + a.block < a.elements ? begin + a.block : a.elements;
    double sum_a = 0, sum_b = 0;
#pragma unroll 8
    for (uint64_t e = begin; e < end; e += TILE) {
        uint32_t column = threadIdx.x % WARP * 2;
        uint32_t columns = end - e < TILE ? (uint32_t)(end - e) : (uint32_t)TILE;
        struct pair v = pair_load(a.values + e, column, columns, 0);
        if (a.rounded) {
            v = {bf16_widen(bf16_round(v.a)), bf16_widen(bf16_round(v.b))};
            pair_store(a.rounded + e, column, columns, v);
        }
        sum_a += (double)v.a * (double)v.a;
        sum_b += (double)v.b * (double)v.b;
    }
    return lanes_sum(sum_a, sum_b);
}

template <typename T>
__global__ void __launch_bounds__(SQUARES_THREADS) squares_kernel(struct squares<T> a)
{
    struct squares_shared *shared = (struct squares_shared *)shared_memory();
    uint64_t w = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    uint64_t blocks = (a.elements + a.block - 1) / a.block;
    double squares = w < blocks ? warp_squares(a, w) : 0;
    if (!a.sum)
        return;
    if (w < blocks && threadIdx.x % WARP == 0)
        a.parts[w] = squares;
    if (!last_block(a.counter, &shared->last))
        return;
    double sum = pairwise_sum(SQUARES_THREADS, SQUARES_BLOCKS, shared->sums, [&](uint64_t i) {
        return i < blocks ? *(volatile double *)&a.parts[i] : 0;
    });
    if (threadIdx.x == 0)
        *a.sum = sum;
}

template <typename T>
static void squares_launch(const struct cuda_context *cuda, uint64_t elements, const void *values,
                           uint16_t *rounded, double *sum)
{
    uint64_t tiles = (elements + TILE - 1) / TILE;
    uint64_t block = (tiles + SQUARES_BLOCKS - 1) / SQUARES_BLOCKS * TILE;
    unsigned blocks = launch_blocks(elements, (unsigned)block);
    struct squares<T> arguments = {
        elements, block, (const T *)values, rounded, (double *)cuda->scratch, cuda->counter, sum
    };
    launch(squares_kernel<T>, launch_blocks(blocks, WARPS), SQUARES_THREADS,
           sizeof(struct squares_shared), cuda->stream, arguments);
}

void cuda_sum_squares(const struct cuda_context *cuda, enum model_precision precision,
                      uint64_t elements, const void *gradient, double *sum)
{
    BY_PRECISION(precision, squares_launch, cuda, elements, gradient, NULL, sum);
}

void cuda_round_gradient(const struct cuda_context *cuda, uint64_t elements, const float *values,
                         uint16_t *rounded, double *sum)
{
    squares_launch<float>(cuda, elements, values, rounded, sum);
}
