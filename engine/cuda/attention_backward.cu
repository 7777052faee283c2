/* With P the probabilities, M the dropout's mask and scale, O = (M P) V: dV = (M P)^T dO,
 * dP = M (dO V^T), dS = P (dP - delta), delta the row sums of dO O, dQ = scale dS K,
 * dK = dS^T (scale Q). */
#include "engine/cuda/attention_tile.h"
#include "engine/exponential.h"

template <int WIDTH> struct backward_shared {
    struct tile_rows<WIDTH> q, dout, k, v; /* q times the scale */
    struct tile_scores p, ds;              /* M P, and dS */
};

template <int WIDTH, typename T>
__device__ inline void load_queries(const struct attention &a, const struct attention_head &h,
                                    uint32_t tile, struct backward_shared<WIDTH> *shared)
{
    const T *dout = (const T *)a.dout + attention_o_at(a, h, 0);
    tile_qkv_load<WIDTH, T>(a, h, ATTENTION_Q, tile, a.scale, shared->q);
    tile_rows_load(a, dout, (uint64_t)a.A * a.D, tile, 1, shared->dout);
}

template <int WIDTH, typename T>
__device__ inline void load_keys(const struct attention &a, const struct attention_head &h,
                                 uint32_t tile, struct backward_shared<WIDTH> *shared)
{
    tile_qkv_load<WIDTH, T>(a, h, ATTENTION_K, tile, 1, shared->k);
    tile_qkv_load<WIDTH, T>(a, h, ATTENTION_V, tile, 1, shared->v);
}

/* Of row i of the thread: p holds the scores and ds the gradient of what was dropped out of. */
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

/* Leaves p and ds of a tile of queries and one of keys in shared memory. */
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

/* The last queries first: they have most keys. */
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
    thread_qkv_store<WIDTH, T>(a, h, ATTENTION_Q, queries, a.scale, dq);
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
    thread_qkv_store<WIDTH, T>(a, h, ATTENTION_K, keys, 1, dk);
    thread_qkv_store<WIDTH, T>(a, h, ATTENTION_V, keys, 1, dv);
}

template <typename T, int WIDTH>
static void launch_width(const struct cuda_context *cuda, const struct attention &a)
{
    size_t shared_bytes = sizeof(struct backward_shared<WIDTH>);
    launch(queries_kernel<T, WIDTH>, attention_grid(a), ATTENTION_THREADS, shared_bytes,
           cuda->stream, a);
    launch(keys_kernel<T, WIDTH>, attention_grid(a), ATTENTION_THREADS, shared_bytes, cuda->stream,
           a);
}

template <typename T>
void attention_backward_launch(const struct cuda_context *cuda, const struct attention &a)
{
    if (a.D <= 64)
        launch_width<T, 64>(cuda, a);
    else
        launch_width<T, 128>(cuda, a);
}

template void attention_backward_launch<float>(const struct cuda_context *,
                                               const struct attention &);
template void attention_backward_launch<uint16_t>(const struct cuda_context *,
                                                  const struct attention &);
