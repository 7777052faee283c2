/* GELU (Hendrycks, Gimpel 2016) in both forms. All devices compile these functions. */
#ifndef PSTAR_ENGINE_GELU_H
#define PSTAR_ENGINE_GELU_H

#include "engine/exponential.h"

#define GELU_TWICE_ROOT 1.595769121605731f /* 2 sqrt(2/pi) */
#define GELU_CUBIC      0.044715f

/* The tanh form: with u = sqrt(2/pi) (x + 0.044715 x^3) and s = (1 + tanh u) / 2 = 1 / (1 +
 * exp(-2u)), y = x s and y' = s + x s (1 - s) 2u'. */
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

/* Returns the normal distribution P(x), (1 + erf(x / sqrt 2)) / 2. Below 0 it is exp(-x^2 / 2) u
 * q(u) with u = 1 / (1 + 0.26 |x|), as the complementary error function is in Hastings (1955). The
 * polynomial q has been fitted for -14 <= x <= 0, beyond which the exponential is 0 in fp32; its
 * largest relative error is 2.5e-8. */
HOST_DEVICE static inline float normal_distribution(float x)
{
    float u = 1 / fmaf(0.26f, fabsf(x), 1);
    float q = 0.0305049419f;
    q = fmaf(q, u, -0.152829096f);
    q = fmaf(q, u, 0.251491845f);
    q = fmaf(q, u, -0.150949597f);
    q = fmaf(q, u, 0.160948291f);
    q = fmaf(q, u, 0.0510275029f);
    q = fmaf(q, u, 0.103030302f);
    q = fmaf(q, u, 0.103016742f);
    q = fmaf(q, u, 0.103759058f);
    float tail = exponential(-0.5f * x * x) * (u * q);
    return x < 0 ? tail : 1 - tail;
}

/* The exact form: y = x P(x), and y' = P(x) + x p(x) with the density p(x) = exp(-x^2 / 2) / sqrt(2
 * pi). */
HOST_DEVICE static inline float gelu_exact(float x)
{
    return x * normal_distribution(x);
}

HOST_DEVICE static inline float gelu_exact_slope(float x)
{
    const float most = 0.398942280f; /* 1 / sqrt(2 pi) */
    return fmaf(x, most * exponential(-0.5f * x * x), normal_distribution(x));
}

#endif
