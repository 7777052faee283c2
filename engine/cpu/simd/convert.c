#include "engine/bf16.h"
#include "engine/cpu/simd/loops.h"

void SIMD(round)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_convert *a = arguments;
    const float *restrict from = a->from;
    uint16_t *restrict to = a->to;
    for (uint64_t i = first; i < end; i++)
        to[i] = bf16_round(from[i]);
}

void SIMD(widen)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_convert *a = arguments;
    const uint16_t *restrict from = a->from;
    float *restrict to = a->to;
    for (uint64_t i = first; i < end; i++)
        to[i] = bf16_widen(from[i]);
}
