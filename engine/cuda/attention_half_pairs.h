/* Pairs of a block's rows and a tile's columns: what kernels by queries and by keys have in common,
 * the causal mask above all. */
#ifndef PSTAR_ENGINE_CUDA_ATTENTION_HALF_PAIRS_H
#define PSTAR_ENGINE_CUDA_ATTENTION_HALF_PAIRS_H

#include "engine/cuda/attention_half.h"
#include "engine/cuda/attention_half_blocks.h"

/* A tile of keys. */
template <int WIDTH> struct half_keys {
    struct half_rows<TILE, WIDTH> k, v;
};

template <int WIDTH>
__device__ inline void half_keys_copy(const struct attention &a, const struct attention_head &h,
                                      uint32_t keys, struct half_keys<WIDTH> &tile)
{
    half_qkv_copy(a, h, ATTENTION_K, keys, tile.k);
    half_qkv_copy(a, h, ATTENTION_V, keys, tile.v);
    copy_group();
}

/* Of a warp's rows and a tile's columns, from those on: by how many the latest key is later than
 * the earliest query, and the earliest key than the latest query. Above 0, some or all are masked.
 */
struct half_lateness {
    int most, least;
};

template <int BANDS>
__device__ inline struct half_lateness queries_lateness(uint32_t queries, uint32_t keys)
{
    int later = (int)(keys - queries - warp_row<BANDS>());
    return {later + TILE - 1, later - BANDS * BAND + 1};
}

template <int BANDS>
__device__ inline struct half_lateness keys_lateness(uint32_t keys, uint32_t queries)
{
    int later = (int)(keys + warp_row<BANDS>() - queries);
    return {later + BANDS * BAND - 1, later - TILE + 1};
}

/* The scores of keys that are later than the query become -infinity. `ahead` is by how many the
 * column of the lane's first element is later than its row. */
template <bool KEYS_ARE_ROWS, int COLUMNS, int BANDS>
__device__ inline void scores_mask(int ahead, struct warp_sums<BANDS, COLUMNS> &s)
{
#pragma unroll
    for (int band = 0; band < BANDS; band++)
#pragma unroll
        for (int f = 0; f < COLUMNS / FRAGMENT; f++)
            for (int i = 0; i < 4; i++) {
                int back = band * BAND + i / 2 * 8 - f * (TILE * FRAGMENT / COLUMNS) - i % 2;
                if (KEYS_ARE_ROWS ? ahead < back : ahead > back)
                    s.at[band][f][i] = -INFINITY;
            }
}

template <int COLUMNS, int BANDS>
__device__ inline int scores_ahead(uint32_t rows, uint32_t columns, int slice)
{
    return (int)(columns + score_column<COLUMNS>(slice, 0) - rows - lane_row<BANDS>(0, 0));
}

/* The dropout's factors on queries' rows. A counter's four elements, 16 apart, are a lane's. */
template <int COLUMNS, int BANDS>
__device__ inline void queries_drop(const struct attention &a, const struct attention_head &h,
                                    uint32_t queries, uint32_t keys, int slice,
                                    struct warp_sums<BANDS, COLUMNS> &s)
{
    const int counters = COLUMNS / FRAGMENT / 4; /* fragments, of each 16 columns */
    if (a.dropout.scale == 0)
        return;
#pragma unroll
    for (int band = 0; band < BANDS; band++)
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int f = 0; f < counters; f++) {
                float factors[4];
                attention_factors(a, h, queries + lane_row<BANDS>(band, i / 2), keys / TILE,
                                  score_column<COLUMNS>(slice, f) + i % 2, factors);
                for (int w = 0; w < 4; w++)
                    s.at[band][w * counters + f][i] *= factors[w];
            }
}

#endif
