/* Attention in fp32 arithmetic. 16 x 16 threads multiply tiles: thread (y, x) holds rows 4 y + i
 * and columns x + 16 j of a result. Terms are added in ascending order, as on the CPU device. Heads
 * are padded with zeros to WIDTH. Shared memory holds chunks of at most 128 columns of the rows. */
#include "engine/cuda/attention.h"
#include "engine/exponential.h"
#include "engine/soft_cap.h"

/* ---- products of tiles ---- */

enum {
    SIDE = 16, /* of the square of threads: the number of a tile's counters */
    ATTENTION_THREADS = SIDE * SIDE,
    ROWS_EACH = TILE / SIDE,
    SCORES_EACH = TILE / SIDE,
};

template <int WIDTH> constexpr int chunk_of = WIDTH > 128 ? 128 : WIDTH;

/* An odd length of rows puts them into different banks. */
template <int COLUMNS> struct tile_rows {
    float at[TILE][COLUMNS + 1];
};

struct tile_scores {
    float at[TILE][TILE + 1];
};

/* A thread's scores: [row, column]. */
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

/* Loads a chunk of the rows of tile `tile` of queries, keys or values, times `scale` and turned,
 * with zeros behind the sequence's end and behind D. */
template <typename T, int CHUNK>
__device__ inline void tile_part_rows(const struct attention &a, const struct attention_head &h,
                                      enum kernel_qkv part, uint32_t tile, int chunk, float scale,
                                      struct tile_rows<CHUNK> &rows)
{
    const T *first = (const T *)a.parts[part].at + attention_part_at(a, h, part, 0);
    for (unsigned i = threadIdx.x; i < TILE * CHUNK; i += ATTENTION_THREADS) {
        uint32_t r = i / CHUNK, d = chunk * CHUNK + i % CHUNK, t = tile * TILE + r;
        const T *row = first + (uint64_t)t * a.parts[part].stride;
        auto column = [&](uint32_t c) { return element_load(row + c) * scale; };
        float value = 0;
        if (t < a.T && d < a.D)
            value = part == KERNEL_V ? column(d) : turned_column(a, t, d, false, column);
        rows.at[r][i % CHUNK] = value;
    }
}

/* As tile_part_rows, of the gradient of o. */
template <typename T, int CHUNK>
__device__ inline void tile_dout_rows(const struct attention &a, const struct attention_head &h,
                                      uint32_t tile, int chunk, struct tile_rows<CHUNK> &rows)
{
    for (unsigned i = threadIdx.x; i < TILE * CHUNK; i += ATTENTION_THREADS) {
        uint32_t r = i / CHUNK, d = chunk * CHUNK + i % CHUNK, t = tile * TILE + r;
        const T *row = (const T *)a.dout + attention_o_at(a, h, t);
        rows.at[r][i % CHUNK] = t < a.T && d < a.D ? element_load(row + d) : 0;
    }
}

/* s += rows columns^T */
template <int CHUNK>
__device__ inline void tile_product(const struct tile_rows<CHUNK> &rows,
                                    const struct tile_rows<CHUNK> &columns, struct thread_scores &s)
{
    for (int d = 0; d < CHUNK; d++)
        for (int i = 0; i < ROWS_EACH; i++)
            for (int j = 0; j < SCORES_EACH; j++)
                s.at[i][j] = fmaf(rows.at[thread_y() * ROWS_EACH + i][d],
                                  columns.at[thread_x() + j * SIDE][d], s.at[i][j]);
}

/* A chunk of the sums: sum += scores rows, or scores^T rows. */
template <bool TRANSPOSED, int CHUNK, int WIDTH>
__device__ inline void tile_product_add(const struct tile_scores &scores,
                                        const struct tile_rows<CHUNK> &rows, int chunk,
                                        struct thread_rows<WIDTH> &sum)
{
    for (int k = 0; k < TILE; k++)
        for (int i = 0; i < ROWS_EACH; i++) {
            int row = (int)thread_y() * ROWS_EACH + i;
            float score = TRANSPOSED ? scores.at[k][row] : scores.at[row][k];
            for (int j = 0; j < CHUNK / SIDE; j++) {
                float &to = sum.at[i][chunk * (CHUNK / SIDE) + j];
                to = fmaf(score, rows.at[k][thread_x() + j * SIDE], to);
            }
        }
}

__device__ static inline void tile_scores_store(const struct thread_scores &s,
                                                struct tile_scores &scores)
{
    for (int i = 0; i < ROWS_EACH; i++)
        for (int j = 0; j < SCORES_EACH; j++)
            scores.at[thread_y() * ROWS_EACH + i][thread_x() + j * SIDE] = s.at[i][j];
}

/* Stores row i of the thread, times `scale`, in the head's row of tile `tile`. */
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

/* Stores the gradient of a tile of queries, keys or values. Rows that turned meet in shared memory,
 * which nothing else may use any more, and turn back. */
template <int WIDTH, typename T>
__device__ inline void thread_part_store(const struct attention &a, const struct attention_head &h,
                                         enum kernel_qkv part, uint32_t tile, float scale,
                                         const struct thread_rows<WIDTH> &rows)
{
    T *first = (T *)a.parts[part].gradient + attention_part_at(a, h, part, 0);
    uint64_t stride = a.parts[part].stride;
    struct tile_rows<WIDTH> *shared = (struct tile_rows<WIDTH> *)shared_memory();
    if (part == KERNEL_V || a.pairs == 0) {
        for (int i = 0; i < ROWS_EACH; i++)
            thread_row_store(a, first, stride, tile, i, scale, rows);
        return;
    }
    for (int i = 0; i < ROWS_EACH; i++)
        for (int j = 0; j < WIDTH / SIDE; j++)
            shared->at[thread_y() * ROWS_EACH + i][thread_x() + j * SIDE] = rows.at[i][j];
    __syncthreads();
    for (unsigned i = threadIdx.x; i < TILE * WIDTH; i += ATTENTION_THREADS) {
        uint32_t r = i / WIDTH, d = i % WIDTH, t = tile * TILE + r;
        if (t < a.T && d < a.D)
            element_store(first + t * stride + d, turned_column(a, t, d, true, [&](uint32_t c) {
                                                      return shared->at[r][c];
                                                  }) * scale);
    }
}

__device__ static inline void thread_scores_cap(const struct attention &a, struct thread_scores &s)
{
    if (a.cap == 0)
        return;
    for (int i = 0; i < ROWS_EACH; i++)
        for (int j = 0; j < SCORES_EACH; j++)
            s.at[i][j] = soft_cap(s.at[i][j], a.cap);
}

/* Scores of keys that row i's query does not see become -infinity. */
__device__ static inline void thread_scores_mask(const struct attention &a, uint32_t queries,
                                                 uint32_t keys, struct thread_scores &s)
{
    int before = (int)(queries - keys) * TILE; /* from the first key to the first query */
    if (keys < queries && before + TILE - 1 < (int)a.window)
        return;
    for (int i = 0; i < ROWS_EACH; i++)
        for (int j = 0; j < SCORES_EACH; j++) {
            int back = before + (int)(thread_y() * ROWS_EACH + i) - (int)(thread_x() + j * SIDE);
            if (back < 0 || back >= (int)a.window)
                s.at[i][j] = -INFINITY;
        }
}

/* ---- forward ---- */

template <int CHUNK> struct forward_shared {
    struct tile_rows<CHUNK> q, kv;
    struct tile_scores scores;
};

/* The progress of the thread's rows over the keys: the greatest score, the sum of the exponentials
 * relative to it, and the sum of the values weighted by them. The 16 threads of a row hold the same
 * max and sum. */
template <int WIDTH> struct thread_progress {
    float max[ROWS_EACH], sum[ROWS_EACH];
    struct thread_rows<WIDTH> o;
};

__device__ static inline float row_max(const float s[SCORES_EACH])
{
    float max = fmaxf(fmaxf(s[0], s[1]), fmaxf(s[2], s[3]));
    for (int apart = SIDE / 2; apart > 0; apart /= 2)
        max = fmaxf(max, __shfl_xor_sync(WHOLE_WARP, max, apart));
    return max;
}

/* Returns the sum: pairs 32, 16, ..., 1 apart. */
__device__ static inline float row_sum(const float s[SCORES_EACH])
{
    float sum = (s[0] + s[2]) + (s[1] + s[3]);
    for (int apart = SIDE / 2; apart > 0; apart /= 2)
        sum += __shfl_xor_sync(WHOLE_WARP, sum, apart);
    return sum;
}

/* Turns the scores of row i into exponentials relative to the new maximum, under the dropout, and
 * scales earlier sums, which were relative to the old one. While the row has seen no key, the
 * maximum is -infinity, and all these are 0. */
template <int WIDTH>
__device__ inline void advance(const struct attention &a, const struct attention_head &h,
                               uint32_t queries, uint32_t keys, int i, float s[SCORES_EACH],
                               struct thread_progress<WIDTH> &p)
{
    float max = fmaxf(row_max(s), p.max[i]);
    float relative = max == -INFINITY ? 0 : max;
    float old = exponential(p.max[i] - relative);
    for (int j = 0; j < SCORES_EACH; j++)
        s[j] = exponential(s[j] - relative);
    p.max[i] = max;
    p.sum[i] = fmaf(p.sum[i], old, row_sum(s));
    for (int j = 0; j < WIDTH / SIDE; j++)
        p.o.at[i][j] *= old;
    if (a.dropout.scale != 0) {
        float factors[SCORES_EACH];
        uint32_t query = queries * TILE + thread_y() * ROWS_EACH + i;
        attention_factors(a, h, query, keys, thread_x(), factors);
        for (int j = 0; j < SCORES_EACH; j++)
            s[j] *= factors[j];
    }
}

template <typename T, int WIDTH>
__device__ inline void store(const struct attention &a, const struct attention_head &h,
                             uint32_t queries, const struct thread_progress<WIDTH> &p)
{
    T *first = (T *)a.o + attention_o_at(a, h, 0);
    for (int i = 0; i < ROWS_EACH; i++) {
        uint32_t t = queries * TILE + thread_y() * ROWS_EACH + i;
        thread_row_store(a, first, (uint64_t)a.A * a.D, queries, i, 1 / p.sum[i], p.o);
        if (t < a.T && thread_x() == 0)
            a.lse[(uint64_t)h.head * a.T + t] = (float)((double)p.max[i] + log((double)p.sum[i]));
    }
}

/* The last queries come first, because they have the most keys. */
template <typename T, int WIDTH>
__global__ void __launch_bounds__(ATTENTION_THREADS) forward_kernel(struct attention a)
{
    enum { CHUNK = chunk_of<WIDTH>, CHUNKS = WIDTH / CHUNK };
    struct forward_shared<CHUNK> *shared = (struct forward_shared<CHUNK> *)shared_memory();
    struct attention_head h = attention_head_of(a, blockIdx.y);
    uint32_t queries = gridDim.x - 1 - blockIdx.x;
    struct thread_progress<WIDTH> p = {
    };
    for (int i = 0; i < ROWS_EACH; i++)
        p.max[i] = -INFINITY;
    if (CHUNKS == 1)
        tile_part_rows<T>(a, h, KERNEL_Q, queries, 0, a.scale, shared->q);
    for (uint32_t keys = attention_first_keys(a, queries * TILE); keys <= queries; keys++) {
        struct thread_scores s = {};
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            if (CHUNKS > 1)
                tile_part_rows<T>(a, h, KERNEL_Q, queries, chunk, a.scale, shared->q);
            tile_part_rows<T>(a, h, KERNEL_K, keys, chunk, 1, shared->kv);
            __syncthreads();
            tile_product(shared->q, shared->kv, s);
            if (chunk + 1 < CHUNKS)
                __syncthreads();
        }
        thread_scores_cap(a, s);
        thread_scores_mask(a, queries, keys, s);
        for (int i = 0; i < ROWS_EACH; i++)
            advance(a, h, queries, keys, i, s.at[i], p);
        tile_scores_store(s, shared->scores);
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            __syncthreads(); /* the scores are stored, and the keys or values have been read */
            tile_part_rows<T>(a, h, KERNEL_V, keys, chunk, 1, shared->kv);
            __syncthreads();
            tile_product_add<false>(shared->scores, shared->kv, chunk, p.o);
        }
        __syncthreads();
    }
    store<T>(a, h, queries, p);
}

template <typename T, int WIDTH>
static void forward_width(const struct cuda_context *cuda, const struct attention &a)
{
    launch(forward_kernel<T, WIDTH>, dim3(tiles_of(a.T), a.heads), ATTENTION_THREADS,
           sizeof(struct forward_shared<chunk_of<WIDTH>>), cuda->stream, a);
}

template <typename T>
static void forward_launch(const struct cuda_context *cuda, const struct attention &a)
{
    if (a.D <= 64)
        forward_width<T, 64>(cuda, a);
    else if (a.D <= 128)
        forward_width<T, 128>(cuda, a);
    else
        forward_width<T, 256>(cuda, a);
}

void attention_fp32_forward_launch(const struct cuda_context *cuda, enum model_precision precision,
                                   const struct attention &a)
{
    BY_PRECISION(precision, forward_launch, cuda, a);
}

/* ---- backward ---- */

/* With P the probabilities, M the dropout's mask times its scale, and O = (M P) V: dV = (M P)^T dO,
 * dP = M (dO V^T), dS = P (dP - delta), where delta is the row sums of dO O, dQ = scale dS K, dK =
 * dS^T (scale Q). */

template <int CHUNK> struct backward_shared {
    struct tile_rows<CHUNK> q, dout, k, v; /* q is scaled */
    struct tile_scores p, ds;              /* M P, and dS */
};

template <typename T, int CHUNK>
__device__ inline void load_queries(const struct attention &a, const struct attention_head &h,
                                    uint32_t tile, int chunk, struct backward_shared<CHUNK> *shared)
{
    tile_part_rows<T>(a, h, KERNEL_Q, tile, chunk, a.scale, shared->q);
    tile_dout_rows<T>(a, h, tile, chunk, shared->dout);
}

template <typename T, int CHUNK>
__device__ inline void load_keys(const struct attention &a, const struct attention_head &h,
                                 uint32_t tile, int chunk, struct backward_shared<CHUNK> *shared)
{
    tile_part_rows<T>(a, h, KERNEL_K, tile, chunk, 1, shared->k);
    tile_part_rows<T>(a, h, KERNEL_V, tile, chunk, 1, shared->v);
}

/* For row i of the thread: p holds the scores, and ds the gradient after the dropout. They become M
 * P and dS. */
__device__ static inline void compute_row(const struct attention &a, const struct attention_head &h,
                                          uint32_t query, uint32_t keys, float p[SCORES_EACH],
                                          float ds[SCORES_EACH])
{
    float factors[SCORES_EACH] = {1, 1, 1, 1};
    float lse = 0, delta = 0;
    if (query < a.T) {
        lse = a.lse_read[(uint64_t)h.head * a.T + query];
        delta = *attention_delta_at(a, h, query);
    }
    if (a.dropout.scale != 0)
        attention_factors(a, h, query, keys, thread_x(), factors);
    for (int j = 0; j < SCORES_EACH; j++) {
        float probability = exponential(p[j] - lse);
        /* A key that is not seen has minus infinity, whose slope would not be a number. */
        float slope = a.cap > 0 ? soft_cap_slope(fmaxf(p[j], -a.cap), a.cap) : 1;
        ds[j] = probability * (ds[j] * factors[j] - delta) * slope;
        p[j] = probability * factors[j];
    }
}

/* Stores p and ds of a tile of queries and a tile of keys in shared memory. If there is one chunk,
 * one of the two tiles is there already: the keys if KEYS_STAY. */
template <typename T, int WIDTH, bool KEYS_STAY>
__device__ inline void compute_pair(const struct attention &a, const struct attention_head &h,
                                    uint32_t queries, uint32_t keys,
                                    struct backward_shared<chunk_of<WIDTH>> *shared)
{
    enum { CHUNKS = WIDTH / chunk_of<WIDTH> };
    struct thread_scores p = {}, ds = {};
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        if (CHUNKS > 1 || KEYS_STAY)
            load_queries<T>(a, h, queries, chunk, shared);
        if (CHUNKS > 1 || !KEYS_STAY)
            load_keys<T>(a, h, keys, chunk, shared);
        __syncthreads();
        tile_product(shared->q, shared->k, p);
        tile_product(shared->dout, shared->v, ds);
        if (CHUNKS > 1)
            __syncthreads();
    }
    thread_scores_cap(a, p);
    thread_scores_mask(a, queries, keys, p);
    for (int i = 0; i < ROWS_EACH; i++)
        compute_row(a, h, queries * TILE + thread_y() * ROWS_EACH + i, keys, p.at[i], ds.at[i]);
    tile_scores_store(p, shared->p);
    tile_scores_store(ds, shared->ds);
}

/* The last queries come first, because they have the most keys. */
template <typename T, int WIDTH>
__global__ void __launch_bounds__(ATTENTION_THREADS) queries_kernel(struct attention a)
{
    enum { CHUNK = chunk_of<WIDTH>, CHUNKS = WIDTH / CHUNK };
    struct backward_shared<CHUNK> *shared = (struct backward_shared<CHUNK> *)shared_memory();
    struct attention_head h = attention_head_of(a, blockIdx.y);
    uint32_t queries = gridDim.x - 1 - blockIdx.x;
    struct thread_rows<WIDTH> dq = {
    };
    if (CHUNKS == 1)
        load_queries<T>(a, h, queries, 0, shared);
    for (uint32_t keys = attention_first_keys(a, queries * TILE); keys <= queries; keys++) {
        compute_pair<T, WIDTH, false>(a, h, queries, keys, shared);
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            if (CHUNKS > 1)
                tile_part_rows<T>(a, h, KERNEL_K, keys, chunk, 1, shared->k);
            __syncthreads();
            tile_product_add<false>(shared->ds, shared->k, chunk, dq);
            __syncthreads();
        }
    }
    thread_part_store<WIDTH, T>(a, h, KERNEL_Q, queries, a.scale, dq);
}

/* The heads of a group come one after the other. */
template <typename T, int WIDTH>
__global__ void __launch_bounds__(ATTENTION_THREADS) keys_kernel(struct attention a)
{
    enum { CHUNK = chunk_of<WIDTH>, CHUNKS = WIDTH / CHUNK };
    struct backward_shared<CHUNK> *shared = (struct backward_shared<CHUNK> *)shared_memory();
    struct attention_head h = attention_head_of(a, blockIdx.y * a.group);
    uint32_t keys = blockIdx.x, end = tiles_of(attention_end_queries(a, (keys + 1) * TILE));
    struct thread_rows<WIDTH> dk = {}, dv = {
    };
    if (CHUNKS == 1)
        load_keys<T>(a, h, keys, 0, shared);
    for (uint32_t i = 0; i < a.group; i++) {
        struct attention_head own = attention_head_of(a, blockIdx.y * a.group + i);
        for (uint32_t queries = keys; queries < end; queries++) {
            compute_pair<T, WIDTH, true>(a, own, queries, keys, shared);
#pragma unroll
            for (int chunk = 0; chunk < CHUNKS; chunk++) {
                if (CHUNKS > 1)
                    load_queries<T>(a, own, queries, chunk, shared);
                __syncthreads();
                tile_product_add<true>(shared->p, shared->dout, chunk, dv);
                tile_product_add<true>(shared->ds, shared->q, chunk, dk);
                __syncthreads();
            }
        }
    }
    thread_part_store<WIDTH, T>(a, h, KERNEL_V, keys, 1, dv);
    thread_part_store<WIDTH, T>(a, h, KERNEL_K, keys, 1, dk);
}

template <typename T, int WIDTH>
static void backward_width(const struct cuda_context *cuda, const struct attention &a)
{
    size_t shared_bytes = sizeof(struct backward_shared<chunk_of<WIDTH>>);
    static_assert(sizeof(struct tile_rows<WIDTH>) <=
                      sizeof(struct backward_shared<chunk_of<WIDTH>>),
                  "whole rows turn back where chunks were");
    launch(queries_kernel<T, WIDTH>, dim3(tiles_of(a.T), a.heads), ATTENTION_THREADS, shared_bytes,
           cuda->stream, a);
    launch(keys_kernel<T, WIDTH>, dim3(tiles_of(a.T), a.heads / a.group), ATTENTION_THREADS,
           shared_bytes, cuda->stream, a);
}

template <typename T>
static void backward_launch(const struct cuda_context *cuda, const struct attention &a)
{
    if (a.D <= 64)
        backward_width<T, 64>(cuda, a);
    else if (a.D <= 128)
        backward_width<T, 128>(cuda, a);
    else
        backward_width<T, 256>(cuda, a);
}

void attention_fp32_backward_launch(const struct cuda_context *cuda, enum model_precision precision,
                                    const struct attention &a)
{
    BY_PRECISION(precision, backward_launch, cuda, a);
}
