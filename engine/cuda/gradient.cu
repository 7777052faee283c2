#include "engine/adamw.h"
#include "engine/cuda/by_precision.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/last_block.h"
#include "engine/cuda/tile.h"

/* ---- sums of squares: a warp a block of engine/cpu/gradient.c, whose order of sums it is ---- */

enum { WARPS = 8, SQUARES_THREADS = WARPS * WARP, SQUARES_BLOCKS = KERNEL_SQUARES_BLOCKS };

template <typename T> struct squares {
    uint64_t elements, block; /* elements of a warp */
    const T *values;
    double *parts; /* [SQUARES_BLOCKS] */
    uint32_t *counter;
    double *sum;
};

struct squares_shared {
    double sums[SQUARES_THREADS];
    uint32_t last;
};

/* Tiles whose loads are under way together. A multiprocessor has no more than one block, which may
 * use all registers for that. */
enum { TILES_AHEAD = 32, TOGETHER = 1 };

/* Pairs beyond the last are 0, which changes no sum, and the first is loaded again: loads on a
 * condition would come one after the other. */
template <typename T> __device__ inline double warp_squares(const struct squares<T> &a, uint64_t w)
{
    uint64_t begin = w * a.block, end = begin + a.block < a.elements ? begin + a.block : a.elements;
    uint64_t pairs_end = end - end % 2;
    uint32_t column = threadIdx.x % WARP * 2;
    double sum_a = 0, sum_b = 0;
    for (uint64_t e = begin; e < pairs_end; e += TILES_AHEAD * TILE) {
        struct pair ahead[TILES_AHEAD];
#pragma unroll
        for (int i = 0; i < TILES_AHEAD; i++) {
            uint64_t first = e + i * TILE + column;
            ahead[i] = pair_load_whole(a.values + (first < pairs_end ? first : begin));
        }
#pragma unroll
        for (int i = 0; i < TILES_AHEAD; i++) {
            bool there = e + i * TILE + column < pairs_end;
            sum_a += there ? (double)ahead[i].a * (double)ahead[i].a : 0;
            sum_b += there ? (double)ahead[i].b * (double)ahead[i].b : 0;
        }
    }
    if (pairs_end < end && pairs_end % TILE == column) {
        double last = (double)element_load(a.values + pairs_end);
        sum_a += last * last;
    }
    return lanes_sum(sum_a, sum_b);
}

template <typename T>
__global__ void __launch_bounds__(SQUARES_THREADS, TOGETHER) squares_kernel(struct squares<T> a)
{
    struct squares_shared *shared = (struct squares_shared *)shared_memory();
    uint64_t w = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    uint64_t blocks = (a.elements + a.block - 1) / a.block;
    double squares = w < blocks ? warp_squares(a, w) : 0;
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
                           double *sum)
{
    uint64_t tiles = (elements + TILE - 1) / TILE;
    uint64_t block = (tiles + SQUARES_BLOCKS - 1) / SQUARES_BLOCKS * TILE;
    unsigned blocks = launch_blocks(elements, (unsigned)block);
    struct squares<T> arguments = {
        elements, block, (const T *)values, (double *)cuda->scratch, cuda->counter, sum
    };
    launch(squares_kernel<T>, launch_blocks(blocks, WARPS), SQUARES_THREADS,
           sizeof(struct squares_shared), cuda->stream, arguments);
}

void cuda_sum_squares(const void *context, enum model_precision precision, uint64_t elements,
                      const void *gradient, double *sum)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, squares_launch, cuda, elements, gradient, sum);
}

/* ---- clipping ---- */

enum { CLIP_THREADS = 512 };

struct clip {
    uint32_t count;
    const double *squares;
    double clip;
    double *scale, *on_host;
};

struct clip_shared {
    double squares[CLIP_THREADS];
};

/* One thread sums, in order, what all of them load: the host's memory is far. */
__global__ static void __launch_bounds__(CLIP_THREADS) clip_kernel(struct clip a)
{
    struct clip_shared *shared = (struct clip_shared *)shared_memory();
    double sum = 0;
    for (uint32_t first = 0; first < a.count; first += CLIP_THREADS) {
        uint32_t count = a.count - first < CLIP_THREADS ? a.count - first : (uint32_t)CLIP_THREADS;
        __syncthreads();
        if (threadIdx.x < count)
            shared->squares[threadIdx.x] = a.squares[first + threadIdx.x];
        __syncthreads();
        for (uint32_t i = 0; threadIdx.x == 0 && i < count; i++)
            sum += shared->squares[i];
    }
    if (threadIdx.x == 0)
        *a.scale = *a.on_host = adamw_clip(sum, a.clip);
}

void cuda_clip(const void *context, uint32_t count, const double *squares, double clip,
               double *scale)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    struct clip arguments = {count, squares, clip, cuda->scale, scale};
    launch(clip_kernel, 1, CLIP_THREADS, sizeof(struct clip_shared), cuda->stream, arguments);
}
