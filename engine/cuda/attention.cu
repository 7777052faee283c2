/* Attention in fp32 arithmetic, and the choice between it and tensor cores
 * (engine/cuda/attention_half.h). 16 x 16 threads multiply tiles: thread (y, x) holds rows 4 y + i
 * and columns x + 16 j of a result. Terms are added in ascending order, as on the CPU device. */
#include "engine/cuda/attention.h"
#include "engine/exponential.h"
#include <glib.h>

/* ---- products of tiles ---- */

enum {
    SIDE = 16, /* of the square of threads: the number of a tile's counters */
    ATTENTION_THREADS = SIDE * SIDE,
    ROWS_EACH = TILE / SIDE,
    SCORES_EACH = TILE / SIDE,
};

/* An odd length of rows puts them into different banks. */
template <int WIDTH> struct tile_rows {
    float at[TILE][WIDTH + 1];
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

/* Loads rows of tile `tile`, of `stride` elements each from `first` on, times `scale`, with zeros
 * behind the sequence's end and behind D. */
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
                                     enum kernel_qkv part, uint32_t tile, float scale,
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

template <int WIDTH, typename T>
__device__ inline void thread_qkv_store(const struct attention &a, const struct attention_head &h,
                                        enum kernel_qkv part, uint32_t tile, float scale,
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

/* ---- forward ---- */

template <int WIDTH> struct forward_shared {
    struct tile_rows<WIDTH> q, kv;
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
 * scales earlier sums, which were relative to the old one. */
template <int WIDTH>
__device__ inline void advance(const struct attention &a, const struct attention_head &h,
                               uint32_t queries, uint32_t keys, int i, float s[SCORES_EACH],
                               struct thread_progress<WIDTH> &p)
{
    float max = fmaxf(row_max(s), p.max[i]);
    float old = exponential(p.max[i] - max);
    for (int j = 0; j < SCORES_EACH; j++)
        s[j] = exponential(s[j] - max);
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
    struct forward_shared<WIDTH> *shared = (struct forward_shared<WIDTH> *)shared_memory();
    struct attention_head h = attention_head_of(a, blockIdx.y);
    uint32_t queries = gridDim.x - 1 - blockIdx.x;
    struct thread_progress<WIDTH> p = {
    };
    for (int i = 0; i < ROWS_EACH; i++)
        p.max[i] = -INFINITY;
    tile_qkv_load<WIDTH, T>(a, h, KERNEL_Q, queries, a.scale, shared->q);
    for (uint32_t keys = 0; keys <= queries; keys++) {
        tile_qkv_load<WIDTH, T>(a, h, KERNEL_K, keys, 1, shared->kv);
        __syncthreads();
        struct thread_scores s = tile_product(shared->q, shared->kv);
        thread_scores_mask(queries, keys, s);
        for (int i = 0; i < ROWS_EACH; i++)
            advance(a, h, queries, keys, i, s.at[i], p);
        tile_scores_store(s, shared->scores);
        __syncthreads(); /* the scores are stored, and the keys have been read */
        tile_qkv_load<WIDTH, T>(a, h, KERNEL_V, keys, 1, shared->kv);
        __syncthreads();
        tile_product_add<false>(shared->scores, shared->kv, p.o);
        __syncthreads();
    }
    store<T>(a, h, queries, p);
}

template <typename T, int WIDTH>
static void forward_width(const struct cuda_context *cuda, const struct attention &a)
{
    launch(forward_kernel<T, WIDTH>, attention_grid(a), ATTENTION_THREADS,
           sizeof(struct forward_shared<WIDTH>), cuda->stream, a);
}

template <typename T>
static void attention_forward_launch(const struct cuda_context *cuda, const struct attention &a)
{
    if (a.D <= 64)
        forward_width<T, 64>(cuda, a);
    else
        forward_width<T, 128>(cuda, a);
}

/* ---- backward ---- */

/* With P the probabilities, M the dropout's mask times its scale, and O = (M P) V: dV = (M P)^T dO,
 * dP = M (dO V^T), dS = P (dP - delta), where delta is the row sums of dO O, dQ = scale dS K, dK =
 * dS^T (scale Q). */

template <int WIDTH> struct backward_shared {
    struct tile_rows<WIDTH> q, dout, k, v; /* q is scaled */
    struct tile_scores p, ds;              /* M P, and dS */
};

template <int WIDTH, typename T>
__device__ inline void load_queries(const struct attention &a, const struct attention_head &h,
                                    uint32_t tile, struct backward_shared<WIDTH> *shared)
{
    const T *dout = (const T *)a.dout + attention_o_at(a, h, 0);
    tile_qkv_load<WIDTH, T>(a, h, KERNEL_Q, tile, a.scale, shared->q);
    tile_rows_load(a, dout, (uint64_t)a.A * a.D, tile, 1, shared->dout);
}

template <int WIDTH, typename T>
__device__ inline void load_keys(const struct attention &a, const struct attention_head &h,
                                 uint32_t tile, struct backward_shared<WIDTH> *shared)
{
    tile_qkv_load<WIDTH, T>(a, h, KERNEL_K, tile, 1, shared->k);
    tile_qkv_load<WIDTH, T>(a, h, KERNEL_V, tile, 1, shared->v);
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
        ds[j] = probability * (ds[j] * factors[j] - delta);
        p[j] = probability * factors[j];
    }
}

/* Stores p and ds of a tile of queries and a tile of keys in shared memory. */
template <int WIDTH>
__device__ inline void compute_pair(const struct attention &a, const struct attention_head &h,
                                    uint32_t queries, uint32_t keys,
                                    struct backward_shared<WIDTH> *shared)
{
    struct thread_scores p = tile_product(shared->q, shared->k);
    struct thread_scores ds = tile_product(shared->dout, shared->v);
    thread_scores_mask(queries, keys, p);
    for (int i = 0; i < ROWS_EACH; i++)
        compute_row(a, h, queries * TILE + thread_y() * ROWS_EACH + i, keys, p.at[i], ds.at[i]);
    tile_scores_store(p, shared->p);
    tile_scores_store(ds, shared->ds);
}

/* The last queries come first, because they have the most keys. */
template <typename T, int WIDTH>
__global__ void __launch_bounds__(ATTENTION_THREADS) queries_kernel(struct attention a)
{
    struct backward_shared<WIDTH> *shared = (struct backward_shared<WIDTH> *)shared_memory();
    struct attention_head h = attention_head_of(a, blockIdx.y);
    uint32_t queries = gridDim.x - 1 - blockIdx.x;
    struct thread_rows<WIDTH> dq = {
    };
    load_queries<WIDTH, T>(a, h, queries, shared);
    for (uint32_t keys = 0; keys <= queries; keys++) {
        load_keys<WIDTH, T>(a, h, keys, shared);
        __syncthreads();
        compute_pair(a, h, queries, keys, shared);
        __syncthreads();
        tile_product_add<false>(shared->ds, shared->k, dq);
        __syncthreads();
    }
    thread_qkv_store<WIDTH, T>(a, h, KERNEL_Q, queries, a.scale, dq);
}

template <typename T, int WIDTH>
__global__ void __launch_bounds__(ATTENTION_THREADS) keys_kernel(struct attention a)
{
    struct backward_shared<WIDTH> *shared = (struct backward_shared<WIDTH> *)shared_memory();
    struct attention_head h = attention_head_of(a, blockIdx.y);
    uint32_t keys = blockIdx.x;
    struct thread_rows<WIDTH> dk = {}, dv = {
    };
    load_keys<WIDTH, T>(a, h, keys, shared);
    for (uint32_t queries = keys; queries < gridDim.x; queries++) {
        load_queries<WIDTH, T>(a, h, queries, shared);
        __syncthreads();
        compute_pair(a, h, queries, keys, shared);
        __syncthreads();
        tile_product_add<true>(shared->p, shared->dout, dv);
        tile_product_add<true>(shared->ds, shared->q, dk);
        __syncthreads();
    }
    thread_qkv_store<WIDTH, T>(a, h, KERNEL_K, keys, 1, dk);
    thread_qkv_store<WIDTH, T>(a, h, KERNEL_V, keys, 1, dv);
}

template <typename T, int WIDTH>
static void backward_width(const struct cuda_context *cuda, const struct attention &a)
{
    size_t shared_bytes = sizeof(struct backward_shared<WIDTH>);
    launch(queries_kernel<T, WIDTH>, attention_grid(a), ATTENTION_THREADS, shared_bytes,
           cuda->stream, a);
    launch(keys_kernel<T, WIDTH>, attention_grid(a), ATTENTION_THREADS, shared_bytes, cuda->stream,
           a);
}

template <typename T>
static void attention_backward_launch(const struct cuda_context *cuda, const struct attention &a)
{
    if (a.D <= 64)
        backward_width<T, 64>(cuda, a);
    else
        backward_width<T, 128>(cuda, a);
}

/* ---- the launches of both arithmetics ---- */

enum { WARPS = 4, THREADS = WARPS * WARP, GRID_LIMIT = 65535 };

/* A warp computes a row of a head, with the lanes of the CPU device. */
template <typename T> __global__ void __launch_bounds__(THREADS) delta_kernel(struct attention a)
{
    struct attention_head h = attention_head_of(a, blockIdx.y);
    uint32_t t = blockIdx.x * WARPS + threadIdx.x / WARP;
    if (t >= a.T)
        return;
    const T *o = (const T *)a.o_read + attention_o_at(a, h, t);
    const T *dout = (const T *)a.dout + attention_o_at(a, h, t);
    struct pair sum = {0, 0};
    for (uint32_t d = threadIdx.x % WARP * 2; d < a.D; d += TILE) {
        struct pair v = pair_load(o, d, a.D, 0), g = pair_load(dout, d, a.D, 0);
        sum.a = fmaf(v.a, g.a, sum.a);
        sum.b = fmaf(v.b, g.b, sum.b);
    }
    float delta = lanes_sum(sum.a, sum.b);
    if (threadIdx.x % WARP == 0)
        *attention_delta_at(a, h, t) = delta;
}

static bool on_tensor_cores(const struct attention &a)
{
    return a.D % OCTET == 0;
}

template <typename T>
static void forward_launch(const struct cuda_context *cuda, const struct attention &a)
{
    if (sizeof(T) == sizeof(uint16_t) && on_tensor_cores(a))
        attention_half_forward_launch(cuda, a);
    else
        attention_forward_launch<T>(cuda, a);
}

template <typename T>
static void backward_launch(const struct cuda_context *cuda, const struct attention &a)
{
    launch(delta_kernel<T>, dim3(launch_blocks(a.T, WARPS), a.heads), THREADS, 0, cuda->stream, a);
    if (sizeof(T) == sizeof(uint16_t) && on_tensor_cores(a))
        attention_half_backward_launch(cuda, a);
    else
        attention_backward_launch<T>(cuda, a);
}

static struct attention attention_of(uint32_t T, uint32_t A, uint32_t D, const void *qkv,
                                     const struct kernel_dropout *dropout)
{
    struct attention a = {};
    g_assert(D <= CUDA_HEAD_LIMIT);
    a.T = T;
    a.A = A;
    a.D = D;
    a.scale = 1 / sqrtf((float)D);
    a.qkv = qkv;
    a.dropout = tile_dropout_of(dropout);
    return a;
}

void cuda_attention_forward(const void *context, enum model_precision precision, uint32_t B,
                            uint32_t T, uint32_t A, uint32_t D, const void *qkv,
                            const struct kernel_dropout *dropout, void *o, float *lse)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    struct attention a = attention_of(T, A, D, qkv, dropout);
    uint32_t sequences = GRID_LIMIT / A;
    a.o = o;
    a.lse = lse;
    for (uint32_t b = 0; b < B; b += sequences) {
        a.first_head = b * A;
        a.heads = MIN(sequences, B - b) * A;
        BY_PRECISION(precision, forward_launch, cuda, a);
    }
}

/* Computes the sequences in parts, as the scratch has room for deltas. */
void cuda_attention_backward(const void *context, enum model_precision precision, uint32_t B,
                             uint32_t T, uint32_t A, uint32_t D, const void *dout, const void *qkv,
                             const void *o, const float *lse, const struct kernel_dropout *dropout,
                             void *dqkv)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    struct attention a = attention_of(T, A, D, qkv, dropout);
    uint64_t room = cuda->scratch_bytes / sizeof(float) / A / T;
    uint32_t sequences = (uint32_t)MIN(room, (uint64_t)(GRID_LIMIT / A));
    g_assert(sequences > 0);
    a.dout = dout;
    a.o_read = o;
    a.lse_read = lse;
    a.delta = (float *)cuda->scratch;
    a.dqkv = dqkv;
    for (uint32_t b = 0; b < B; b += sequences) {
        a.first_head = b * A;
        a.heads = MIN(sequences, B - b) * A;
        BY_PRECISION(precision, backward_launch, cuda, a);
    }
}
