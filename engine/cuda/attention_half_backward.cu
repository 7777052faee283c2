/* The backward on tensor cores; engine/cuda/attention_fp32.cu has the formulas. For dk and dv the
 * products are of keys by queries, so that P and dS transposed are rows of a warp. */
#include "engine/cuda/attention.h"
#include "engine/cuda/attention_half.h"

/* Columns at a time. Registers allow no more. */
enum { QUERIES_SLICE = 32, KEYS_SLICE = 16 };

/* The rows soon go to registers, and the tiles then take their place. */
template <int BANDS, int WIDTH> union half_queries_shared {
    struct {
        struct half_rows<BANDS * TILE, WIDTH> q, dout;
    } rows;
    struct half_keys<WIDTH> keys[2];
};

/* Values of the lane's rows. */
template <int BANDS> struct row_values {
    float lse[BANDS][LANE_ROWS], delta[BANDS][LANE_ROWS]; /* lse times log2(e) */
};

template <int BANDS>
__device__ inline struct row_values<BANDS>
row_values_of(const struct attention &a, const struct attention_head &h, uint32_t queries) {
    struct row_values<BANDS> values = {
    };
#pragma unroll
    for (int band = 0; band < BANDS; band++)
        for (int i = 0; i < LANE_ROWS; i++) {
            uint32_t t = queries + lane_row<BANDS>(band, i);
            if (t < a.T) {
                values.lse[band][i] = a.lse_read[(uint64_t)h.head * a.T + t] * LOG2_E;
                values.delta[band][i] = *attention_delta_at(a, h, t);
            }
        }
    return values;
}

/* Computes dS of the scores and of the gradient after the dropout. */
template <int COLUMNS, int BANDS>
__device__ inline void queries_gradient(float scale, const struct row_values<BANDS> &values,
                                        const struct warp_sums<BANDS, COLUMNS> &s,
                                        struct warp_sums<BANDS, COLUMNS> &ds)
{
#pragma unroll
    for (int band = 0; band < BANDS; band++)
#pragma unroll
        for (int f = 0; f < COLUMNS / FRAGMENT; f++)
            for (int e = 0; e < 4; e++) {
                float p = power_of_two(fmaf(s.at[band][f][e], scale, -values.lse[band][e / 2]));
                ds.at[band][f][e] = p * (ds.at[band][f][e] - values.delta[band][e / 2]);
            }
}

/* Adds dS K of a slice of a tile of keys to dq. */
template <int BANDS, int WIDTH>
__device__ inline void
queries_slice(const struct attention &a, const struct attention_head &h,
              const struct warp_rows<BANDS, WIDTH> &q, const struct warp_rows<BANDS, WIDTH> &dout,
              const struct row_values<BANDS> &values, uint32_t queries, uint32_t keys,
              const struct half_keys<WIDTH> &tile, int slice, struct warp_sums<BANDS, WIDTH> &dq)
{
    struct warp_sums<BANDS, QUERIES_SLICE> s, ds;
    s = warp_product<QUERIES_SLICE>(q, tile.k, slice);
    ds = warp_product<QUERIES_SLICE>(dout, tile.v, slice);
    if (!sees_all(a, queries_lateness<BANDS>(queries, keys)))
        scores_mask<false>((int)a.window, scores_ahead<QUERIES_SLICE, BANDS>(queries, keys, slice),
                           s);
    queries_drop(a, h, queries, keys, slice, ds);
    queries_gradient(a.scale * LOG2_E, values, s, ds);
    warp_product_add(ds, tile.k, slice, dq);
}

/* The last queries take longest, because they have the most keys. The next keys are copied while
 * these are computed. */
template <int BANDS, int WIDTH>
__global__ void __launch_bounds__(HALF_THREADS) half_queries_kernel(struct attention a)
{
    union half_queries_shared<BANDS, WIDTH> *shared =
        (union half_queries_shared<BANDS, WIDTH> *)shared_memory();
    struct half_block block = half_block_of(a, 1);
    const struct attention_head &h = block.head;
    uint32_t queries = block.shorter * BANDS * TILE;
    uint32_t end = queries + BANDS * TILE < a.T ? queries + BANDS * TILE : a.T;
    uint32_t start = attention_first_keys(a, queries) * TILE;
    struct warp_rows<BANDS, WIDTH> q, dout;
    struct warp_sums<BANDS, WIDTH> dq = {
    };
    half_part_copy(a, h, KERNEL_Q, queries, shared->rows.q);
    half_dout_copy(a, h, queries, shared->rows.dout);
    copy_group();
    struct row_values<BANDS> values = row_values_of<BANDS>(a, h, queries);
    copy_wait<0>();
    __syncthreads();
    half_rows_turn(a, queries, shared->rows.q);
    warp_rows_load(shared->rows.q, q);
    warp_rows_load(shared->rows.dout, dout);
    __syncthreads();
    half_keys_copy(a, h, start, shared->keys[start / TILE % 2]);
    for (uint32_t keys = start; keys < end; keys += TILE) {
        struct half_keys<WIDTH> &tile = shared->keys[keys / TILE % 2];
        copy_wait<0>();
        __syncthreads();
        if (keys + TILE < end)
            half_keys_copy(a, h, keys + TILE, shared->keys[(keys / TILE + 1) % 2]);
        half_rows_turn(a, keys, tile.k);
        if (sees_none(a, queries_lateness<BANDS>(queries, keys)))
            continue;
#pragma unroll 1
        for (int slice = 0; slice < TILE / QUERIES_SLICE; slice++)
            queries_slice(a, h, q, dout, values, queries, keys, tile, slice, dq);
    }
    half_part_store(a, h, KERNEL_Q, queries, a.scale, dq);
}

/* A tile of queries, with their values. */
template <int BANDS, int WIDTH> struct half_queries {
    struct half_rows<TILE, WIDTH> q, dout;
    float lse[TILE], delta[TILE];
    uint32_t stays[TILE / 2][HALF_WARPS * BANDS]; /* one bit for each of two queries and 16 keys */
};

template <int BANDS, int WIDTH> union half_keys_shared {
    struct {
        struct half_rows<BANDS * TILE, WIDTH> k, v;
    } rows;
    struct half_queries<BANDS, WIDTH> queries[2];
};

template <int BANDS, int WIDTH>
__device__ inline void half_queries_copy(const struct attention &a, const struct attention_head &h,
                                         uint32_t queries, struct half_queries<BANDS, WIDTH> &tile)
{
    struct attention_head again = {afresh(h.head), h.row, h.a, h.shared}; /* spares registers */
    uint32_t t = queries + threadIdx.x % TILE;
    half_part_copy(a, h, KERNEL_Q, queries, tile.q);
    half_dout_copy(a, h, queries, tile.dout);
    if (threadIdx.x < TILE)
        copy_start_word(&tile.lse[t - queries], a.lse_read + (uint64_t)again.head * a.T + t,
                        t < a.T);
    else
        copy_start_word(&tile.delta[t - queries], attention_delta_at(a, again, t), t < a.T);
    copy_group();
}

/* A warp draws for two queries and 64 keys at a time. Each lane draws one counter, for four keys 16
 * apart. */
template <int BANDS, int WIDTH>
__device__ inline void draw(struct attention a, const struct attention_head &h, uint32_t queries,
                            uint32_t keys, struct half_queries<BANDS, WIDTH> &tile)
{
    unsigned lane = threadIdx.x % WARP;
    if (a.dropout.scale == 0)
        return;
    a.dropout.stream.seed ^= afresh(0); /* keeps the rounds' keys out of registers */
    for (unsigned i = threadIdx.x / WARP; i < TILE / 2 * BANDS; i += HALF_WARPS) {
        float factors[4];
        uint32_t query = queries + i / BANDS * 2 + lane / TILE_COUNTERS;
        attention_factors(a, h, query, keys / TILE + i % BANDS, lane % TILE_COUNTERS, factors);
        for (int w = 0; w < 4; w++) {
            uint32_t stays = __ballot_sync(WHOLE_WARP, factors[w] != 0);
            if (lane == 0)
                tile.stays[i / BANDS][i % BANDS * 4 + w] = stays;
        }
    }
}

/* Applies the dropout's factors to keys' rows. */
template <int COLUMNS, int BANDS, int WIDTH>
__device__ inline void keys_drop(const struct attention &a,
                                 const struct half_queries<BANDS, WIDTH> &tile, int slice,
                                 struct warp_sums<BANDS, COLUMNS> &s)
{
    if (a.dropout.scale == 0)
        return;
#pragma unroll
    for (int band = 0; band < BANDS; band++)
#pragma unroll
        for (int f = 0; f < COLUMNS / FRAGMENT; f++) {
            const uint32_t *stays = tile.stays[score_column<COLUMNS>(slice, f) / 2];
            uint32_t mine = stays[warp_row<BANDS>() / BAND + band] >> threadIdx.x % WARP / 4;
            for (int e = 0; e < 4; e++)
                s.at[band][f][e] *= mine >> (e % 2 * TILE_COUNTERS + e / 2 * 8) & 1
                                        ? a.dropout.scale
                                        : 0;
        }
}

/* Turns the scores into P, transposed. */
template <int COLUMNS, int BANDS>
__device__ inline void keys_probabilities(float scale, const float lse[TILE], int slice,
                                          struct warp_sums<BANDS, COLUMNS> &s)
{
#pragma unroll
    for (int f = 0; f < COLUMNS / FRAGMENT; f++)
        for (int e = 0; e < 2; e++) {
            float whole = lse[score_column<COLUMNS>(slice, f) + e] * LOG2_E;
#pragma unroll
            for (int band = 0; band < BANDS; band++)
                for (int i = e; i < 4; i += 2)
                    s.at[band][f][i] = power_of_two(fmaf(s.at[band][f][i], scale, -whole));
        }
}

/* Turns the gradient after the dropout into dS, transposed. */
template <int COLUMNS, int BANDS>
__device__ inline void keys_gradient(const float delta[TILE], int slice,
                                     const struct warp_sums<BANDS, COLUMNS> &p,
                                     struct warp_sums<BANDS, COLUMNS> &ds)
{
#pragma unroll
    for (int f = 0; f < COLUMNS / FRAGMENT; f++)
        for (int e = 0; e < 2; e++) {
            float whole = delta[score_column<COLUMNS>(slice, f) + e];
#pragma unroll
            for (int band = 0; band < BANDS; band++)
                for (int i = e; i < 4; i += 2)
                    ds.at[band][f][i] = p.at[band][f][i] * (ds.at[band][f][i] - whole);
        }
}

/* Adds (M P)^T dO to dv and dS^T Q to dk, of a slice of a tile of queries. */
template <int BANDS, int WIDTH>
__device__ inline void
keys_slice(const struct attention &a, const struct warp_rows<BANDS, WIDTH> &k,
           const struct warp_rows<BANDS, WIDTH> &v, uint32_t keys, uint32_t queries,
           const struct half_queries<BANDS, WIDTH> &tile, int slice,
           struct warp_sums<BANDS, WIDTH> &dk, struct warp_sums<BANDS, WIDTH> &dv)
{
    struct warp_sums<BANDS, KEYS_SLICE> s, ds;
    s = warp_product<KEYS_SLICE>(k, tile.q, slice);
    ds = warp_product<KEYS_SLICE>(v, tile.dout, slice);
    if (!sees_all(a, keys_lateness<BANDS>(keys, queries)))
        scores_mask<true>((int)a.window, scores_ahead<KEYS_SLICE, BANDS>(keys, queries, slice), s);
    keys_probabilities(a.scale * LOG2_E, tile.lse, slice, s);
    keys_drop(a, tile, slice, ds);
    keys_gradient(tile.delta, slice, s, ds);
    keys_drop(a, tile, slice, s);
    warp_product_add(s, tile.dout, slice, dv);
    warp_product_add(ds, tile.q, slice, dk);
}

/* A tile of queries of one of a group's heads. */
struct group_place {
    struct attention_head head;
    uint32_t queries;
};

/* Starts copying and draws for the tile of queries at `place`. */
template <int BANDS, int WIDTH>
__device__ inline void prepare(const struct attention &a, const struct group_place &place,
                               uint32_t keys, struct half_queries<BANDS, WIDTH> &tile)
{
    half_queries_copy(a, place.head, place.queries, tile);
    draw(a, place.head, place.queries, keys, tile);
}

/* The first keys take longest, because most queries see them. The heads of a group come one after
 * the other. */
template <int BANDS, int WIDTH>
__global__ void __launch_bounds__(HALF_THREADS) half_keys_kernel(struct attention a)
{
    union half_keys_shared<BANDS, WIDTH> *shared =
        (union half_keys_shared<BANDS, WIDTH> *)shared_memory();
    struct half_block block = half_block_of(a, a.group);
    uint32_t keys = block.longer * BANDS * TILE;
    uint32_t end = attention_end_queries(a, keys + BANDS * TILE);
    uint32_t last_head = block.head.head + a.group - 1;
    struct group_place next = {block.head, keys};
    struct warp_rows<BANDS, WIDTH> k, v;
    struct warp_sums<BANDS, WIDTH> dk = {}, dv = {
    };
    half_part_copy(a, block.head, KERNEL_K, keys, shared->rows.k);
    half_part_copy(a, block.head, KERNEL_V, keys, shared->rows.v);
    copy_group();
    copy_wait<0>();
    __syncthreads();
    half_rows_turn(a, keys, shared->rows.k);
    warp_rows_load(shared->rows.k, k);
    warp_rows_load(shared->rows.v, v);
    __syncthreads();
    prepare(a, next, keys, shared->queries[0]);
    for (uint32_t n = 0; next.head.head <= last_head; n++) {
        struct half_queries<BANDS, WIDTH> &tile = shared->queries[n % 2];
        uint32_t queries = next.queries;
        copy_wait<0>();
        __syncthreads();
        next.queries += TILE;
        if (next.queries >= end) {
            next.queries = keys;
            next.head.head++;
            next.head.a++;
        }
        if (next.head.head <= last_head)
            prepare(a, next, keys, shared->queries[(n + 1) % 2]);
        half_rows_turn(a, queries, tile.q);
        if (sees_none(a, keys_lateness<BANDS>(keys, queries)))
            continue;
#pragma unroll 1
        for (int slice = 0; slice < TILE / KEYS_SLICE; slice++)
            keys_slice(a, k, v, keys, queries, tile, slice, dk, dv);
    }
    half_part_store(a, block.head, KERNEL_K, keys, a.scale, dk);
    half_part_store(a, block.head, KERNEL_V, keys, 1, dv);
}

template <int BANDS, int WIDTH>
static void launch_width(const struct cuda_context *cuda, const struct attention &a)
{
    static_assert(sizeof(union half_queries_shared<BANDS, WIDTH>) <= SHARED_BYTES, "every GPU's");
    static_assert(sizeof(union half_keys_shared<BANDS, WIDTH>) <= SHARED_BYTES, "every GPU's");
    static_assert(sizeof(struct turned_rows<BANDS, WIDTH>) <=
                          sizeof(union half_queries_shared<BANDS, WIDTH>) &&
                      sizeof(struct turned_rows<BANDS, WIDTH>) <=
                          sizeof(union half_keys_shared<BANDS, WIDTH>),
                  "sums turn back where rows were");
    launch(half_queries_kernel<BANDS, WIDTH>, half_grid<BANDS>(a, a.heads), HALF_THREADS,
           sizeof(union half_queries_shared<BANDS, WIDTH>), cuda->stream, a);
    launch(half_keys_kernel<BANDS, WIDTH>, half_grid<BANDS>(a, a.heads / a.group), HALF_THREADS,
           sizeof(union half_keys_shared<BANDS, WIDTH>), cuda->stream, a);
}

void attention_half_backward_launch(const struct cuda_context *cuda, const struct attention &a)
{
    /* Heads wider than 64 leave no registers for two bands. */
    if (a.D > 64)
        launch_width<1, 128>(cuda, a);
    else if (half_blocks_small(cuda, a))
        launch_width<1, 64>(cuda, a);
    else
        launch_width<2, 64>(cuda, a);
}
