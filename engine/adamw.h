/* AdamW with decoupled weight decay (Loshchilov, Hutter, ICLR 2019), for one element. Every device
 * and every variant compiles this function. It uses explicit fmaf, IEEE division and square root,
 * so the bits of its result do not depend on the device or on how a tensor is cut. */
#ifndef PSTAR_ENGINE_ADAMW_H
#define PSTAR_ENGINE_ADAMW_H

#include "engine/host_device.h"
#include <float.h>
#include <math.h>
#include <stdint.h>

struct adamw_options {
    double learning_rate; /* of this step */
    double beta1, beta2, epsilon, weight_decay;
    double gradient_scale; /* of clipping: 1, or max_norm / norm */
};

/* The constants of one step, computed once on the host in fp64 and rounded once. No factor is
 * negated later: some processors' fused products would negate a NaN's sign too, others would not.
 */
struct adamw_step {
    float gradient_scale;
    float beta1, one_minus_beta1;
    float beta2, one_minus_beta2;
    float decay;               /* 1 - learning_rate * weight_decay */
    float descent;             /* -learning_rate / (1 - beta1^step) */
    float inverse_correction2; /* 1 / sqrt(1 - beta2^step) */
    float epsilon;
};

/* Returns the factor of clip_grad_norm_ (PyTorch): clip / (norm + 1e-6), at most 1. `squares` is
 * the square of the norm. Returns NaN, with which adamw_element changes nothing, if the norm is
 * infinite or not a number. */
HOST_DEVICE static inline double adamw_clip(double squares, double clip)
{
    if (!(squares <= DBL_MAX))
        return (double)NAN;
    double scale = clip / (sqrt(squares) + 1e-6);
    return scale < 1 ? scale : 1;
}

/* `step` counts from 1. */
static inline struct adamw_step adamw_step_of(const struct adamw_options *options, uint64_t step)
{
    return (struct adamw_step){
        .gradient_scale = (float)options->gradient_scale,
        .beta1 = (float)options->beta1,
        .one_minus_beta1 = (float)(1.0 - options->beta1),
        .beta2 = (float)options->beta2,
        .one_minus_beta2 = (float)(1.0 - options->beta2),
        .decay = (float)(1.0 - options->learning_rate * options->weight_decay),
        .descent = (float)(-options->learning_rate / (1.0 - pow(options->beta1, (double)step))),
        .inverse_correction2 = (float)(1.0 / sqrt(1.0 - pow(options->beta2, (double)step))),
        .epsilon = (float)options->epsilon,
    };
}

/* Returns the new value of a parameter, and updates its moments in place. If the gradient's scale
 * is not a number, the step is skipped: nothing changes. */
HOST_DEVICE static inline float adamw_element(const struct adamw_step *s, float param,
                                              float gradient, float *exp_avg, float *exp_avg_sq)
{
    if (isnan(s->gradient_scale))
        return param;
    float g = gradient * s->gradient_scale;
    float m = fmaf(s->beta1, *exp_avg, s->one_minus_beta1 * g);
    float v = fmaf(s->beta2, *exp_avg_sq, (s->one_minus_beta2 * g) * g);
    float denominator = fmaf(sqrtf(v), s->inverse_correction2, s->epsilon);
    *exp_avg = m;
    *exp_avg_sq = v;
    return fmaf(s->descent, m / denominator, param * s->decay);
}

#endif
