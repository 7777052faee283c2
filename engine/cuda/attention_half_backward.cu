/* See engine/cuda/attention_backward.cu. For dk and dv the products are of keys by queries, so that
 * P and dS transposed are rows of a warp. */
#include "engine/cuda/attention_half.h"

/* With two BUFFERS the next tiles are on their way while these are computed; where the device's
 * shared memory has no room for that, they come one after the other. */
template <int WIDTH, int BUFFERS> struct half_queries_shared {
    struct half_rows<WIDTH> q, dout, k[BUFFERS], v[BUFFERS];
};

/* Of the lane's rows. */
struct row_values {
    float lse[LANE_ROWS], delta[LANE_ROWS]; /* lse times log2(e) */
};

__device__ static inline struct row_values
row_values_of(const struct attention &a, const struct attention_head &h, uint32_t queries)
{
    struct row_values values = {};
    for (int i = 0; i < LANE_ROWS; i++) {
        uint32_t t = queries * TILE + lane_row(i);
        if (t < a.T) {
            values.lse[i] = a.lse_read[(uint64_t)h.head * a.T + t] * LOG2_E;
            values.delta[i] = *attention_delta_at(a, t);
        }
    }
    return values;
}

/* dS of the scores and of the gradient of what was dropped out of. */
__device__ static inline void queries_gradient(float scale, const struct row_values &values,
                                               const struct warp_sums<TILE> &s,
                                               struct warp_sums<TILE> &ds)
{
#pragma unroll
    for (int f = 0; f < TILE / FRAGMENT; f++)
        for (int e = 0; e < 4; e++) {
            float p = power_of_two(fmaf(s.at[f][e], scale, -values.lse[e / 2]));
            ds.at[f][e] = p * (ds.at[f][e] - values.delta[e / 2]);
        }
}

template <int WIDTH, int BUFFERS>
__device__ inline void copy_keys(const struct attention &a, const struct attention_head &h,
                                 uint32_t keys, struct half_queries_shared<WIDTH, BUFFERS> *shared)
{
    half_qkv_copy(a, h, ATTENTION_K, keys, shared->k[keys % BUFFERS]);
    half_qkv_copy(a, h, ATTENTION_V, keys, shared->v[keys % BUFFERS]);
}

/* The last queries first: they have most keys. */
template <int WIDTH, int BUFFERS>
__global__ void __launch_bounds__(HALF_THREADS) half_queries_kernel(struct attention a)
{
    struct half_queries_shared<WIDTH, BUFFERS> *shared =
        (struct half_queries_shared<WIDTH, BUFFERS> *)shared_memory();
    struct attention_head h = attention_head_of(a);
    uint32_t queries = gridDim.x - 1 - blockIdx.x;
    struct row_values values = row_values_of(a, h, queries);
    struct warp_sums<WIDTH> dq = {
    };
    half_qkv_copy(a, h, ATTENTION_Q, queries, shared->q);
    half_dout_copy(a, h, queries, shared->dout);
    if (BUFFERS > 1)
        copy_keys(a, h, 0, shared);
    copy_group();
    for (uint32_t keys = 0; keys <= queries; keys++) {
        if (keys + BUFFERS - 1 <= queries)
            copy_keys(a, h, keys + BUFFERS - 1, shared);
        copy_group();
        copy_wait<BUFFERS - 1>();
        __syncthreads();
        struct warp_sums<TILE> s = warp_product(shared->q, shared->k[keys % BUFFERS]);
        struct warp_sums<TILE> ds = warp_product(shared->dout, shared->v[keys % BUFFERS]);
        half_mask(queries, keys, s);
        half_drop(a, h, queries, keys, ds);
        queries_gradient(a.scale * LOG2_E, values, s, ds);
        warp_product_add(ds, shared->k[keys % BUFFERS], dq);
        __syncthreads();
    }
    half_qkv_store(a, h, ATTENTION_Q, queries, a.scale, dq);
}

template <int WIDTH, int BUFFERS> struct half_keys_shared {
    struct half_rows<WIDTH> k, v, q[BUFFERS], dout[BUFFERS];
    float lse[TILE], delta[TILE];         /* of the queries; lse times log2(e) */
    uint32_t stays[TILE / 2][HALF_WARPS]; /* of two queries and a warp's 16 keys, a bit each */
};

template <int WIDTH, int BUFFERS>
__device__ inline void copy_queries(const struct attention &a, const struct attention_head &h,
                                    uint32_t queries,
                                    struct half_keys_shared<WIDTH, BUFFERS> *shared)
{
    half_qkv_copy(a, h, ATTENTION_Q, queries, shared->q[queries % BUFFERS]);
    half_dout_copy(a, h, queries, shared->dout[queries % BUFFERS]);
}

template <int WIDTH, int BUFFERS>
__device__ inline void load_values(const struct attention &a, const struct attention_head &h,
                                   uint32_t queries,
                                   struct half_keys_shared<WIDTH, BUFFERS> *shared)
{
    uint32_t t = queries * TILE + threadIdx.x;
    if (threadIdx.x >= TILE)
        return;
    bool there = t < a.T;
    shared->lse[threadIdx.x] = there ? a.lse_read[(uint64_t)h.head * a.T + t] * LOG2_E : 0;
    shared->delta[threadIdx.x] = there ? *attention_delta_at(a, t) : 0;
}

/* A warp draws for two queries at a time, each lane one counter: of four keys 16 apart. */
template <int WIDTH, int BUFFERS>
__device__ inline void draw(const struct attention &a, const struct attention_head &h,
                            uint32_t queries, uint32_t keys,
                            struct half_keys_shared<WIDTH, BUFFERS> *shared)
{
    unsigned lane = threadIdx.x % WARP;
    if (a.dropout.scale == 0)
        return;
    for (unsigned two = threadIdx.x / WARP; two < TILE / 2; two += HALF_WARPS) {
        float factors[4];
        uint32_t query = queries * TILE + two * 2 + lane / TILE_COUNTERS;
        attention_factors(a, h, query, keys, lane % TILE_COUNTERS, factors);
        for (int w = 0; w < 4; w++) {
            uint32_t stays = __ballot_sync(WHOLE_WARP, factors[w] != 0);
            if (lane == 0)
                shared->stays[two][w] = stays;
        }
    }
}

/* The factor of element e of the lane's fragment f: key lane_row(e / 2) of the warp, query
 * lane_column(f) + e % 2. */
template <int WIDTH, int BUFFERS>
__device__ inline float factor_of(const struct attention &a,
                                  const struct half_keys_shared<WIDTH, BUFFERS> *shared, int f,
                                  int e)
{
    if (a.dropout.scale == 0)
        return 1;
    uint32_t stays = shared->stays[lane_column(f) / 2][threadIdx.x / WARP];
    unsigned bit = e % 2 * TILE_COUNTERS + lane_row(e / 2) % TILE_COUNTERS;
    return stays >> bit & 1 ? a.dropout.scale : 0;
}

/* The scores become M P, and the gradient of what was dropped out of dS: both transposed. */
template <int WIDTH, int BUFFERS>
__device__ inline void keys_gradient(const struct attention &a, bool diagonal,
                                     const struct half_keys_shared<WIDTH, BUFFERS> *shared,
                                     struct warp_sums<TILE> &s, struct warp_sums<TILE> &ds)
{
#pragma unroll
    for (int f = 0; f < TILE / FRAGMENT; f++)
        for (int e = 0; e < 4; e++) {
            unsigned query = lane_column(f) + e % 2;
            bool later = diagonal && lane_row(e / 2) > query;
            float factor = factor_of(a, shared, f, e);
            float p = power_of_two(fmaf(s.at[f][e], a.scale * LOG2_E, -shared->lse[query]));
            p = later ? 0 : p;
            s.at[f][e] = p * factor;
            ds.at[f][e] = p * (ds.at[f][e] * factor - shared->delta[query]);
        }
}

template <int WIDTH, int BUFFERS>
__global__ void __launch_bounds__(HALF_THREADS) half_keys_kernel(struct attention a)
{
    struct half_keys_shared<WIDTH, BUFFERS> *shared =
        (struct half_keys_shared<WIDTH, BUFFERS> *)shared_memory();
    struct attention_head h = attention_head_of(a);
    uint32_t keys = blockIdx.x;
    struct warp_sums<WIDTH> dk = {}, dv = {
    };
    half_qkv_copy(a, h, ATTENTION_K, keys, shared->k);
    half_qkv_copy(a, h, ATTENTION_V, keys, shared->v);
    if (BUFFERS > 1)
        copy_queries(a, h, keys, shared);
    copy_group();
    for (uint32_t queries = keys; queries < gridDim.x; queries++) {
        if (queries + BUFFERS - 1 < gridDim.x)
            copy_queries(a, h, queries + BUFFERS - 1, shared);
        copy_group();
        load_values(a, h, queries, shared);
        draw(a, h, queries, keys, shared);
        copy_wait<BUFFERS - 1>();
        __syncthreads();
        struct warp_sums<TILE> s = warp_product(shared->k, shared->q[queries % BUFFERS]);
        struct warp_sums<TILE> ds = warp_product(shared->v, shared->dout[queries % BUFFERS]);
        keys_gradient(a, queries == keys, shared, s, ds);
        warp_product_add(s, shared->dout[queries % BUFFERS], dv);
        warp_product_add(ds, shared->q[queries % BUFFERS], dk);
        __syncthreads();
    }
    half_qkv_store(a, h, ATTENTION_K, keys, a.scale, dk);
    half_qkv_store(a, h, ATTENTION_V, keys, 1, dv);
}

template <int WIDTH, int BUFFERS>
static void launch_buffers(const struct cuda_context *cuda, const struct attention &a)
{
    launch(half_queries_kernel<WIDTH, BUFFERS>, attention_grid(a), HALF_THREADS,
           sizeof(struct half_queries_shared<WIDTH, BUFFERS>), cuda->stream, a);
    launch(half_keys_kernel<WIDTH, BUFFERS>, attention_grid(a), HALF_THREADS,
           sizeof(struct half_keys_shared<WIDTH, BUFFERS>), cuda->stream, a);
}

void attention_half_backward_launch(const struct cuda_context *cuda, const struct attention &a)
{
    if (a.D <= 64)
        launch_buffers<64, 2>(cuda, a);
    else if (sizeof(struct half_keys_shared<128, 2>) <= cuda->shared_bytes)
        launch_buffers<128, 2>(cuda, a);
    else
        launch_buffers<128, 1>(cuda, a);
}
