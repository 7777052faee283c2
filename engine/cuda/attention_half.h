/* Attention's products on tensor cores, for bf16 with D a multiple of 8. A block has BANDS * 64
 * rows, of queries or of keys. A warp has a quarter of them, BANDS bands of 16 rows, kept as
 * fragments (engine/cuda/gpu/kernel_target.h). What it loads of a tile's 64 columns serves all its
 * bands: by the instructions' rates shared memory delivers columns for one band about as fast as
 * tensor cores multiply them. Heads are padded with zeros to WIDTH. The bits do not depend on
 * BANDS. */
#ifndef PSTAR_ENGINE_CUDA_ATTENTION_HALF_H
#define PSTAR_ENGINE_CUDA_ATTENTION_HALF_H

#include "engine/cuda/attention.h"

enum {
    HALF_WARPS = 4,
    HALF_THREADS = HALF_WARPS * WARP,
    BAND = 16,
    STEP = 16,     /* of the depth of a product */
    FRAGMENT = 8,  /* columns of a fragment of sums */
    LANE_ROWS = 2, /* rows of a fragment in which a lane has elements */
};

/* The most shared memory that a block can have on every GPU from sm_80 on. */
#define SHARED_BYTES (99u << 10)

/* Rows are 16 bytes longer than a multiple of all banks, so that eight of them lie in different
 * banks. */
template <int ROWS, int WIDTH> struct half_rows {
    alignas(16) uint16_t at[ROWS][WIDTH + 8];
};

/* A warp's rows as the left side of products, by steps of the depth. */
template <int BANDS, int WIDTH> struct warp_rows {
    uint32_t at[BANDS][WIDTH / STEP][4];
};

/* A warp's sums. Element 2 i + e of a lane's fragment is in row lane_row(band, i) of the block, and
 * in column lane_column(fragment) + e, or for scores in column score_column(slice, fragment) +
 * e. */
template <int BANDS, int COLUMNS> struct warp_sums {
    float at[BANDS][COLUMNS / FRAGMENT][4];
};

template <int BANDS> __device__ inline unsigned warp_row()
{
    return threadIdx.x / WARP * BANDS * BAND;
}

template <int BANDS> __device__ inline unsigned lane_row(int band, int i)
{
    return warp_row<BANDS>() + band * BAND + threadIdx.x % WARP / 4 + i * 8;
}

__device__ static inline unsigned lane_column(int fragment)
{
    return fragment * FRAGMENT + threadIdx.x % 4 * 2;
}

/* Scores are computed for COLUMNS of a tile's 64 columns at a time, a slice. Returns where fragment
 * f of a slice begins: fragments are as far apart as possible, so that a slice has whole counters
 * of dropout. */
template <int COLUMNS> __device__ inline unsigned slice_column(int slice, int f)
{
    return f * (TILE * FRAGMENT / COLUMNS) + slice * FRAGMENT;
}

template <int COLUMNS> __device__ inline unsigned score_column(int slice, int fragment)
{
    return slice_column<COLUMNS>(slice, fragment) + threadIdx.x % 4 * 2;
}

/* Starts copying rows of `stride` elements each, from row `first` on. The address that a thread
 * copies from is computed at every call, because the kernels have no registers to keep it in. */
template <int ROWS, int WIDTH>
__device__ inline void half_rows_copy(const struct attention &a, const uint16_t *from,
                                      uint32_t stride, uint32_t first,
                                      struct half_rows<ROWS, WIDTH> &rows)
{
    const unsigned octets = WIDTH / OCTET, together = HALF_THREADS / octets;
    unsigned thread = afresh(threadIdx.x);
    unsigned r = thread / octets, d = thread % octets * OCTET;
    uint32_t left = first < a.T && d < a.D ? a.T - first : 0;
    from += (uint64_t)(first + r) * stride + d;
#pragma unroll
    for (unsigned i = 0; i < ROWS; i += together)
        copy_start(&rows.at[r + i][d], from + (uint64_t)i * stride, r + i < left);
}

template <int ROWS, int WIDTH>
__device__ inline void half_part_copy(const struct attention &a, const struct attention_head &h,
                                      enum kernel_qkv part, uint32_t first,
                                      struct half_rows<ROWS, WIDTH> &rows)
{
    const uint16_t *from = (const uint16_t *)a.parts[part].at + attention_part_at(a, h, part, 0);
    half_rows_copy(a, from, a.parts[part].stride, first, rows);
}

template <int ROWS, int WIDTH>
__device__ inline void half_dout_copy(const struct attention &a, const struct attention_head &h,
                                      uint32_t first, struct half_rows<ROWS, WIDTH> &rows)
{
    const uint16_t *from = (const uint16_t *)a.dout + attention_o_at(a, h, 0);
    half_rows_copy(a, from, a.A * a.D, first, rows);
}

/* Turns rows in shared memory, which are rounded to bf16 again. `first` is the position of row 0.
 * Waits until all threads have done so. */
template <int ROWS, int WIDTH>
__device__ inline void half_rows_turn(const struct attention &a, uint32_t first,
                                      struct half_rows<ROWS, WIDTH> &rows)
{
    unsigned half = a.pairs / 2; /* two neighbours at a time */
    if (a.pairs == 0)
        return;
    for (unsigned i = threadIdx.x; i < ROWS * half; i += HALF_THREADS) {
        unsigned r = i / half, d = i % half * 2;
        if (first + r >= a.T)
            break;
        uint32_t *x = (uint32_t *)&rows.at[r][d], *y = (uint32_t *)&rows.at[r][d + a.pairs];
        struct attention_turn turn = attention_turn_of(a, first + r, d);
        struct attention_turn next = attention_turn_of(a, first + r, d + 1);
        struct pair one = halves_unpack(*x), two = halves_unpack(*y);
        *x = halves_even(turned_first(turn, one.a, two.a), turned_first(next, one.b, two.b));
        *y = halves_even(turned_second(turn, one.a, two.a), turned_second(next, one.b, two.b));
    }
    __syncthreads();
}

template <int BANDS, int WIDTH>
__device__ inline void warp_rows_load(const struct half_rows<BANDS * TILE, WIDTH> &from,
                                      struct warp_rows<BANDS, WIDTH> &rows)
{
    unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (int band = 0; band < BANDS; band++)
#pragma unroll
        for (int k = 0; k < WIDTH; k += STEP)
            matrices_load(&from.at[warp_row<BANDS>() + band * BAND + lane % 16][k + lane / 16 * 8],
                          rows.at[band][k / STEP]);
}

/* Multiplies the warp's rows by a slice of the columns. Each column is a row here. */
template <int COLUMNS, int BANDS, int WIDTH>
__device__ inline struct warp_sums<BANDS, COLUMNS>
warp_product(const struct warp_rows<BANDS, WIDTH> &rows,
             const struct half_rows<TILE, WIDTH> &columns, int slice) {
    struct warp_sums<BANDS, COLUMNS> sums = {
    };
    unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (int k = 0; k < WIDTH; k += STEP)
#pragma unroll
        for (int f = 0; f < COLUMNS / FRAGMENT; f += 2) {
            uint32_t b[4];
            unsigned column = slice_column<COLUMNS>(slice, f + lane / 16) + lane % 8;
            matrices_load(&columns.at[column][k + lane / 8 % 2 * 8], b);
#pragma unroll
            for (int band = 0; band < BANDS; band++) {
                mma_add(sums.at[band][f], rows.at[band][k / STEP], b);
                mma_add(sums.at[band][f + 1], rows.at[band][k / STEP], b + 2);
            }
        }
    return sums;
}

/* sums += scores times the rows that the slice's columns are. The scores are rounded to bf16. */
template <int COLUMNS, int BANDS, int WIDTH>
__device__ inline void warp_product_add(const struct warp_sums<BANDS, COLUMNS> &scores,
                                        const struct half_rows<TILE, WIDTH> &rows, int slice,
                                        struct warp_sums<BANDS, WIDTH> &sums)
{
    unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (int f = 0; f < COLUMNS / FRAGMENT; f += 2) {
        uint32_t a[BANDS][4], b[4];
#pragma unroll
        for (int band = 0; band < BANDS; band++)
            for (int i = 0; i < 4; i++) {
                const float *pair = &scores.at[band][f + i / 2][i % 2 * 2];
                a[band][i] = halves_even(pair[0], pair[1]);
            }
        unsigned row = slice_column<COLUMNS>(slice, f + lane / 8 % 2) + lane % 8;
#pragma unroll
        for (int n = 0; n < WIDTH; n += 2 * FRAGMENT) {
            matrices_load_transposed(&rows.at[row][n + lane / 16 * 8], b);
#pragma unroll
            for (int band = 0; band < BANDS; band++) {
                mma_add(sums.at[band][n / FRAGMENT], a[band], b);
                mma_add(sums.at[band][n / FRAGMENT + 1], a[band], b + 2);
            }
        }
    }
}

/* Stores the lane's row i of a band, times `scale`, in the head's row t. */
template <int BANDS, int WIDTH>
__device__ inline void half_row_store(const struct attention &a, uint16_t *to, uint64_t stride,
                                      uint32_t t, int band, int i, float scale,
                                      const struct warp_sums<BANDS, WIDTH> &sums)
{
#pragma unroll
    for (int f = 0; f < WIDTH / FRAGMENT; f++) {
        const float *pair = &sums.at[band][f][2 * i];
        if (t < a.T && f * FRAGMENT < (int)a.D)
            pair_store_whole(to + t * stride + lane_column(f), {pair[0] * scale, pair[1] * scale});
    }
}

/* Rows of fp32, as long as those of a half_rows in elements. */
template <int BANDS, int WIDTH> struct turned_rows {
    float at[BANDS * TILE][WIDTH + 8];
};

/* Stores sums of rows that turned, turned back. They meet in shared memory, which nothing else may
 * use any more; each warp has rows of its own. */
template <int BANDS, int WIDTH>
__device__ inline void half_turned_store(const struct attention &a, uint16_t *to, uint64_t stride,
                                         uint32_t first, float scale,
                                         const struct warp_sums<BANDS, WIDTH> &sums)
{
    struct turned_rows<BANDS, WIDTH> *shared = (struct turned_rows<BANDS, WIDTH> *)shared_memory();
    unsigned half = a.D / 2;
    __syncthreads();
#pragma unroll
    for (int band = 0; band < BANDS; band++)
#pragma unroll
        for (int f = 0; f < WIDTH / FRAGMENT; f++)
            for (int i = 0; i < LANE_ROWS; i++)
                pair_store_whole(&shared->at[lane_row<BANDS>(band, i)][lane_column(f)],
                                 {sums.at[band][f][2 * i], sums.at[band][f][2 * i + 1]});
    __syncwarp(WHOLE_WARP);
    for (unsigned i = threadIdx.x % WARP; i < BANDS * BAND * half; i += WARP) {
        unsigned r = warp_row<BANDS>() + i / half, d = i % half * 2;
        auto column = [&](uint32_t c) { return shared->at[r][c]; };
        if (first + r >= a.T)
            break;
        pair_store_whole(to + (first + r) * stride + d,
                         {turned_column(a, first + r, d, true, column) * scale,
                          turned_column(a, first + r, d + 1, true, column) * scale});
    }
}

template <int BANDS, int WIDTH>
__device__ inline void half_part_store(const struct attention &a, const struct attention_head &h,
                                       enum kernel_qkv part, uint32_t first, float scale,
                                       const struct warp_sums<BANDS, WIDTH> &sums)
{
    uint16_t *to = (uint16_t *)a.parts[part].gradient + attention_part_at(a, h, part, 0);
    uint64_t stride = a.parts[part].stride;
    if (part != KERNEL_V && a.pairs > 0) {
        half_turned_store(a, to, stride, first, scale, sums);
        return;
    }
#pragma unroll
    for (int band = 0; band < BANDS; band++)
#pragma unroll
        for (int i = 0; i < LANE_ROWS; i++)
            half_row_store(a, to, stride, first + lane_row<BANDS>(band, i), band, i, scale, sums);
}

/* ---- blocks: how many there are, and in which order they start ---- */

enum { FEW_BLOCKS = 1 }; /* for each multiprocessor */

/* Large blocks have two bands. Where T and the heads are few, large blocks would leave
 * multiprocessors idle, so blocks are small. */
static inline bool half_blocks_small(const struct cuda_context *cuda, const struct attention &a)
{
    return launch_blocks(a.T, 2 * TILE) * a.heads < FEW_BLOCKS * cuda->multiprocessors;
}

/* `heads` is a.heads, or the number of groups. */
template <int BANDS> static inline dim3 half_grid(const struct attention &a, uint32_t heads)
{
    return dim3(launch_blocks(a.T, BANDS * TILE) * heads);
}

/* A block's head, or the first one of its group, and how many of the head's blocks take longer and
 * how many less. */
struct half_block {
    struct attention_head head;
    uint32_t longer, shorter;
};

#define LONGEST_FIRST_BYTES (16u << 20)

/* Blocks start in the order of their numbers. The heads come one after the other, so that what one
 * head's blocks read stays in the L2 cache. The last heads, those that fit the cache together,
 * start their longest blocks first, so that the last blocks to end are short. */
__device__ static inline struct half_block half_block_of(const struct attention &a, uint32_t group)
{
    uint32_t heads = a.heads / group, blocks = gridDim.x / heads, index = blockIdx.x;
    uint32_t fit = LONGEST_FIRST_BYTES / (2 * sizeof(uint16_t) * a.D) / a.T;
    uint32_t together = fit < heads ? fit : heads, before = (heads - together) * blocks;
    uint32_t head, longer;
    if (index < before) {
        head = index / blocks;
        longer = index % blocks;
    } else {
        head = heads - together + (index - before) % together;
        longer = (index - before) / together;
    }
    return {attention_head_of(a, head * group), longer, blocks - 1 - longer};
}

/* ---- pairs of a block's rows and a tile's columns, by queries and by keys ---- */

/* A tile of keys. */
template <int WIDTH> struct half_keys {
    struct half_rows<TILE, WIDTH> k, v;
};

template <int WIDTH>
__device__ inline void half_keys_copy(const struct attention &a, const struct attention_head &h,
                                      uint32_t keys, struct half_keys<WIDTH> &tile)
{
    half_part_copy(a, h, KERNEL_K, keys, tile.k);
    half_part_copy(a, h, KERNEL_V, keys, tile.v);
    copy_group();
}

/* Says how late keys are in a warp's rows and a tile's columns. `most` is the position of the
 * latest key minus the position of the earliest query, and `least` is the position of the earliest
 * key minus the position of the latest query. */
struct half_lateness {
    int most, least;
};

/* Returns whether queries see none of the keys: all are later, or before the window. */
__device__ static inline bool sees_none(const struct attention &a, struct half_lateness late)
{
    return late.least > 0 || late.most <= -(int)a.window;
}

/* Returns whether queries see all of the keys. */
__device__ static inline bool sees_all(const struct attention &a, struct half_lateness late)
{
    return late.most <= 0 && late.least > -(int)a.window;
}

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

/* Scores of keys that the query does not see become -infinity. `ahead` is by how many positions
 * the column of the lane's first element is later than its row. */
template <bool KEYS_ARE_ROWS, int COLUMNS, int BANDS>
__device__ inline void scores_mask(int window, int ahead, struct warp_sums<BANDS, COLUMNS> &s)
{
#pragma unroll
    for (int band = 0; band < BANDS; band++)
#pragma unroll
        for (int f = 0; f < COLUMNS / FRAGMENT; f++)
            for (int i = 0; i < 4; i++) {
                int back = band * BAND + i / 2 * 8 - f * (TILE * FRAGMENT / COLUMNS) - i % 2;
                int late = KEYS_ARE_ROWS ? back - ahead : ahead - back; /* the key, by so much */
                if (late > 0 || late <= -window)
                    s.at[band][f][i] = -INFINITY;
            }
}

template <int COLUMNS, int BANDS>
__device__ inline int scores_ahead(uint32_t rows, uint32_t columns, int slice)
{
    return (int)(columns + score_column<COLUMNS>(slice, 0) - rows - lane_row<BANDS>(0, 0));
}

/* Applies the dropout's factors to queries' rows. A counter's four elements, 16 apart, belong to
 * one lane. */
template <int COLUMNS, int BANDS>
__device__ inline void queries_drop(const struct attention &a, const struct attention_head &h,
                                    uint32_t queries, uint32_t keys, int slice,
                                    struct warp_sums<BANDS, COLUMNS> &s)
{
    const int counters = COLUMNS / FRAGMENT / 4; /* fragments of each 16 columns */
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
