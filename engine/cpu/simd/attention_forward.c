#include "engine/cpu/simd/attention.h"
#include "engine/cpu/simd/loops.h"
#include "engine/exponential.h"

/* What a tile of queries has seen so far: the greatest score, the sum of the exponentials relative
 * to it, and the values weighted by them. */
struct progress {
    tile_fp32 max, sum;
    attention_rows o;
};

/* The scores of row r become exponentials relative to the new maximum; what was summed relative to
 * the old one is scaled. */
static void advance(const struct attention_head *h, struct progress *p, uint32_t queries,
                    uint32_t r, uint32_t keys, float scores[SIMD_TILE])
{
    for (uint32_t i = attention_visible(queries, r, keys); i < SIMD_TILE; i++)
        scores[i] = -INFINITY;
    float greatest = tile_max(scores);
    float max = greatest > p->max[r] ? greatest : p->max[r];
    float old = exponential(p->max[r] - max);
    for (int i = 0; i < SIMD_TILE; i++)
        scores[i] = exponential(scores[i] - max);
    p->max[r] = max;
    p->sum[r] = fmaf(p->sum[r], old, tile_sum(scores));
    float *o = p->o + r * h->padded;
    for (uint32_t d = 0; d < h->padded; d++)
        o[d] *= old;
    if (dropout_drops(&h->arguments->dropout)) {
        tile_fp32 factors;
        attention_factors(h, queries * SIMD_TILE + r, keys, factors);
        tile_multiply(scores, factors);
    }
}

static void store(const struct attention_head *h, const struct progress *p, uint32_t queries)
{
    const struct simd_attention *a = h->arguments;
    for (uint32_t r = 0; r < attention_rows_in(h, queries); r++) {
        uint32_t t = queries * SIMD_TILE + r;
        attention_store_row(h, a->o, attention_o_at(h, t), 1 / p->sum[r], p->o + r * h->padded);
        a->lse[h->head * a->T + t] = (float)((double)p->max[r] + log((double)p->sum[r]));
    }
}

static void forward(const struct attention_head *h, uint32_t queries)
{
    struct progress p;
    attention_rows q, rows;
    attention_columns k;
    struct attention_scores scores;
    uint32_t count = attention_rows_in(h, queries);
    attention_load(h, ATTENTION_Q, queries, attention_scale(h->arguments), q);
    tile_fill(p.max, -INFINITY);
    tile_fill(p.sum, 0);
    memset(p.o, 0, count * h->padded * sizeof *p.o);
    for (uint32_t keys = 0; keys <= queries; keys++) {
        attention_load(h, ATTENTION_K, keys, 1, rows);
        attention_transpose(h, rows, k);
        attention_product(h, count, q, k, &scores);
        for (uint32_t r = 0; r < count; r++)
            advance(h, &p, queries, r, keys, scores.at[r]);
        attention_load(h, ATTENTION_V, keys, 1, rows);
        product_add(count, h->padded, attention_rows_in(h, keys),
                    (struct product_operand){scores.at[0], SIMD_TILE, 1}, rows, h->padded, p.o,
                    h->padded);
    }
    store(h, &p, queries);
}

void SIMD(attention_forward)(const void *arguments, uint64_t first, uint64_t end)
{
    for (uint64_t item = first; item < end; item++) {
        uint32_t queries;
        struct attention_head head = attention_head_of(arguments, item, &queries);
        forward(&head, queries);
    }
}
