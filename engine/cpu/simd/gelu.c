/* GELU in its tanh form (Hendrycks, Gimpel 2016): with u = sqrt(2/pi) (x + 0.044715 x^3),
 * (1 + tanh u) / 2 = 1 / (1 + exp(-2u)) = s, so y = x s and y' = s + x s (1 - s) 2u'. */
#include "engine/cpu/simd/exponential.h"
#include "engine/cpu/simd/loops.h"
#include "engine/cpu/simd/tile.h"

static const float twice_root = 1.595769121605731f; /* 2 sqrt(2/pi) */
static const float cubic = 0.044715f;

static inline float gate(float x)
{
    float twice_u = twice_root * x * fmaf(cubic * x, x, 1);
    float e = exponential(twice_u < -88 ? 88 : -twice_u);
    return 1 / (1 + e);
}

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
            x[i] *= gate(x[i]);
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
        for (int i = 0; i < SIMD_TILE; i++) {
            float s = gate(x[i]);
            float twice_slope = twice_root * fmaf(3 * cubic * x[i], x[i], 1);
            dy[i] *= fmaf(x[i] * s * (1 - s), twice_slope, s);
        }
        tile_store(a->precision, a->y, e, count, dy);
    }
}
