/* exp in fp32 without a library call, so that loops over it vectorise. The result is within 2 units
 * in the last place. */
#ifndef PSTAR_ENGINE_EXPONENTIAL_H
#define PSTAR_ENGINE_EXPONENTIAL_H

#include "engine/host_device.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Returns 0 below the smallest normal number, and x if it is no number. Defined for x <= 88 and for
 * minus infinity. exp(x) = 2^n exp(r), where r = x - n ln 2 lies in [-ln 2 / 2, ln 2 / 2] and
 * exp(r) is its Taylor polynomial of degree 7 (remainder below 6e-9). */
HOST_DEVICE static inline float exponential(float x)
{
    const float shift = 0x1.8p23f; /* adding it rounds to an integer in the low bits */
    const float smallest = -87.3365448f;
    float clamped = x < smallest ? smallest : x;
    float shifted = fmaf(clamped, 0x1.715476p0f, shift);
    float n = shifted - shift;
    float r = fmaf(n, -0x1.62e4p-1f, clamped);
    r = fmaf(n, -0x1.7f7d1cp-20f, r);
    float p = 1.0f / 5040;
    p = fmaf(p, r, 1.0f / 720);
    p = fmaf(p, r, 1.0f / 120);
    p = fmaf(p, r, 1.0f / 24);
    p = fmaf(p, r, 1.0f / 6);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r, 1);
    p = fmaf(p, r, 1);
    uint32_t bits, power;
    memcpy(&bits, &p, sizeof bits);
    memcpy(&power, &shifted, sizeof power);
    bits += power << 23;
    memcpy(&p, &bits, sizeof p);
    p = x < smallest ? 0 : p;
    return x == x ? p : x; /* of a NaN with all bits set, the bits of p may be a number's */
}

#endif
