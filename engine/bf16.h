/* bf16 is the upper half of an fp32. Rounding is to nearest, ties away from zero in magnitude, so
 * that the half that is kept and the half that is dropped together give the fp32 back exactly. */
#ifndef PSTAR_ENGINE_BF16_H
#define PSTAR_ENGINE_BF16_H

#include "engine/host_device.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

HOST_DEVICE static inline float bf16_widen(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A NaN stays a NaN and becomes quiet, because adding to its bits could carry into an infinity or a
 * number. Here and in bf16_join the halves are computed separately, since registers hold twice as
 * many of them. */
HOST_DEVICE static inline uint16_t bf16_round(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t upper = (uint16_t)(bits >> 16), lower = (uint16_t)bits;
    uint16_t rounded = (uint16_t)(upper + (lower >> 15)), quiet = upper | 0x40u;
    return isnan(value) ? quiet : rounded;
}

/* Returns the half that rounding drops. */
HOST_DEVICE static inline uint16_t bf16_rest(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)bits;
}

/* Returns the fp32 that bf16_round and bf16_rest came from. Where the rest is half or more,
 * rounding went up. Exact for every number and both infinities; a NaN comes back quiet, as
 * arithmetic would make it. */
HOST_DEVICE static inline float bf16_join(uint16_t half, uint16_t rest)
{
    bool is_nan = (half & 0x7fffu) > 0x7f80u;
    uint16_t upper = (uint16_t)(half - (is_nan ? 0 : rest >> 15));
    uint32_t bits = (uint32_t)upper << 16 | rest;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
