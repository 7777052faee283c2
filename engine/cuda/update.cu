/* Sums of gradients' squares, clipping and the optimizer. */
#include "engine/cuda/kernel_code.h"

/* ---- sums of squares: a warp sums a block of engine/cpu/kernels.c, in the same order ---- */

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

/* TILES_AHEAD tiles load at once. A multiprocessor has no more than one block, which may use all
 * registers for that. */
enum { TILES_AHEAD = 32, TOGETHER = 1 };

/* Pairs beyond the last count as 0, which changes no sum, and the first is loaded again:
 * conditional loads would come one after the other. */
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

/* ---- the same in two parts, with those of several ranks between them ---- */

template <typename T> struct block_squares {
    uint64_t first, blocks; /* of the shard */
    struct squares<T> of;
};

template <typename T>
__global__ static void __launch_bounds__(SQUARES_THREADS, TOGETHER)
    block_squares_kernel(struct block_squares<T> a)
{
    uint64_t w = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    bool held = w >= a.first && w < a.first + a.blocks;
    double squares = held ? warp_squares(a.of, w - a.first) : 0;
    if (threadIdx.x % WARP == 0)
        a.of.parts[w] = squares;
}

template <typename T>
static void block_squares_launch(const struct cuda_context *cuda, uint64_t elements, uint64_t block,
                                 uint64_t first, const void *gradient, double *sums)
{
    struct block_squares<T> arguments = {
        first, (elements + block - 1) / block,
        {
            elements, block, (const T *)gradient, sums, NULL, NULL
        }
    };
    static_assert(SQUARES_BLOCKS % WARPS == 0, "every warp has a sum");
    launch(block_squares_kernel<T>, SQUARES_BLOCKS / WARPS, SQUARES_THREADS, 0, cuda->stream,
           arguments);
}

void cuda_block_squares(const void *context, enum model_precision precision, uint64_t elements,
                        uint64_t block, uint64_t first, const void *gradient, double *sums)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, block_squares_launch, cuda, elements, block, first, gradient, sums);
}

struct total_squares {
    const double *sums;
    double *total;
};

__global__ static void __launch_bounds__(SQUARES_THREADS)
    total_squares_kernel(struct total_squares a)
{
    struct squares_shared *shared = (struct squares_shared *)shared_memory();
    double sum = pairwise_sum(SQUARES_THREADS, SQUARES_BLOCKS, shared->sums,
                              [&](uint64_t i) { return a.sums[i]; });
    if (threadIdx.x == 0)
        *a.total = sum;
}

void cuda_total_squares(const void *context, double *sums, double *total)
{
    struct total_squares arguments = {sums, total};
    launch(total_squares_kernel, 1, SQUARES_THREADS, sizeof(struct squares_shared),
           cuda_context_of(context)->stream, arguments);
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

/* One thread sums, in order, what all threads load, because the host's memory is far. */
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

/* ---- AdamW: four elements a thread, 16 bytes of an fp32 array, whose accesses within a warp lie
 * side by side ---- */

enum { THREADS = 256, QUARTET = 4 };

struct quartet {
    float at[QUARTET];
};

/* Bits, not numbers: what rounding dropped may look like a NaN, which a store of bf16 would
 * change. */
struct halves {
    uint16_t at[QUARTET];
};

/* WHOLE says that all elements lie within the array, which ends at `end`. Otherwise those beyond it
 * are 0. */
template <bool WHOLE>
__device__ inline struct quartet quartet_load(const float *array, uint64_t first, uint64_t end)
{
    struct quartet quartet = {};
    if constexpr (WHOLE) {
        float4 all = *(const float4 *)(array + first);
        quartet = {{all.x, all.y, all.z, all.w}};
    } else {
        for (int i = 0; i < QUARTET && first + i < end; i++)
            quartet.at[i] = array[first + i];
    }
    return quartet;
}

template <bool WHOLE>
__device__ inline void quartet_store(float *array, uint64_t first, uint64_t end,
                                     const struct quartet &quartet)
{
    const float *at = quartet.at;
    if constexpr (WHOLE)
        *(float4 *)(array + first) = {at[0], at[1], at[2], at[3]};
    else
        for (int i = 0; i < QUARTET && first + i < end; i++)
            array[first + i] = at[i];
}

template <bool WHOLE>
__device__ inline struct halves halves_load(const uint16_t *array, uint64_t first, uint64_t end)
{
    struct halves halves = {};
    if constexpr (WHOLE) {
        uint2 all = *(const uint2 *)(array + first);
        halves = {
            {(uint16_t)all.x, (uint16_t)(all.x >> 16), (uint16_t)all.y, (uint16_t)(all.y >> 16)}};
    } else {
        for (int i = 0; i < QUARTET && first + i < end; i++)
            halves.at[i] = array[first + i];
    }
    return halves;
}

template <bool WHOLE>
__device__ inline void halves_store(uint16_t *array, uint64_t first, uint64_t end,
                                    const struct halves &halves)
{
    const uint16_t *at = halves.at;
    if constexpr (WHOLE)
        *(uint2 *)(array + first) = {at[0] | (uint32_t)at[1] << 16, at[2] | (uint32_t)at[3] << 16};
    else
        for (int i = 0; i < QUARTET && first + i < end; i++)
            array[first + i] = at[i];
}

/* Loads halves as numbers. */
template <bool WHOLE>
__device__ inline struct quartet quartet_load(const uint16_t *array, uint64_t first, uint64_t end)
{
    struct halves halves = halves_load<WHOLE>(array, first, end);
    struct quartet quartet;
    for (int i = 0; i < QUARTET; i++)
        quartet.at[i] = bf16_widen(halves.at[i]);
    return quartet;
}

template <bool WHOLE>
__device__ inline void quartet_store(uint16_t *array, uint64_t first, uint64_t end,
                                     const struct quartet &quartet)
{
    struct halves halves;
    for (int i = 0; i < QUARTET; i++)
        halves.at[i] = bf16_round(quartet.at[i]);
    halves_store<WHOLE>(array, first, end, halves);
}

__device__ static inline uint64_t first_of_thread()
{
    return ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * QUARTET;
}

static unsigned blocks_of(uint64_t elements)
{
    return launch_blocks(elements, THREADS * QUARTET);
}

/* Returns the step with the scale that lies in device memory; NULL keeps its own. */
__device__ static inline struct adamw_step step_of(struct adamw_step step, const double *scale)
{
    if (scale)
        step.gradient_scale = (float)*scale;
    return step;
}

template <typename T> struct adamw_arguments {
    struct adamw_step step;
    const double *scale;
    uint64_t elements;
    T *param;
    const float *gradient; /* NULL if it is in the parameter's place */
    float *master;         /* NULL if the parameter is its own master */
    float *exp_avg, *exp_avg_sq;
};

template <bool WHOLE, typename T>
__device__ inline void adamw(const struct adamw_arguments<T> &a, uint64_t first)
{
    uint64_t end = a.elements;
    struct quartet g = a.gradient ? quartet_load<WHOLE>(a.gradient, first, end)
                                  : quartet_load<WHOLE>(a.param, first, end);
    struct quartet value = a.master ? quartet_load<WHOLE>(a.master, first, end)
                                    : quartet_load<WHOLE>(a.param, first, end);
    struct quartet m = quartet_load<WHOLE>(a.exp_avg, first, end);
    struct quartet v = quartet_load<WHOLE>(a.exp_avg_sq, first, end);
    struct adamw_step step = step_of(a.step, a.scale);
    for (int i = 0; i < QUARTET; i++)
        value.at[i] = adamw_element(&step, value.at[i], g.at[i], &m.at[i], &v.at[i]);
    if (a.master)
        quartet_store<WHOLE>(a.master, first, end, value);
    quartet_store<WHOLE>(a.param, first, end, value);
    quartet_store<WHOLE>(a.exp_avg, first, end, m);
    quartet_store<WHOLE>(a.exp_avg_sq, first, end, v);
}

template <typename T>
__global__ void __launch_bounds__(THREADS) adamw_kernel(struct adamw_arguments<T> a)
{
    uint64_t first = first_of_thread();
    if (first + QUARTET <= a.elements)
        adamw<true>(a, first);
    else
        adamw<false>(a, first);
}

template <typename T>
static void adamw_launch(const struct cuda_context *cuda, const struct adamw_step *step,
                         bool clipped, const struct adamw_tensor *tensor)
{
    struct adamw_arguments<T> arguments = {
        *step, clipped ? cuda->scale : NULL, tensor->elements, (T *)tensor->param, tensor->gradient,
            tensor->master, tensor->exp_avg, tensor->exp_avg_sq
    };
    launch(adamw_kernel<T>, blocks_of(tensor->elements), THREADS, 0, cuda->stream, arguments);
}

/* T is the gradient's type. */
template <typename T> struct split_arguments {
    struct adamw_step step;
    const double *scale;
    uint64_t elements;
    uint16_t *param, *rest;
    const T *gradient;
    float *exp_avg, *exp_avg_sq;
};

template <bool WHOLE, typename T>
__device__ inline void split(const struct split_arguments<T> &a, uint64_t first)
{
    uint64_t end = a.elements;
    struct quartet g = quartet_load<WHOLE>(a.gradient, first, end);
    struct halves param = halves_load<WHOLE>(a.param, first, end);
    struct halves rest = halves_load<WHOLE>(a.rest, first, end);
    struct quartet m = quartet_load<WHOLE>(a.exp_avg, first, end);
    struct quartet v = quartet_load<WHOLE>(a.exp_avg_sq, first, end);
    struct adamw_step step = step_of(a.step, a.scale);
    for (int i = 0; i < QUARTET; i++) {
        float master = adamw_element(&step, bf16_join(param.at[i], rest.at[i]), g.at[i], &m.at[i],
                                     &v.at[i]);
        param.at[i] = bf16_round(master);
        rest.at[i] = bf16_rest(master);
    }
    halves_store<WHOLE>(a.param, first, end, param);
    halves_store<WHOLE>(a.rest, first, end, rest);
    quartet_store<WHOLE>(a.exp_avg, first, end, m);
    quartet_store<WHOLE>(a.exp_avg_sq, first, end, v);
}

template <typename T>
__global__ void __launch_bounds__(THREADS) split_kernel(struct split_arguments<T> a)
{
    uint64_t first = first_of_thread();
    if (first + QUARTET <= a.elements)
        split<true>(a, first);
    else
        split<false>(a, first);
}

template <typename T>
static void split_launch(const struct cuda_context *cuda, const struct adamw_step *step,
                         bool clipped, const struct adamw_tensor *tensor, const T *gradient)
{
    struct split_arguments<T> arguments = {
        *step, clipped ? cuda->scale : NULL, tensor->elements,
            (uint16_t *)tensor->param, tensor->rest, gradient, tensor->exp_avg, tensor->exp_avg_sq
    };
    launch(split_kernel<T>, blocks_of(tensor->elements), THREADS, 0, cuda->stream, arguments);
}

/* Only bf16 parameters have a master beside them. */
void cuda_adamw(const void *context, const struct adamw_step *step, const double *scale,
                const struct adamw_tensor *tensor)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    bool clipped = scale != NULL;
    if (tensor->gradient_bf16)
        split_launch(cuda, step, clipped, tensor, tensor->gradient_bf16);
    else if (tensor->rest)
        split_launch(cuda, step, clipped, tensor, tensor->gradient);
    else if (tensor->master)
        adamw_launch<uint16_t>(cuda, step, clipped, tensor);
    else
        adamw_launch<float>(cuda, step, clipped, tensor);
}
