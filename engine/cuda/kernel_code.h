/* Code that the kernels share: launches, sums over blocks, elements of either precision, tiles of
 * rows. */
#ifndef PSTAR_ENGINE_CUDA_KERNEL_CODE_H
#define PSTAR_ENGINE_CUDA_KERNEL_CODE_H

#include "engine/bf16.h"
#include "engine/cuda/kernels.h"
#include "kernel_target.h"

/* ---- launches ---- */

enum { WARP = 32 };
#define WHOLE_WARP 0xffffffffu
#define LOG2_E     1.44269504088896341f

/* Returns the number of blocks that gives each of `items` one of their `each` places. */
static inline unsigned launch_blocks(uint64_t items, unsigned each)
{
    return (unsigned)((items + each - 1) / each);
}

/* Calls a function template for the precision's element. */
#define BY_PRECISION(precision, function, ...) \
    ((precision) == MODEL_BF16 ? function<uint16_t>(__VA_ARGS__) : function<float>(__VA_ARGS__))

/* ---- sums over blocks within a launch ---- */

/* Every block stores its part of the sum, and the last block to finish adds the parts in their
 * order. */

/* Returns whether all other blocks of the launch, whose grid has one dimension, have called it. The
 * last block then sees what they wrote before, by volatile reads. All threads of a block call it
 * and get the same answer. `flag` is shared memory; `counter` is 0 before and after the launch. */
__device__ static inline bool last_block(uint32_t *counter, uint32_t *flag)
{
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        *flag = atomicAdd(counter, 1) == gridDim.x - 1;
        if (*flag)
            *counter = 0;
    }
    __syncthreads();
    __threadfence();
    return *flag;
}

/* Returns in thread 0 the sum of `count` parts: pairs count / 2, ..., 2, 1 apart. `count` is a
 * power of two and at least the number of threads. `part(i)` is part i; `sums` is shared memory,
 * one number a thread. */
template <typename Part>
__device__ inline double pairwise_sum(unsigned threads, unsigned count, double *sums, Part part)
{
    double mine[4];
    unsigned each = count / threads;
    for (unsigned i = 0; i < 4; i++)
        mine[i] = i < each ? part(threadIdx.x + i * threads) : 0;
    mine[0] = each == 4 ? (mine[0] + mine[2]) + (mine[1] + mine[3]) : mine[0] + mine[1];
    sums[threadIdx.x] = mine[0];
    for (unsigned apart = threads / 2; apart > 0; apart /= 2) {
        __syncthreads();
        if (threadIdx.x < apart)
            sums[threadIdx.x] += sums[threadIdx.x + apart];
    }
    return sums[0];
}

/* ---- elements ---- */

/* Elements of either precision as fp32, in pairs and octets: the widths in which threads access
 * memory. Where columns are not a multiple of a width, elements go one by one. */

enum { OCTET = 8 };

struct pair {
    float a, b;
};

struct octet {
    float at[OCTET];
};

__device__ static inline float element_load(const float *from)
{
    return *from;
}

__device__ static inline float element_load(const uint16_t *from)
{
    return bf16_widen(*from);
}

__device__ static inline void element_store(float *to, float value)
{
    *to = value;
}

__device__ static inline void element_store(uint16_t *to, float value)
{
    *to = bf16_round(value);
}

__device__ static inline uint32_t halves_pack(float low, float high)
{
    return bf16_round(low) | (uint32_t)bf16_round(high) << 16;
}

__device__ static inline struct pair halves_unpack(uint32_t halves)
{
    return {bf16_widen((uint16_t)halves), bf16_widen((uint16_t)(halves >> 16))};
}

/* The address is a multiple of two elements. */
__device__ static inline struct pair pair_load_whole(const float *from)
{
    float2 both = *(const float2 *)from;
    return {both.x, both.y};
}

__device__ static inline struct pair pair_load_whole(const uint16_t *from)
{
    return halves_unpack(*(const uint32_t *)from);
}

__device__ static inline void pair_store_whole(float *to, struct pair pair)
{
    *(float2 *)to = {pair.a, pair.b};
}

__device__ static inline void pair_store_whole(uint16_t *to, struct pair pair)
{
    *(uint32_t *)to = halves_pack(pair.a, pair.b);
}

/* Loads elements `column` and the next of a row of `columns`, with `padding` beyond the row. */
template <typename T>
__device__ inline struct pair pair_load(const T *row, uint32_t column, uint32_t columns,
                                        float padding)
{
    if (columns % 2 == 0 && column < columns)
        return pair_load_whole(row + column);
    return {column < columns ? element_load(row + column) : padding,
            column + 1 < columns ? element_load(row + column + 1) : padding};
}

/* As pair_load, where the compiler knows whether columns are even. Without branches, an unrolled
 * loop's loads overlap. */
template <bool EVEN, typename T>
__device__ inline struct pair pair_load_known(const T *row, uint32_t column, uint32_t columns,
                                              float padding)
{
    if (column >= columns)
        return {padding, padding};
    if (EVEN)
        return pair_load_whole(row + column);
    return {element_load(row + column),
            column + 1 < columns ? element_load(row + column + 1) : padding};
}

template <typename T>
__device__ inline void pair_store(T *row, uint32_t column, uint32_t columns, struct pair pair)
{
    if (columns % 2 == 0) {
        if (column < columns)
            pair_store_whole(row + column, pair);
        return;
    }
    if (column < columns)
        element_store(row + column, pair.a);
    if (column + 1 < columns)
        element_store(row + column + 1, pair.b);
}

/* The address is a multiple of 16 bytes. */
__device__ static inline struct octet octet_load_whole(const float *from)
{
    float4 low = ((const float4 *)from)[0], high = ((const float4 *)from)[1];
    return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}

__device__ static inline struct octet octet_load_whole(const uint16_t *from)
{
    uint4 all = *(const uint4 *)from;
    struct pair a = halves_unpack(all.x), b = halves_unpack(all.y), c = halves_unpack(all.z),
                d = halves_unpack(all.w);
    return {{a.a, a.b, b.a, b.b, c.a, c.b, d.a, d.b}};
}

__device__ static inline void octet_store_whole(float *to, const struct octet &octet)
{
    const float *at = octet.at;
    ((float4 *)to)[0] = {at[0], at[1], at[2], at[3]};
    ((float4 *)to)[1] = {at[4], at[5], at[6], at[7]};
}

__device__ static inline void octet_store_whole(uint16_t *to, const struct octet &octet)
{
    const float *at = octet.at;
    *(uint4 *)to = {halves_pack(at[0], at[1]), halves_pack(at[2], at[3]), halves_pack(at[4], at[5]),
                    halves_pack(at[6], at[7])};
}

/* Loads the octet at `first`, a multiple of 8, of an array that ends at `end`, with `padding`
 * beyond. */
template <typename T>
__device__ inline struct octet octet_load(const T *array, uint64_t first, uint64_t end,
                                          float padding)
{
    if (first + OCTET <= end)
        return octet_load_whole(array + first);
    struct octet octet;
    for (int i = 0; i < OCTET; i++)
        octet.at[i] = first + i < end ? element_load(array + first + i) : padding;
    return octet;
}

template <typename T>
__device__ inline void octet_store(T *array, uint64_t first, uint64_t end,
                                   const struct octet &octet)
{
    if (first + OCTET <= end) {
        octet_store_whole(array + first, octet);
        return;
    }
    for (int i = 0; i < OCTET; i++)
        if (first + i < end)
            element_store(array + first + i, octet.at[i]);
}

/* ---- gradients ---- */

template <typename T> __device__ inline void gradient_store_as(T *to, bool add, float value)
{
    element_store(to, add ? value + element_load(to) : value);
}

__device__ static inline void gradient_store(enum kernel_gradient gradient, void *to,
                                             uint64_t element, float value)
{
    if (kernel_gradient_is_half(gradient))
        gradient_store_as((uint16_t *)to + element, kernel_gradient_adds(gradient), value);
    else
        gradient_store_as((float *)to + element, kernel_gradient_adds(gradient), value);
}

/* Stores elements `column` and the next of a row of `columns`. */
__device__ static inline void gradient_store_pair(enum kernel_gradient gradient, void *to,
                                                  uint64_t row, uint32_t column, uint32_t columns,
                                                  struct pair pair)
{
    if (column < columns)
        gradient_store(gradient, to, row * columns + column, pair.a);
    if (column + 1 < columns)
        gradient_store(gradient, to, row * columns + column + 1, pair.b);
}

/* ---- tiles ---- */

/* Rows by tiles of 64 elements, as the CPU device computes them. Where rows are summed, a thread of
 * a warp has two of the 64 lanes, so that sums have the CPU device's bits. With dropout a thread
 * has eight lanes, because one counter gives the words of four of a tile's elements. */

enum {
    TILE = RANDOM_TILE,
    TILE_COUNTERS = TILE / 4,         /* counters of a tile's random words */
    TILE_THREADS = TILE_COUNTERS / 2, /* threads that share a tile with dropout */
    TILE_PAIRS = 4,                   /* pairs of such a thread: at 16 w + 2 t, w = 0 ... 3 */
};

__host__ __device__ static inline uint32_t tiles_of(uint32_t columns)
{
    return (columns + TILE - 1) / TILE;
}

/* Returns the sum of a warp's 64 lanes in all threads: pairs 32, 16, 8, 4, 2, 1 apart. Thread t
 * holds lanes 2 t and 2 t + 1. */
template <typename T> __device__ inline T lanes_sum(T a, T b)
{
    for (int apart = WARP / 2; apart > 0; apart /= 2) {
        T other_a = __shfl_down_sync(WHOLE_WARP, a, apart);
        T other_b = __shfl_down_sync(WHOLE_WARP, b, apart);
        a += other_a;
        b += other_b;
    }
    return __shfl_sync(WHOLE_WARP, a + b, 0);
}

/* A dropout that is ready for use; scale 0 for none. */
struct tile_dropout {
    struct random_stream stream;
    uint32_t threshold; /* a word below it drops its element */
    float scale;        /* of the elements that stay */
};

static inline struct tile_dropout tile_dropout_of(const struct kernel_dropout *dropout)
{
    if (!dropout || dropout->probability <= 0)
        return {};
    return {dropout->stream, (uint32_t)(dropout->probability * 0x1p32),
            (float)(1 / (1 - dropout->probability))};
}

/* Computes the factors of elements counter, 16 + counter, 32 + counter and 48 + counter of tile
 * `tile`, where tiles are counted over all rows. */
__device__ static inline void tile_factors(const struct tile_dropout &dropout, uint64_t tile,
                                           unsigned counter, float factors[4])
{
    uint64_t index = tile * TILE_COUNTERS + counter;
    const uint32_t counters[4] = {(uint32_t)index, (uint32_t)(index >> 32), dropout.stream.site,
                                  dropout.stream.pass};
    const uint32_t key[2] = {(uint32_t)dropout.stream.seed, (uint32_t)(dropout.stream.seed >> 32)};
    uint32_t words[4];
    random_philox(counters, key, words);
    for (int w = 0; w < 4; w++)
        factors[w] = words[w] >= dropout.threshold ? dropout.scale : 0;
}

/* The part of a tile that a thread holds. */
struct tile_part {
    struct pair at[TILE_PAIRS];
};

/* Returns the column of pair w of thread t of a tile. */
__device__ static inline uint32_t tile_column(uint32_t tile, unsigned t, int w)
{
    return tile * TILE + w * TILE_COUNTERS + 2 * t;
}

/* WHOLE says that rows are whole tiles. Without conditions on columns, the loads of several parts
 * overlap. */
template <bool WHOLE, typename T>
__device__ inline struct tile_part tile_part_load(const T *row, uint32_t tile, unsigned t,
                                                  uint32_t columns)
{
    struct tile_part part;
    for (int w = 0; w < TILE_PAIRS; w++) {
        uint32_t column = tile_column(tile, t, w);
        part.at[w] = WHOLE ? pair_load_whole(row + column) : pair_load(row, column, columns, 0);
    }
    return part;
}

template <bool WHOLE, typename T>
__device__ inline void tile_part_store(T *row, uint32_t tile, unsigned t, uint32_t columns,
                                       const struct tile_part &part)
{
    for (int w = 0; w < TILE_PAIRS; w++) {
        uint32_t column = tile_column(tile, t, w);
        if (WHOLE)
            pair_store_whole(row + column, part.at[w]);
        else
            pair_store(row, column, columns, part.at[w]);
    }
}

__device__ static inline void tile_part_add(struct tile_part &sum, const struct tile_part &part)
{
    for (int w = 0; w < TILE_PAIRS; w++) {
        sum.at[w].a += part.at[w].a;
        sum.at[w].b += part.at[w].b;
    }
}

/* Applies the dropout to a part of row `row`, where rows have `tiles` tiles. */
__device__ static inline void tile_part_drop(const struct tile_dropout &dropout, uint64_t row,
                                             uint32_t tiles, uint32_t tile, unsigned t,
                                             struct tile_part &part)
{
    if (dropout.scale == 0)
        return;
    float even[4], odd[4];
    tile_factors(dropout, row * tiles + tile, 2 * t, even);
    tile_factors(dropout, row * tiles + tile, 2 * t + 1, odd);
    for (int w = 0; w < TILE_PAIRS; w++) {
        part.at[w].a *= even[w];
        part.at[w].b *= odd[w];
    }
}

#endif
