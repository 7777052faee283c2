/* Attention by tiles of 64 queries and 64 keys of one head, in fp32 on the thread's stack
 * (Dao et al., FlashAttention, NeurIPS 2022; the backward in two passes, by tiles of queries for dq
 * and by tiles of keys for dk and dv, so that nothing is summed across threads). */
#ifndef PSTAR_ENGINE_CPU_SIMD_ATTENTION_H
#define PSTAR_ENGINE_CPU_SIMD_ATTENTION_H

#include "engine/cpu/simd/dropout.h"
#include "engine/cpu/simd/product.h"
#include "engine/cpu/simd/square.h"

enum {
    HEAD_STEP = 32, /* heads are padded with zeros to a multiple of it */
    HEAD_LIMIT = CPU_HEAD_LIMIT,
};

/* One head of one sequence. */
struct attention_head {
    const struct simd_attention *arguments;
    uint64_t head; /* b*A + a */
    uint64_t row;  /* of the sequence's first token */
    uint32_t padded, tiles;
};

/* Rows of a tile in fp32: [64, padded], zeros behind the sequence's end and behind D. */
typedef float attention_rows[SIMD_TILE * HEAD_LIMIT] __attribute__((aligned(64)));

/* The same transposed: [padded, 64]. */
typedef float attention_columns[SIMD_TILE * HEAD_LIMIT] __attribute__((aligned(64)));

struct attention_scores {
    _Alignas(64) float at[SIMD_TILE][SIMD_TILE]; /* query, key */
};

enum attention_part { ATTENTION_Q, ATTENTION_K, ATTENTION_V };

static inline float attention_scale(const struct simd_attention *a)
{
    return 1 / sqrtf((float)a->D);
}

/* The head and the tile of an item. */
static inline struct attention_head attention_head_of(const struct simd_attention *arguments,
                                                      uint64_t item, uint32_t *tile)
{
    uint32_t tiles = simd_tiles(arguments->T);
    uint64_t head = item / tiles;
    *tile = (uint32_t)(item % tiles);
    return (struct attention_head){
        .arguments = arguments,
        .head = head,
        .row = head / arguments->A * arguments->T,
        .padded = (arguments->D + HEAD_STEP - 1) / HEAD_STEP * HEAD_STEP,
        .tiles = tiles,
    };
}

/* The first element of the head's part in row `t` of the sequence, of qkv and of o. */
static inline uint64_t attention_qkv_at(const struct attention_head *h, enum attention_part part,
                                        uint32_t t)
{
    const struct simd_attention *a = h->arguments;
    return (h->row + t) * 3 * a->A * a->D + ((uint64_t)part * a->A + h->head % a->A) * a->D;
}

static inline uint64_t attention_o_at(const struct attention_head *h, uint32_t t)
{
    const struct simd_attention *a = h->arguments;
    return (h->row + t) * a->A * a->D + h->head % a->A * a->D;
}

/* One row of D elements, times `scale`, with zeros to `padded`. */
static inline void attention_load_row(const struct attention_head *h, const void *from,
                                      uint64_t element, float scale, float *row)
{
    for (uint32_t d = 0; d < h->padded; d += SIMD_TILE) {
        uint32_t D = h->arguments->D;
        uint32_t left = d < D ? D - d : 0, room = h->padded - d;
        tile_fp32 tile;
        tile_load(h->arguments->precision, from, element + d, left < SIMD_TILE ? left : SIMD_TILE,
                  0, tile);
        for (uint32_t i = 0; i < SIMD_TILE; i++)
            tile[i] *= scale;
        tile_store_fp32(row + d, room < SIMD_TILE ? room : SIMD_TILE, tile);
    }
}

static inline void attention_store_row(const struct attention_head *h, void *to, uint64_t element,
                                       float scale, const float *row)
{
    uint32_t D = h->arguments->D;
    for (uint32_t d = 0; d < D; d += SIMD_TILE) {
        uint32_t count = D - d < SIMD_TILE ? D - d : SIMD_TILE;
        tile_fp32 tile;
        tile_load_fp32(row + d, count, tile);
        for (uint32_t i = 0; i < count; i++)
            tile[i] *= scale;
        tile_store(h->arguments->precision, to, element + d, count, tile);
    }
}

static inline uint32_t attention_rows_in(const struct attention_head *h, uint32_t tile)
{
    return tile_of(tile, h->arguments->T).count;
}

static inline void attention_load(const struct attention_head *h, enum attention_part part,
                                  uint32_t tile, float scale, attention_rows rows)
{
    uint32_t count = attention_rows_in(h, tile);
    for (uint32_t r = 0; r < count; r++)
        attention_load_row(h, h->arguments->qkv, attention_qkv_at(h, part, tile * SIMD_TILE + r),
                           scale, rows + r * h->padded);
    memset(rows + count * h->padded, 0, (SIMD_TILE - count) * h->padded * sizeof *rows);
}

static inline void attention_transpose(const struct attention_head *h, const attention_rows rows,
                                       attention_columns columns)
{
    for (uint32_t r = 0; r < SIMD_TILE; r += SQUARE)
        for (uint32_t d = 0; d < h->padded; d += SQUARE)
            square_transpose(rows + r * h->padded + d, h->padded, columns + d * SIMD_TILE + r,
                             SIMD_TILE);
}

/* scores = rows columns, of the first `count` rows. */
static inline void attention_product(const struct attention_head *h, uint32_t count,
                                     const attention_rows rows, const attention_columns columns,
                                     struct attention_scores *scores)
{
    memset(scores, 0, count * sizeof scores->at[0]);
    product_add(count, SIMD_TILE, h->arguments->D, (struct product_operand){rows, h->padded, 1},
                columns, SIMD_TILE, scores->at[0], SIMD_TILE);
}

/* How many keys of tile `keys` the query in row `r` of tile `queries` attends to. */
static inline uint32_t attention_visible(uint32_t queries, uint32_t r, uint32_t keys)
{
    return keys < queries ? SIMD_TILE : r + 1;
}

/* The dropout's factors for the probabilities of one query and a tile of keys. */
static inline void attention_factors(const struct attention_head *h, uint32_t query, uint32_t keys,
                                     float factors[SIMD_TILE])
{
    const struct simd_attention *a = h->arguments;
    dropout_factors(&a->dropout, h->head * a->T + query, h->tiles, keys, factors);
}

#endif
