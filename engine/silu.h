/* SiLU (Elfwing, Uchibe, Doya 2018): y = x s, where s is the logistic function. All devices compile
 * these functions. */
#ifndef PSTAR_ENGINE_SILU_H
#define PSTAR_ENGINE_SILU_H

#include "engine/exponential.h"

/* 1 / (1 + exp(-x)), from the exponential of a number that is not above 0. */
HOST_DEVICE static inline float logistic(float x)
{
    float e = exponential(x < 0 ? x : -x);
    return (x < 0 ? e : 1) / (1 + e);
}

HOST_DEVICE static inline float silu(float x)
{
    return x * logistic(x);
}

/* SiLU'(x) = s (1 + x (1 - s)) */
HOST_DEVICE static inline float silu_slope(float x)
{
    float s = logistic(x);
    return s * fmaf(x, 1 - s, 1);
}

#endif
