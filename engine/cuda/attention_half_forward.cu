#include "engine/cuda/attention.h"
#include "engine/cuda/attention_half.h"

/* The queries lie where the second keys will come: they soon go to registers. */
template <int BANDS, int WIDTH> union half_forward_shared {
    struct half_keys<WIDTH> keys[2];
    struct {
        struct half_keys<WIDTH> first;
        struct half_rows<BANDS * TILE, WIDTH> q;
    } start;
};

/* The progress of the lane's rows over the keys: the greatest score of the whole row before its
 * scaling, the sum of the exponentials relative to it in the lane's own columns, and the sum of the
 * values weighted by them. */
template <int BANDS, int WIDTH> struct half_progress {
    float max[BANDS][LANE_ROWS], sum[BANDS][LANE_ROWS];
    struct warp_sums<BANDS, WIDTH> o;
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

/* Turns the scores of the lane's row i of a band into exponentials relative to the new maximum, and
 * scales earlier sums, which were relative to the old one. */
template <int BANDS, int WIDTH>
__device__ inline void advance(float scale, int band, int i, struct warp_sums<BANDS, TILE> &s,
                               struct half_progress<BANDS, WIDTH> &p)
{
    float max = p.max[band][i], sum = 0;
#pragma unroll
    for (int f = 0; f < TILE / FRAGMENT; f++)
        max = fmaxf(max, fmaxf(s.at[band][f][2 * i], s.at[band][f][2 * i + 1]));
    max = quad_max(max);
    float relative = max == -INFINITY ? 0 : max; /* the row has seen no key */
    float old = power_of_two((p.max[band][i] - relative) * scale);
#pragma unroll
    for (int f = 0; f < TILE / FRAGMENT; f++)
        for (int e = 2 * i; e < 2 * i + 2; e++) {
            s.at[band][f][e] = power_of_two(fmaf(s.at[band][f][e], scale, -relative * scale));
            sum += s.at[band][f][e];
        }
    p.max[band][i] = max;
    p.sum[band][i] = fmaf(p.sum[band][i], old, sum);
#pragma unroll
    for (int f = 0; f < WIDTH / FRAGMENT; f++)
        for (int e = 2 * i; e < 2 * i + 2; e++)
            p.o.at[band][f][e] *= old;
}

template <int BANDS, int WIDTH>
__device__ inline void store(const struct attention &a, const struct attention_head &h,
                             uint32_t queries, const struct half_progress<BANDS, WIDTH> &p)
{
    uint16_t *to = (uint16_t *)a.o + attention_o_at(a, h, 0);
#pragma unroll
    for (int band = 0; band < BANDS; band++)
#pragma unroll
        for (int i = 0; i < LANE_ROWS; i++) {
            uint32_t t = queries + lane_row<BANDS>(band, i);
            float sum = quad_sum(p.sum[band][i]);
            half_row_store(a, to, (uint64_t)a.A * a.D, t, band, i, 1 / sum, p.o);
            if (t < a.T && threadIdx.x % 4 == 0)
                a.lse[(uint64_t)h.head * a.T + t] =
                    (float)((double)(p.max[band][i] * a.scale) + log((double)sum));
        }
}

template <int BANDS, int WIDTH>
__device__ inline void compute(const struct attention &a, const struct attention_head &h,
                               const struct warp_rows<BANDS, WIDTH> &q, uint32_t queries,
                               uint32_t keys, const struct half_keys<WIDTH> &tile,
                               struct half_progress<BANDS, WIDTH> &p)
{
    struct half_lateness late = queries_lateness<BANDS>(queries, keys);
    if (sees_none(a, late))
        return;
    struct warp_sums<BANDS, TILE> s = warp_product<TILE>(q, tile.k, 0);
    if (!sees_all(a, late))
        scores_mask<false>((int)a.window, scores_ahead<TILE, BANDS>(queries, keys, 0), s);
#pragma unroll
    for (int band = 0; band < BANDS; band++)
        for (int i = 0; i < LANE_ROWS; i++)
            advance(a.scale * LOG2_E, band, i, s, p);
    queries_drop(a, h, queries, keys, 0, s);
    warp_product_add(s, tile.v, 0, p.o);
}

/* The last queries take longest, because they have the most keys. The next keys are copied while
 * these are computed. */
template <int BANDS, int WIDTH>
__global__ void __launch_bounds__(HALF_THREADS) half_forward_kernel(struct attention a)
{
    union half_forward_shared<BANDS, WIDTH> *shared =
        (union half_forward_shared<BANDS, WIDTH> *)shared_memory();
    struct half_block block = half_block_of(a, 1);
    const struct attention_head &h = block.head;
    uint32_t queries = block.shorter * BANDS * TILE;
    uint32_t end = queries + BANDS * TILE < a.T ? queries + BANDS * TILE : a.T;
    uint32_t start = attention_first_keys(a, queries) * TILE;
    struct warp_rows<BANDS, WIDTH> q;
    struct half_progress<BANDS, WIDTH> p = {
    };
    for (int band = 0; band < BANDS; band++)
        p.max[band][0] = p.max[band][1] = -INFINITY;
    half_part_copy(a, h, KERNEL_Q, queries, shared->start.q);
    copy_group();
    half_keys_copy(a, h, start, shared->keys[0]);
    copy_wait<1>();
    __syncthreads();
    half_rows_turn(a, queries, shared->start.q);
    warp_rows_load(shared->start.q, q);
    for (uint32_t keys = start; keys < end; keys += TILE) {
        struct half_keys<WIDTH> &tile = shared->keys[(keys - start) / TILE % 2];
        copy_wait<0>();
        __syncthreads();
        if (keys + TILE < end)
            half_keys_copy(a, h, keys + TILE, shared->keys[((keys - start) / TILE + 1) % 2]);
        half_rows_turn(a, keys, tile.k);
        compute(a, h, q, queries, keys, tile, p);
    }
    store(a, h, queries, p);
}

template <int BANDS, int WIDTH>
static void launch_width(const struct cuda_context *cuda, const struct attention &a)
{
    static_assert(sizeof(union half_forward_shared<BANDS, WIDTH>) <= SHARED_BYTES, "every GPU's");
    launch(half_forward_kernel<BANDS, WIDTH>, half_grid<BANDS>(a, a.heads), HALF_THREADS,
           sizeof(union half_forward_shared<BANDS, WIDTH>), cuda->stream, a);
}

void attention_half_forward_launch(const struct cuda_context *cuda, const struct attention &a)
{
    /* Heads wider than 64 leave no registers for two bands. */
    if (a.D > 64)
        launch_width<1, 128>(cuda, a);
    else if (half_blocks_small(cuda, a))
        launch_width<1, 64>(cuda, a);
    else
        launch_width<2, 64>(cuda, a);
}
