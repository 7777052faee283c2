#include "engine/gelu.h"
#include "engine/cpu/simd/loops.h"
#include "engine/cpu/simd/tile.h"

static uint32_t elements_in_tile(uint64_t first, uint64_t end)
{
    return end - first < SIMD_TILE ? (uint32_t)(end - first) : SIMD_TILE;
}

void SIMD(gelu_forward)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_gelu *a = arguments;
    for (uint64_t e = first; e < end; e += SIMD_TILE) {
        uint32_t count = elements_in_tile(e, end);
        tile_fp32 x;
        tile_load(a->precision, a->pre, e, count, 0, x);
        for (int i = 0; i < SIMD_TILE; i++)
            x[i] = gelu(x[i]);
        tile_store(a->precision, a->y, e, count, x);
    }
}

void SIMD(gelu_backward)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_gelu *a = arguments;
    for (uint64_t e = first; e < end; e += SIMD_TILE) {
        uint32_t count = elements_in_tile(e, end);
        tile_fp32 x, dy;
        tile_load(a->precision, a->pre, e, count, 0, x);
        tile_load(a->precision, a->y, e, count, 0, dy);
        for (int i = 0; i < SIMD_TILE; i++)
            dy[i] *= gelu_slope(x[i]);
        tile_store(a->precision, a->y, e, count, dy);
    }
}
