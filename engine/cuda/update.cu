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

/* ---- the same of several gradients of at most SQUARES_BLOCKS tiles: a tile is a block ---- */

struct small_squares {
    struct cuda_small_gradient at[CUDA_SQUARES];
};

struct small_shared {
    double parts[SQUARES_BLOCKS], sums[SQUARES_THREADS];
};

static_assert(CUDA_SMALL_GRADIENT <= SQUARES_BLOCKS * TILE && sizeof(struct small_squares) <= 4096,
              "a part a tile, and arguments of a launch");

/* A block of threads sums a gradient. */
template <typename T>
__global__ static void __launch_bounds__(SQUARES_THREADS)
    small_squares_kernel(struct small_squares a)
{
    struct small_shared *shared = (struct small_shared *)shared_memory();
    const struct cuda_small_gradient gradient = a.at[blockIdx.x];
    uint32_t elements = (uint32_t)gradient.elements, tiles = tiles_of(elements);
    for (uint32_t tile = threadIdx.x / WARP; tile < tiles; tile += WARPS) {
        uint32_t column = tile * TILE + threadIdx.x % WARP * 2;
        struct pair v = pair_load((const T *)gradient.values, column, elements, 0);
        double part = lanes_sum((double)v.a * (double)v.a, (double)v.b * (double)v.b);
        if (threadIdx.x % WARP == 0)
            shared->parts[tile] = part;
    }
    __syncthreads();
    double sum = pairwise_sum(SQUARES_THREADS, SQUARES_BLOCKS, shared->sums,
                              [&](uint64_t i) { return i < tiles ? shared->parts[i] : 0; });
    if (threadIdx.x == 0)
        *gradient.sum = sum;
}

void cuda_flush_squares(const void *context)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    struct cuda_squares *squares = cuda->squares;
    if (!squares || squares->count == 0)
        return;
    struct small_squares arguments = {};
    for (uint32_t i = 0; i < squares->count; i++)
        arguments.at[i] = squares->gradients[i];
    launch(squares->precision == MODEL_BF16 ? small_squares_kernel<uint16_t>
                                            : small_squares_kernel<float>,
           squares->count, SQUARES_THREADS, sizeof(struct small_shared), cuda->stream, arguments);
    squares->count = 0;
}

/* A large gradient is summed at once, while the L2 cache still has it. */
void cuda_sum_squares(const void *context, enum model_precision precision, uint64_t elements,
                      const void *gradient, double *sum)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    struct cuda_squares *squares = cuda->squares;
    if (squares && elements <= CUDA_SMALL_GRADIENT) {
        if (squares->count == CUDA_SQUARES || squares->precision != precision)
            cuda_flush_squares(context);
        squares->precision = precision;
        squares->gradients[squares->count++] = {elements, gradient, sum};
        return;
    }
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

/* Returns the step with the scale that lies in device memory; NULL keeps its own. */
__device__ static inline struct adamw_step step_of(struct adamw_step step, const double *scale)
{
    if (scale)
        step.gradient_scale = (float)*scale;
    return step;
}

struct update_tensor {
    uint64_t elements;
    void *param;
    const void *gradient; /* NULL if it is in the parameter's place */
    void *master;         /* or its rest; NULL if the parameter is its own master */
    float *exp_avg, *exp_avg_sq;
};

/* Some tensors. Tensor i has the blocks from begin[i] on. */
struct updates {
    struct adamw_step step;
    const double *scale;
    uint32_t count;
    uint32_t begin[CUDA_UPDATES];
    struct update_tensor at[CUDA_UPDATES];
};

static_assert(sizeof(struct updates) <= 4096, "arguments of a launch");

/* Returns which tensor the block belongs to. */
__device__ static inline uint32_t tensor_of_block(const struct updates &a)
{
    uint32_t low = 0, high = a.count;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (a.begin[middle] <= blockIdx.x)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* T is the parameter's type. */
template <bool WHOLE, typename T>
__device__ inline void adamw(const struct adamw_step &step, const struct update_tensor &a,
                             uint64_t first)
{
    uint64_t end = a.elements;
    T *param = (T *)a.param;
    float *master = (float *)a.master;
    struct quartet g = a.gradient ? quartet_load<WHOLE>((const float *)a.gradient, first, end)
                                  : quartet_load<WHOLE>(param, first, end);
    struct quartet value = master ? quartet_load<WHOLE>(master, first, end)
                                  : quartet_load<WHOLE>(param, first, end);
    struct quartet m = quartet_load<WHOLE>(a.exp_avg, first, end);
    struct quartet v = quartet_load<WHOLE>(a.exp_avg_sq, first, end);
    for (int i = 0; i < QUARTET; i++)
        value.at[i] = adamw_element(&step, value.at[i], g.at[i], &m.at[i], &v.at[i]);
    if (master)
        quartet_store<WHOLE>(master, first, end, value);
    quartet_store<WHOLE>(param, first, end, value);
    quartet_store<WHOLE>(a.exp_avg, first, end, m);
    quartet_store<WHOLE>(a.exp_avg_sq, first, end, v);
}

/* T is the gradient's type. */
template <bool WHOLE, typename T>
__device__ inline void split(const struct adamw_step &step, const struct update_tensor &a,
                             uint64_t first)
{
    uint64_t end = a.elements;
    uint16_t *halves = (uint16_t *)a.param, *rests = (uint16_t *)a.master;
    struct quartet g = quartet_load<WHOLE>((const T *)a.gradient, first, end);
    struct halves param = halves_load<WHOLE>(halves, first, end);
    struct halves rest = halves_load<WHOLE>(rests, first, end);
    struct quartet m = quartet_load<WHOLE>(a.exp_avg, first, end);
    struct quartet v = quartet_load<WHOLE>(a.exp_avg_sq, first, end);
    for (int i = 0; i < QUARTET; i++) {
        float master = adamw_element(&step, bf16_join(param.at[i], rest.at[i]), g.at[i], &m.at[i],
                                     &v.at[i]);
        param.at[i] = bf16_round(master);
        rest.at[i] = bf16_rest(master);
    }
    halves_store<WHOLE>(halves, first, end, param);
    halves_store<WHOLE>(rests, first, end, rest);
    quartet_store<WHOLE>(a.exp_avg, first, end, m);
    quartet_store<WHOLE>(a.exp_avg_sq, first, end, v);
}

/* SPLIT says whether the master is the parameter and its rest. */
template <typename T, bool SPLIT>
__global__ void __launch_bounds__(THREADS) adamw_kernel(struct updates a)
{
    uint32_t i = tensor_of_block(a);
    const struct update_tensor tensor = a.at[i];
    const struct adamw_step step = step_of(a.step, a.scale);
    uint64_t first = ((uint64_t)(blockIdx.x - a.begin[i]) * THREADS + threadIdx.x) * QUARTET;
    bool whole = first + QUARTET <= tensor.elements;
    if (SPLIT && whole)
        split<true, T>(step, tensor, first);
    else if (SPLIT)
        split<false, T>(step, tensor, first);
    else if (whole)
        adamw<true, T>(step, tensor, first);
    else
        adamw<false, T>(step, tensor, first);
}

typedef void updates_run(struct updates);

/* Only bf16 parameters have a master beside them. */
static updates_run *kernel_of(const struct adamw_tensor *tensor)
{
    if (tensor->gradient_bf16)
        return adamw_kernel<uint16_t, true>;
    if (tensor->rest)
        return adamw_kernel<float, true>;
    return tensor->master ? adamw_kernel<uint16_t, false> : adamw_kernel<float, false>;
}

static struct update_tensor update_tensor_of(const struct adamw_tensor *tensor)
{
    const void *gradient = tensor->gradient;
    void *master = tensor->master;
    return {tensor->elements,
            tensor->param,
            tensor->gradient_bf16 ? tensor->gradient_bf16 : gradient,
            tensor->rest ? tensor->rest : master,
            tensor->exp_avg,
            tensor->exp_avg_sq};
}

static void updates_launch(const struct cuda_context *cuda, const struct cuda_updates *updates)
{
    struct updates arguments = {};
    arguments.step = updates->step;
    arguments.scale = updates->clipped ? cuda->scale : NULL;
    arguments.count = updates->count;
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < updates->count; i++) {
        arguments.begin[i] = blocks;
        arguments.at[i] = update_tensor_of(&updates->tensors[i]);
        blocks += launch_blocks(updates->tensors[i].elements, THREADS * QUARTET);
    }
    launch(kernel_of(updates->tensors), blocks, THREADS, 0, cuda->stream, arguments);
}

void cuda_flush_updates(const void *context)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    if (!cuda->updates || cuda->updates->count == 0)
        return;
    updates_launch(cuda, cuda->updates);
    cuda->updates->count = 0;
}

/* All tensors of a step have one layout. */
void cuda_adamw(const void *context, const struct adamw_step *step, const double *scale,
                const struct adamw_tensor *tensor)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    struct cuda_updates one = {}, *updates = cuda->updates ? cuda->updates : &one;
    if (updates->count == CUDA_UPDATES)
        cuda_flush_updates(context);
    updates->step = *step;
    updates->clipped = scale != NULL;
    updates->tensors[updates->count++] = *tensor;
    if (updates == &one)
        updates_launch(cuda, updates);
}
