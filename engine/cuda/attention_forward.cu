#include "engine/cuda/attention_tile.h"
#include "engine/exponential.h"

template <int WIDTH> struct forward_shared {
    struct tile_rows<WIDTH> q, kv;
    struct tile_scores scores;
};

/* What the thread's rows have seen so far: the greatest score, the sum of the exponentials relative
 * to it, and the values weighted by them. The 16 threads of a row hold the same max and sum. */
template <int WIDTH> struct progress {
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

/* Pairs 32, 16, ..., 1 apart. */
__device__ static inline float row_sum(const float s[SCORES_EACH])
{
    float sum = (s[0] + s[2]) + (s[1] + s[3]);
    for (int apart = SIDE / 2; apart > 0; apart /= 2)
        sum += __shfl_xor_sync(WHOLE_WARP, sum, apart);
    return sum;
}

/* The scores of row i become exponentials relative to the new maximum, under the dropout; what was
 * summed relative to the old one is scaled. */
template <int WIDTH>
__device__ inline void advance(const struct attention &a, const struct attention_head &h,
                               uint32_t queries, uint32_t keys, int i, float s[SCORES_EACH],
                               struct progress<WIDTH> &p)
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
                             uint32_t queries, const struct progress<WIDTH> &p)
{
    T *first = (T *)a.o + attention_o_at(a, h, 0);
    for (int i = 0; i < ROWS_EACH; i++) {
        uint32_t t = queries * TILE + thread_y() * ROWS_EACH + i;
        thread_row_store(a, first, (uint64_t)a.A * a.D, queries, i, 1 / p.sum[i], p.o);
        if (t < a.T && thread_x() == 0)
            a.lse[(uint64_t)h.head * a.T + t] = (float)((double)p.max[i] + log((double)p.sum[i]));
    }
}

/* The last queries first: they have most keys. */
template <typename T, int WIDTH>
__global__ void __launch_bounds__(ATTENTION_THREADS) forward_kernel(struct attention a)
{
    struct forward_shared<WIDTH> *shared = (struct forward_shared<WIDTH> *)shared_memory();
    struct attention_head h = attention_head_of(a, blockIdx.y);
    uint32_t queries = gridDim.x - 1 - blockIdx.x;
    struct progress<WIDTH> p = {
    };
    for (int i = 0; i < ROWS_EACH; i++)
        p.max[i] = -INFINITY;
    tile_qkv_load<WIDTH, T>(a, h, ATTENTION_Q, queries, a.scale, shared->q);
    for (uint32_t keys = 0; keys <= queries; keys++) {
        tile_qkv_load<WIDTH, T>(a, h, ATTENTION_K, keys, 1, shared->kv);
        __syncthreads();
        struct thread_scores s = tile_product(shared->q, shared->kv);
        thread_scores_mask(queries, keys, s);
        for (int i = 0; i < ROWS_EACH; i++)
            advance(a, h, queries, keys, i, s.at[i], p);
        tile_scores_store(s, shared->scores);
        __syncthreads(); /* the scores are there, the keys have been read */
        tile_qkv_load<WIDTH, T>(a, h, ATTENTION_V, keys, 1, shared->kv);
        __syncthreads();
        tile_product_add<false>(shared->scores, shared->kv, p.o);
        __syncthreads();
    }
    store<T>(a, h, queries, p);
}

template <typename T, int WIDTH>
static void launch_width(const struct cuda_context *cuda, const struct attention &a)
{
    launch(forward_kernel<T, WIDTH>, attention_grid(a), ATTENTION_THREADS,
           sizeof(struct forward_shared<WIDTH>), cuda->stream, a);
}

template <typename T>
void attention_forward_launch(const struct cuda_context *cuda, const struct attention &a)
{
    if (a.D <= 64)
        launch_width<T, 64>(cuda, a);
    else
        launch_width<T, 128>(cuda, a);
}

template void attention_forward_launch<float>(const struct cuda_context *,
                                              const struct attention &);
template void attention_forward_launch<uint16_t>(const struct cuda_context *,
                                                 const struct attention &);
