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

#endif
