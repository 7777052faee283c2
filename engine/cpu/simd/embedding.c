#include "engine/cpu/simd/dropout.h"
#include "engine/cpu/simd/loops.h"

void SIMD(embed_forward)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_embed_forward *a = arguments;
    uint32_t tiles = simd_tiles(a->H);
    for (uint64_t n = first; n < end; n++) {
        uint64_t token = (uint64_t)a->tokens[n] * a->H, position = n % a->T * a->H;
        for (uint32_t t = 0; t < tiles; t++) {
            struct tile_span span = tile_of(t, a->H);
            tile_fp32 x, p;
            tile_load(a->precision, a->wte, token + span.first, span.count, 0, x);
            tile_load(a->precision, a->wpe, position + span.first, span.count, 0, p);
            tile_add(x, p);
            dropout_tile(&a->dropout, n, tiles, t, x);
            tile_store(a->precision, a->x, n * a->H + span.first, span.count, x);
        }
    }
}

/* Tile `t` of one row of dx, under the forward's mask, is added to `sum`. */
static void add_gradient(enum model_precision precision, uint32_t H, const void *dx,
                         const struct simd_dropout *dropout, uint64_t row, uint32_t t,
                         float sum[SIMD_TILE])
{
    struct tile_span span = tile_of(t, H);
    tile_fp32 dy;
    tile_load(precision, dx, row * H + span.first, span.count, 0, dy);
    dropout_tile(dropout, row, simd_tiles(H), t, dy);
    tile_add(sum, dy);
}

void SIMD(embed_tokens)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_embed_tokens *a = arguments;
    for (uint32_t t = (uint32_t)first; t < end; t++) {
        struct tile_span span = tile_of(t, a->H);
        for (uint32_t i = 0; i < a->N;) {
            uint64_t token = a->order[i] >> 32;
            tile_fp32 sum = {0};
            for (; i < a->N && a->order[i] >> 32 == token; i++)
                add_gradient(a->precision, a->H, a->dx, &a->dropout, (uint32_t)a->order[i], t, sum);
            tile_store_gradient(a->gradient, a->dwte, token * a->H + span.first, span.count, sum);
        }
    }
}

void SIMD(embed_positions)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_embed_positions *a = arguments;
    uint32_t tiles = simd_tiles(a->H);
    for (uint64_t position = first; position < end; position++)
        for (uint32_t t = 0; t < tiles; t++) {
            struct tile_span span = tile_of(t, a->H);
            tile_fp32 sum = {0};
            for (uint32_t b = 0; b < a->B; b++)
                add_gradient(a->precision, a->H, a->dx, &a->dropout, (uint64_t)b * a->T + position,
                             t, sum);
            tile_store_gradient(a->gradient, a->dwpe, position * a->H + span.first, span.count,
                                sum);
        }
}
