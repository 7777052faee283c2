/* Attention's tiles on tensor cores, for bf16 with D a multiple of 8: a warp has 16 rows of a tile
 * of 64, in the fragments of engine/cuda/mma.h. Heads are padded with zeros to WIDTH. */
#ifndef PSTAR_ENGINE_CUDA_ATTENTION_HALF_H
#define PSTAR_ENGINE_CUDA_ATTENTION_HALF_H

#include "engine/cuda/attention.h"
#include "engine/cuda/mma.h"

enum {
    HALF_WARPS = 4,
    HALF_THREADS = HALF_WARPS * WARP,
    WARP_ROWS = TILE / HALF_WARPS,
    STEP = 16,     /* of a product's depth */
    FRAGMENT = 8,  /* columns of a fragment of sums */
    LANE_ROWS = 2, /* of a fragment, that a lane has elements of */
};

#define LOG2_E 1.44269504088896341f

/* Rows are 16 bytes longer than a multiple of all banks: eight of them lie in different ones. */
template <int WIDTH> struct half_rows {
    alignas(16) uint16_t at[TILE][WIDTH + 8];
};

/* A warp's sums [16, WIDTH], a fragment each eight columns: element 2 i + e of a lane's is in row
 * lane_row(i) of the tile and column lane_column(fragment) + e. */
template <int WIDTH> struct warp_sums {
    float at[WIDTH / FRAGMENT][4];
};

__device__ static inline unsigned warp_row()
{
    return threadIdx.x / WARP * WARP_ROWS;
}

__device__ static inline unsigned lane_row(int i)
{
    return warp_row() + threadIdx.x % WARP / 4 + i * 8;
}

__device__ static inline unsigned lane_column(int fragment)
{
    return fragment * FRAGMENT + threadIdx.x % 4 * 2;
}

/* Starts copying a tile's rows, of `stride` elements each from `first` on. */
template <int WIDTH>
__device__ inline void half_rows_copy(const struct attention &a, const uint16_t *first,
                                      uint64_t stride, uint32_t tile, struct half_rows<WIDTH> &rows)
{
    for (unsigned i = threadIdx.x; i < TILE * WIDTH / OCTET; i += HALF_THREADS) {
        uint32_t r = i / (WIDTH / OCTET), d = i % (WIDTH / OCTET) * OCTET, t = tile * TILE + r;
        bool there = t < a.T && d < a.D;
        copy_start(&rows.at[r][d], there ? first + t * stride + d : first, there);
    }
}

template <int WIDTH>
__device__ inline void half_qkv_copy(const struct attention &a, const struct attention_head &h,
                                     enum attention_part part, uint32_t tile,
                                     struct half_rows<WIDTH> &rows)
{
    const uint16_t *first = (const uint16_t *)a.qkv + attention_qkv_at(a, h, part, 0);
    half_rows_copy(a, first, 3ull * a.A * a.D, tile, rows);
}

template <int WIDTH>
__device__ inline void half_dout_copy(const struct attention &a, const struct attention_head &h,
                                      uint32_t tile, struct half_rows<WIDTH> &rows)
{
    const uint16_t *first = (const uint16_t *)a.dout + attention_o_at(a, h, 0);
    half_rows_copy(a, first, (uint64_t)a.A * a.D, tile, rows);
}

/* The warp's rows times the columns, of which each is a row here: [16, 64]. */
template <int WIDTH>
__device__ inline struct warp_sums<TILE> warp_product(const struct half_rows<WIDTH> &rows,
                                                      const struct half_rows<WIDTH> &columns) {
    struct warp_sums<TILE> sums = {
    };
    unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (int k = 0; k < WIDTH; k += STEP) {
        uint32_t a[4], b[4];
        matrices_load(&rows.at[warp_row() + lane % 16][k + lane / 16 * 8], a);
#pragma unroll
        for (int n = 0; n < TILE; n += 2 * FRAGMENT) {
            matrices_load(&columns.at[n + lane / 16 * 8 + lane % 8][k + lane / 8 % 2 * 8], b);
            mma_add(sums.at[n / FRAGMENT], a, b);
            mma_add(sums.at[n / FRAGMENT + 1], a, b + 2);
        }
    }
    return sums;
}

/* sums[16, WIDTH] += scores[16, 64] rows[64, WIDTH], the scores rounded to bf16. */
template <int WIDTH>
__device__ inline void warp_product_add(const struct warp_sums<TILE> &scores,
                                        const struct half_rows<WIDTH> &rows,
                                        struct warp_sums<WIDTH> &sums)
{
    unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (int k = 0; k < TILE; k += STEP) {
        const float *left = scores.at[k / FRAGMENT], *right = scores.at[k / FRAGMENT + 1];
        uint32_t a[4] = {halves_even(left[0], left[1]), halves_even(left[2], left[3]),
                         halves_even(right[0], right[1]), halves_even(right[2], right[3])};
        uint32_t b[4];
#pragma unroll
        for (int n = 0; n < WIDTH; n += 2 * FRAGMENT) {
            matrices_load_transposed(&rows.at[k + lane % 16][n + lane / 16 * 8], b);
            mma_add(sums.at[n / FRAGMENT], a, b);
            mma_add(sums.at[n / FRAGMENT + 1], a, b + 2);
        }
    }
}

/* The lane's row i of the sums times `scale` goes to the head's row of tile `tile`. */
template <int WIDTH>
__device__ inline void half_row_store(const struct attention &a, uint16_t *first, uint64_t stride,
                                      uint32_t tile, int i, float scale,
                                      const struct warp_sums<WIDTH> &sums)
{
    uint32_t t = tile * TILE + lane_row(i);
#pragma unroll
    for (int f = 0; f < WIDTH / FRAGMENT; f++)
        if (t < a.T && lane_column(f) < a.D)
            pair_store_whole(first + t * stride + lane_column(f),
                             {sums.at[f][2 * i] * scale, sums.at[f][2 * i + 1] * scale});
}

template <int WIDTH>
__device__ inline void half_qkv_store(const struct attention &a, const struct attention_head &h,
                                      enum attention_part part, uint32_t tile, float scale,
                                      const struct warp_sums<WIDTH> &sums)
{
    uint16_t *first = (uint16_t *)a.dqkv + attention_qkv_at(a, h, part, 0);
    for (int i = 0; i < LANE_ROWS; i++)
        half_row_store(a, first, 3ull * a.A * a.D, tile, i, scale, sums);
}

/* Of queries' scores, those of later keys in the same tile become -infinity. */
__device__ static inline void half_mask(uint32_t queries, uint32_t keys, struct warp_sums<TILE> &s)
{
    if (keys < queries)
        return;
#pragma unroll
    for (int f = 0; f < TILE / FRAGMENT; f++)
        for (int i = 0; i < 4; i++)
            if (lane_column(f) + i % 2 > lane_row(i / 2))
                s.at[f][i] = -INFINITY;
}

/* The dropout's factors on queries' rows. A counter's four elements, 16 apart, are a lane's. */
__device__ static inline void half_drop(const struct attention &a, const struct attention_head &h,
                                        uint32_t queries, uint32_t keys, struct warp_sums<TILE> &s)
{
    if (a.dropout.scale == 0)
        return;
#pragma unroll
    for (int i = 0; i < 4; i++)
        for (int right = 0; right < 2; right++) {
            float factors[4];
            attention_factors(a, h, queries * TILE + lane_row(i / 2), keys,
                              lane_column(right) + i % 2, factors);
            for (int w = 0; w < 4; w++)
                s.at[2 * w + right][i] *= factors[w];
        }
}

#endif
