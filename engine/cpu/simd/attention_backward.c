/* With P the probabilities, M the dropout's mask and scale, O = (M P) V: dV = (M P)^T dO,
 * dP = M (dO V^T), dS = P (dP - delta), delta the row sums of dO O, dQ = scale dS K,
 * dK = dS^T (scale Q). */
#include "engine/cpu/simd/attention.h"
#include "engine/cpu/simd/loops.h"
#include "engine/exponential.h"

struct query_tile {
    uint32_t tile, count;
    attention_rows q, dout; /* q times the scale */
    tile_fp32 delta, lse;
};

struct key_tile {
    uint32_t tile, count;
    attention_columns k, v;
};

/* Of a tile of queries and one of keys. */
struct pair {
    struct attention_scores p, ds; /* M P and dS */
};

static float row_delta(const struct attention_head *h, const float *dout, uint64_t o)
{
    tile_fp32 sum = {0};
    for (uint32_t d = 0; d < h->arguments->D; d += SIMD_TILE) {
        uint32_t left = h->arguments->D - d, count = left < SIMD_TILE ? left : SIMD_TILE;
        tile_fp32 tile, gradient = {0};
        tile_load(h->arguments->precision, h->arguments->o_read, o + d, count, 0, tile);
        tile_load_fp32(dout + d, count, gradient);
        for (int i = 0; i < SIMD_TILE; i++)
            sum[i] = fmaf(tile[i], gradient[i], sum[i]);
    }
    return tile_sum(sum);
}

static void load_queries(const struct attention_head *h, uint32_t tile, struct query_tile *queries)
{
    const struct simd_attention *a = h->arguments;
    queries->tile = tile;
    queries->count = attention_rows_in(h, tile);
    attention_load(h, ATTENTION_Q, tile, attention_scale(a), queries->q);
    for (uint32_t r = 0; r < queries->count; r++) {
        uint32_t t = tile * SIMD_TILE + r;
        float *dout = queries->dout + r * h->padded;
        attention_load_row(h, a->dout, attention_o_at(h, t), 1, dout);
        queries->delta[r] = row_delta(h, dout, attention_o_at(h, t));
        queries->lse[r] = a->lse_read[h->head * a->T + t];
    }
}

/* k in rows, too. */
static void load_keys(const struct attention_head *h, uint32_t tile, struct key_tile *keys,
                      float *k)
{
    float *v = k;
    keys->tile = tile;
    keys->count = attention_rows_in(h, tile);
    attention_load(h, ATTENTION_V, tile, 1, v);
    attention_transpose(h, v, keys->v);
    attention_load(h, ATTENTION_K, tile, 1, k);
    attention_transpose(h, k, keys->k);
}

/* Of one query: p holds the scores and ds the gradient of what was dropped out of. */
static void compute_row(const struct attention_head *h, const struct query_tile *queries,
                        uint32_t r, uint32_t keys, float p[SIMD_TILE], float ds[SIMD_TILE])
{
    bool drops = dropout_drops(&h->arguments->dropout);
    tile_fp32 factors;
    for (uint32_t i = attention_visible(queries->tile, r, keys); i < SIMD_TILE; i++)
        p[i] = -INFINITY;
    if (drops) {
        attention_factors(h, queries->tile * SIMD_TILE + r, keys, factors);
        tile_multiply(ds, factors);
    }
    for (int i = 0; i < SIMD_TILE; i++) {
        p[i] = exponential(p[i] - queries->lse[r]);
        ds[i] = p[i] * (ds[i] - queries->delta[r]);
    }
    if (drops)
        tile_multiply(p, factors);
}

static void compute_pair(const struct attention_head *h, const struct query_tile *queries,
                         const struct key_tile *keys, struct pair *pair)
{
    attention_product(h, queries->count, queries->q, keys->k, &pair->p);
    attention_product(h, queries->count, queries->dout, keys->v, &pair->ds);
    for (uint32_t r = 0; r < queries->count; r++)
        compute_row(h, queries, r, keys->tile, pair->p.at[r], pair->ds.at[r]);
}

static void backward_queries(const struct attention_head *h, uint32_t tile)
{
    const struct simd_attention *a = h->arguments;
    struct query_tile queries;
    struct key_tile keys;
    attention_rows k, dq;
    struct pair pair;
    load_queries(h, tile, &queries);
    memset(dq, 0, queries.count * h->padded * sizeof *dq);
    for (uint32_t j = 0; j <= tile; j++) {
        load_keys(h, j, &keys, k);
        compute_pair(h, &queries, &keys, &pair);
        product_add(queries.count, h->padded, keys.count,
                    (struct product_operand){pair.ds.at[0], SIMD_TILE, 1}, k, h->padded, dq,
                    h->padded);
    }
    for (uint32_t r = 0; r < queries.count; r++)
        attention_store_row(h, a->dqkv, attention_qkv_at(h, ATTENTION_Q, tile * SIMD_TILE + r),
                            attention_scale(a), dq + r * h->padded);
}

static void backward_keys(const struct attention_head *h, uint32_t tile)
{
    const struct simd_attention *a = h->arguments;
    struct query_tile queries;
    struct key_tile keys;
    attention_rows dk, dv;
    struct pair pair;
    load_keys(h, tile, &keys, dk);
    memset(dk, 0, keys.count * h->padded * sizeof *dk);
    memset(dv, 0, keys.count * h->padded * sizeof *dv);
    for (uint32_t i = tile; i < h->tiles; i++) {
        load_queries(h, i, &queries);
        compute_pair(h, &queries, &keys, &pair);
        product_add(keys.count, h->padded, queries.count,
                    (struct product_operand){pair.p.at[0], 1, SIMD_TILE}, queries.dout, h->padded,
                    dv, h->padded);
        product_add(keys.count, h->padded, queries.count,
                    (struct product_operand){pair.ds.at[0], 1, SIMD_TILE}, queries.q, h->padded, dk,
                    h->padded);
    }
    for (uint32_t r = 0; r < keys.count; r++) {
        uint32_t t = tile * SIMD_TILE + r;
        attention_store_row(h, a->dqkv, attention_qkv_at(h, ATTENTION_K, t), 1, dk + r * h->padded);
        attention_store_row(h, a->dqkv, attention_qkv_at(h, ATTENTION_V, t), 1, dv + r * h->padded);
    }
}

void SIMD(attention_backward_queries)(const void *arguments, uint64_t first, uint64_t end)
{
    for (uint64_t item = first; item < end; item++) {
        uint32_t tile;
        struct attention_head head = attention_head_of(arguments, item, &tile);
        backward_queries(&head, tile);
    }
}

void SIMD(attention_backward_keys)(const void *arguments, uint64_t first, uint64_t end)
{
    for (uint64_t item = first; item < end; item++) {
        uint32_t tile;
        struct attention_head head = attention_head_of(arguments, item, &tile);
        backward_keys(&head, tile);
    }
}
