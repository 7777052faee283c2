/* Rows by tiles of 64 elements, as the CPU device computes them. Its 64 lanes are two a thread of a
 * warp where rows are summed, so that sums have its bits; with dropout they are eight a thread,
 * because one counter gives the words of four of a tile's elements. */
#ifndef PSTAR_ENGINE_CUDA_TILE_H
#define PSTAR_ENGINE_CUDA_TILE_H

#include "engine/cuda/element.h"
#include "engine/kernels.h"

enum {
    TILE = RANDOM_TILE,
    TILE_COUNTERS = TILE / 4,         /* of a tile's random words */
    TILE_THREADS = TILE_COUNTERS / 2, /* that share a tile with dropout */
    TILE_PAIRS = 4,                   /* of such a thread: at 16 w + 2 t, w = 0 ... 3 */
};

__host__ __device__ static inline uint32_t tiles_of(uint32_t columns)
{
    return (columns + TILE - 1) / TILE;
}

/* The sum of a warp's 64 lanes, in all threads: pairs 32, 16, 8, 4, 2, 1 apart, thread t holding
 * lanes 2 t and 2 t + 1. */
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

/* A dropout ready for use; scale 0: none. */
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

/* The factors of elements counter, 16 + counter, 32 + counter and 48 + counter of tile `tile`,
 * counted over the rows. */
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

/* What a thread holds of a tile. */
struct tile_part {
    struct pair at[TILE_PAIRS];
};

/* Column of pair w of thread t of a tile. */
__device__ static inline uint32_t tile_column(uint32_t tile, unsigned t, int w)
{
    return tile * TILE + w * TILE_COUNTERS + 2 * t;
}

/* WHOLE: of rows that are whole tiles. Without conditions on columns, loads of several parts can be
 * under way together. */
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

/* Of row `row`, rows having `tiles` of them. */
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
