/* bf16: the upper half of an fp32. Rounding is to nearest, ties away from zero in magnitude, so
 * that the half kept and the half dropped together give the fp32 back exactly. */
#ifndef PSTAR_ENGINE_BF16_H
#define PSTAR_ENGINE_BF16_H

#include "engine/host_device.h"
#include <stdint.h>
#include <string.h>

HOST_DEVICE static inline float bf16_widen(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A NaN stays a NaN (made quiet): adding to its bits could carry into an infinity or a number. */
HOST_DEVICE static inline uint16_t bf16_round(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t rounded = (bits + 0x8000u) >> 16;
    uint32_t quiet = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

/* The half that rounding drops. */
HOST_DEVICE static inline uint16_t bf16_rest(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)bits;
}

/* The fp32 that bf16_round and bf16_rest came from: where the rest is half or more, rounding went
 * up. Exact for every number and both infinities; a NaN comes back quiet, as arithmetic would make
 * it. */
HOST_DEVICE static inline float bf16_join(uint16_t half, uint16_t rest)
{
    uint32_t upper = (uint32_t)half << 16, carry = ((uint32_t)rest & 0x8000u) << 1;
    uint32_t bits = ((upper & 0x7fffffffu) > 0x7f800000u ? upper : upper - carry) | rest;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
