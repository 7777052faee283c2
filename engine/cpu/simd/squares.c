/* Sums of squares in fp64: a square of an fp32 is exact there. */
#include "engine/cpu/pairwise.h"
#include "engine/cpu/simd/loops.h"
#include "engine/cpu/simd/tile.h"

static void add_squares(double sum[SIMD_TILE], const float tile[SIMD_TILE])
{
    for (int i = 0; i < SIMD_TILE; i++)
        sum[i] += (double)tile[i] * (double)tile[i];
}

static uint64_t block_end(const struct simd_squares *a, uint64_t block)
{
    uint64_t end = (block + 1) * a->block;
    return end < a->elements ? end : a->elements;
}

static uint32_t tile_elements(uint64_t first, uint64_t end)
{
    return end - first < SIMD_TILE ? (uint32_t)(end - first) : SIMD_TILE;
}

void SIMD(squares)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_squares *a = arguments;
    for (uint64_t block = first; block < end; block++) {
        _Alignas(64) double sum[SIMD_TILE] = {0};
        for (uint64_t e = block * a->block; e < block_end(a, block); e += SIMD_TILE) {
            tile_fp32 tile;
            tile_load(a->precision, a->values, e, tile_elements(e, block_end(a, block)), 0, tile);
            add_squares(sum, tile);
        }
        a->sums[block] = pairwise_sum(SIMD_TILE, sum);
    }
}

void SIMD(round_squares)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_squares *a = arguments;
    for (uint64_t block = first; block < end; block++) {
        _Alignas(64) double sum[SIMD_TILE] = {0};
        for (uint64_t e = block * a->block; e < block_end(a, block); e += SIMD_TILE) {
            uint32_t count = tile_elements(e, block_end(a, block));
            tile_fp32 tile;
            tile_load(MODEL_FP32, a->values, e, count, 0, tile);
            tile_store_bf16(a->rounded + e, count, tile);
            for (int i = 0; i < SIMD_TILE; i++)
                tile[i] = bf16_widen(bf16_round(tile[i]));
            add_squares(sum, tile);
        }
        a->sums[block] = pairwise_sum(SIMD_TILE, sum);
    }
}
