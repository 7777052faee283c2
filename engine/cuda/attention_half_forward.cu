#include "engine/cuda/attention_half.h"

template <int WIDTH> struct half_forward_shared {
    struct half_rows<WIDTH> q, k[2], v[2];
};

/* What the lane's rows have seen so far: the greatest score before its scaling, of the whole row;
 * the sum of the exponentials relative to it, of the lane's own columns; the values weighted by
 * them. */
template <int WIDTH> struct half_progress {
    float max[LANE_ROWS], sum[LANE_ROWS];
    struct warp_sums<WIDTH> o;
};

__device__ static inline float quad_max(float max)
{
    max = fmaxf(max, __shfl_xor_sync(WHOLE_WARP, max, 1));
    return fmaxf(max, __shfl_xor_sync(WHOLE_WARP, max, 2));
}

__device__ static inline float quad_sum(float sum)
{
    sum += __shfl_xor_sync(WHOLE_WARP, sum, 1);
    return sum + __shfl_xor_sync(WHOLE_WARP, sum, 2);
}

/* The scores of the lane's row i become exponentials relative to the new maximum; what was summed
 * relative to the old one is scaled. */
template <int WIDTH>
__device__ inline void advance(float scale, int i, struct warp_sums<TILE> &s,
                               struct half_progress<WIDTH> &p)
{
    float max = p.max[i], sum = 0;
#pragma unroll
    for (int f = 0; f < TILE / FRAGMENT; f++)
        max = fmaxf(max, fmaxf(s.at[f][2 * i], s.at[f][2 * i + 1]));
    max = quad_max(max);
    float old = power_of_two((p.max[i] - max) * scale);
#pragma unroll
    for (int f = 0; f < TILE / FRAGMENT; f++)
        for (int e = 2 * i; e < 2 * i + 2; e++) {
            s.at[f][e] = power_of_two(fmaf(s.at[f][e], scale, -max * scale));
            sum += s.at[f][e];
        }
    p.max[i] = max;
    p.sum[i] = fmaf(p.sum[i], old, sum);
#pragma unroll
    for (int f = 0; f < WIDTH / FRAGMENT; f++)
        for (int e = 2 * i; e < 2 * i + 2; e++)
            p.o.at[f][e] *= old;
}

template <int WIDTH>
__device__ inline void store(const struct attention &a, const struct attention_head &h,
                             uint32_t queries, const struct half_progress<WIDTH> &p)
{
    uint16_t *first = (uint16_t *)a.o + attention_o_at(a, h, 0);
    for (int i = 0; i < LANE_ROWS; i++) {
        uint32_t t = queries * TILE + lane_row(i);
        float sum = quad_sum(p.sum[i]);
        half_row_store(a, first, (uint64_t)a.A * a.D, queries, i, 1 / sum, p.o);
        if (t < a.T && threadIdx.x % 4 == 0)
            a.lse[(uint64_t)h.head * a.T + t] =
                (float)((double)(p.max[i] * a.scale) + log((double)sum));
    }
}

template <int WIDTH>
__device__ inline void copy_keys(const struct attention &a, const struct attention_head &h,
                                 uint32_t keys, struct half_forward_shared<WIDTH> *shared)
{
    half_qkv_copy(a, h, ATTENTION_K, keys, shared->k[keys % 2]);
    half_qkv_copy(a, h, ATTENTION_V, keys, shared->v[keys % 2]);
}

/* The last queries first: they have most keys. The next keys are on their way while these are
 * computed. */
template <int WIDTH>
__global__ void __launch_bounds__(HALF_THREADS) half_forward_kernel(struct attention a)
{
    struct half_forward_shared<WIDTH> *shared =
        (struct half_forward_shared<WIDTH> *)shared_memory();
    struct attention_head h = attention_head_of(a);
    uint32_t queries = gridDim.x - 1 - blockIdx.x;
    struct half_progress<WIDTH> p = {
    };
    p.max[0] = p.max[1] = -INFINITY;
    half_qkv_copy(a, h, ATTENTION_Q, queries, shared->q);
    copy_keys(a, h, 0, shared);
    copy_group();
    for (uint32_t keys = 0; keys <= queries; keys++) {
        if (keys < queries)
            copy_keys(a, h, keys + 1, shared);
        copy_group();
        copy_wait<1>();
        __syncthreads();
        struct warp_sums<TILE> s = warp_product(shared->q, shared->k[keys % 2]);
        half_mask(queries, keys, s);
        advance(a.scale * LOG2_E, 0, s, p);
        advance(a.scale * LOG2_E, 1, s, p);
        half_drop(a, h, queries, keys, s);
        warp_product_add(s, shared->v[keys % 2], p.o);
        __syncthreads();
    }
    store(a, h, queries, p);
}

template <int WIDTH>
static void launch_width(const struct cuda_context *cuda, const struct attention &a)
{
    launch(half_forward_kernel<WIDTH>, attention_grid(a), HALF_THREADS,
           sizeof(struct half_forward_shared<WIDTH>), cuda->stream, a);
}

void attention_half_forward_launch(const struct cuda_context *cuda, const struct attention &a)
{
    if (a.D <= 64)
        launch_width<64>(cuda, a);
    else
        launch_width<128>(cuda, a);
}
