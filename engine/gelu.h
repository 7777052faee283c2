/* GELU in its tanh form (Hendrycks, Gimpel 2016). With u = sqrt(2/pi) (x + 0.044715 x^3) and s = (1
 * + tanh u) / 2 = 1 / (1 + exp(-2u)), y = x s and y' = s + x s (1 - s) 2u'. All devices compile
 * these functions. */
#ifndef PSTAR_ENGINE_GELU_H
#define PSTAR_ENGINE_GELU_H

#include "engine/exponential.h"

#define GELU_TWICE_ROOT 1.595769121605731f /* 2 sqrt(2/pi) */
#define GELU_CUBIC      0.044715f

HOST_DEVICE static inline float gelu_gate(float x)
{
    float twice_u = GELU_TWICE_ROOT * x * fmaf(GELU_CUBIC * x, x, 1);
    float e = exponential(twice_u < -88 ? 88 : -twice_u);
    return 1 / (1 + e);
}

HOST_DEVICE static inline float gelu(float x)
{
    return x * gelu_gate(x);
}

HOST_DEVICE static inline float gelu_slope(float x)
{
    float s = gelu_gate(x);
    float twice_slope = GELU_TWICE_ROOT * fmaf(3 * GELU_CUBIC * x, x, 1);
    return fmaf(x * s * (1 - s), twice_slope, s);
}

#endif
