/* Soft caps (Bello et al., 2016): y = c tanh(x / c), and y' = 1 - (y / c)^2. All devices compile
 * these functions. */
#ifndef PSTAR_ENGINE_SOFT_CAP_H
#define PSTAR_ENGINE_SOFT_CAP_H

#include "engine/exponential.h"

/* Returns tanh(x), of numbers below 1/4 by its Taylor polynomial of degree 9 (relative remainder
 * below 1e-8), and of others by exp(-2x), which is then below 0.61. */
HOST_DEVICE static inline float hyperbolic_tangent(float x)
{
    float size = fabsf(x), square = x * x;
    float p = 62.0f / 2835;
    p = fmaf(p, square, -17.0f / 315);
    p = fmaf(p, square, 2.0f / 15);
    p = fmaf(p, square, -1.0f / 3);
    p = fmaf(p * square, x, x);
    float e = exponential(-2 * size);
    float y = copysignf((1 - e) / (1 + e), x);
    return size < 0.25f ? p : y;
}

HOST_DEVICE static inline float soft_cap(float x, float cap)
{
    return cap * hyperbolic_tangent(x / cap);
}

/* From the capped number. */
HOST_DEVICE static inline float soft_cap_slope(float y, float cap)
{
    float tangent = y / cap;
    return fmaf(-tangent, tangent, 1);
}

#endif
