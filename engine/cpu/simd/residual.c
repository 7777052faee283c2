#include "engine/cpu/simd/dropout.h"
#include "engine/cpu/simd/loops.h"

void SIMD(residual)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_residual *a = arguments;
    uint32_t tiles = simd_tiles(a->H);
    for (uint64_t n = first; n < end; n++)
        for (uint32_t t = 0; t < tiles; t++) {
            struct tile_span span = tile_of(t, a->H);
            uint64_t element = n * a->H + span.first;
            tile_fp32 y, residual;
            tile_load(a->precision, a->from, element, span.count, 0, y);
            dropout_tile(&a->dropout, n, tiles, t, y);
            if (a->residual) {
                tile_load(a->precision, a->residual, element, span.count, 0, residual);
                tile_add(y, residual);
            }
            tile_store(a->precision, a->y, element, span.count, y);
        }
}
