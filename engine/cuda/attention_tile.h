/* Products of tiles in fp32 by 16 x 16 threads: thread (y, x) holds rows 4 y + i and columns
 * x + 16 j of a result. Terms are added in ascending order, as the CPU device adds them. */
#ifndef PSTAR_ENGINE_CUDA_ATTENTION_TILE_H
#define PSTAR_ENGINE_CUDA_ATTENTION_TILE_H

#include "engine/cuda/attention.h"

enum {
    SIDE = 16, /* of the square of threads: as many as a tile has counters */
    ATTENTION_THREADS = SIDE * SIDE,
    ROWS_EACH = TILE / SIDE,
    SCORES_EACH = TILE / SIDE,
};

/* Rows of an odd length lie in different banks. */
template <int WIDTH> struct tile_rows {
    float at[TILE][WIDTH + 1];
};

struct tile_scores {
    float at[TILE][TILE + 1];
};

/* Of a thread: [row, column]. */
struct thread_scores {
    float at[ROWS_EACH][SCORES_EACH];
};

template <int WIDTH> struct thread_rows {
    float at[ROWS_EACH][WIDTH / SIDE];
};

__device__ static inline unsigned thread_y()
{
    return threadIdx.x / SIDE;
}

__device__ static inline unsigned thread_x()
{
    return threadIdx.x % SIDE;
}

/* Rows of tile `tile`, of `stride` elements each from `first` on, times `scale`; zeros behind the
 * sequence's end and behind D. */
template <int WIDTH, typename T>
__device__ inline void tile_rows_load(const struct attention &a, const T *first, uint64_t stride,
                                      uint32_t tile, float scale, struct tile_rows<WIDTH> &rows)
{
    for (unsigned i = threadIdx.x; i < TILE * WIDTH; i += ATTENTION_THREADS) {
        uint32_t r = i / WIDTH, d = i % WIDTH, t = tile * TILE + r;
        bool there = t < a.T && d < a.D;
        rows.at[r][d] = there ? element_load(first + t * stride + d) * scale : 0;
    }
}

template <int WIDTH, typename T>
__device__ inline void tile_qkv_load(const struct attention &a, const struct attention_head &h,
                                     enum attention_part part, uint32_t tile, float scale,
                                     struct tile_rows<WIDTH> &rows)
{
    const T *first = (const T *)a.qkv + attention_qkv_at(a, h, part, 0);
    tile_rows_load(a, first, 3ull * a.A * a.D, tile, scale, rows);
}

/* rows columns^T */
template <int WIDTH>
__device__ inline struct thread_scores tile_product(const struct tile_rows<WIDTH> &rows,
                                                    const struct tile_rows<WIDTH> &columns)
{
    struct thread_scores s = {};
    for (int d = 0; d < WIDTH; d++)
        for (int i = 0; i < ROWS_EACH; i++)
            for (int j = 0; j < SCORES_EACH; j++)
                s.at[i][j] = fmaf(rows.at[thread_y() * ROWS_EACH + i][d],
                                  columns.at[thread_x() + j * SIDE][d], s.at[i][j]);
    return s;
}

/* sum += scores rows, or scores^T rows */
template <bool TRANSPOSED, int WIDTH>
__device__ inline void tile_product_add(const struct tile_scores &scores,
                                        const struct tile_rows<WIDTH> &rows,
                                        struct thread_rows<WIDTH> &sum)
{
    for (int k = 0; k < TILE; k++)
        for (int i = 0; i < ROWS_EACH; i++) {
            int row = (int)thread_y() * ROWS_EACH + i;
            float score = TRANSPOSED ? scores.at[k][row] : scores.at[row][k];
            for (int j = 0; j < WIDTH / SIDE; j++)
                sum.at[i][j] = fmaf(score, rows.at[k][thread_x() + j * SIDE], sum.at[i][j]);
        }
}

__device__ static inline void tile_scores_store(const struct thread_scores &s,
                                                struct tile_scores &scores)
{
    for (int i = 0; i < ROWS_EACH; i++)
        for (int j = 0; j < SCORES_EACH; j++)
            scores.at[thread_y() * ROWS_EACH + i][thread_x() + j * SIDE] = s.at[i][j];
}

/* Row i of the thread times `scale` goes to the head's row of tile `tile`. */
template <int WIDTH, typename T>
__device__ inline void thread_row_store(const struct attention &a, T *first, uint64_t stride,
                                        uint32_t tile, int i, float scale,
                                        const struct thread_rows<WIDTH> &rows)
{
    uint32_t t = tile * TILE + thread_y() * ROWS_EACH + i;
    for (int j = 0; j < WIDTH / SIDE; j++) {
        uint32_t d = thread_x() + j * SIDE;
        if (t < a.T && d < a.D)
            element_store(first + t * stride + d, rows.at[i][j] * scale);
    }
}

template <int WIDTH, typename T>
__device__ inline void thread_qkv_store(const struct attention &a, const struct attention_head &h,
                                        enum attention_part part, uint32_t tile, float scale,
                                        const struct thread_rows<WIDTH> &rows)
{
    T *first = (T *)a.dqkv + attention_qkv_at(a, h, part, 0);
    for (int i = 0; i < ROWS_EACH; i++)
        thread_row_store(a, first, 3ull * a.A * a.D, tile, i, scale, rows);
}

/* Scores of keys that row i's query does not attend to become -infinity. */
__device__ static inline void thread_scores_mask(uint32_t queries, uint32_t keys,
                                                 struct thread_scores &s)
{
    if (keys < queries)
        return;
    for (int i = 0; i < ROWS_EACH; i++)
        for (int j = 0; j < SCORES_EACH; j++)
            if (thread_x() + j * SIDE > thread_y() * ROWS_EACH + i)
                s.at[i][j] = -INFINITY;
}

#endif
