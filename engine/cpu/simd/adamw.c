#include "engine/adamw.h"
#include "engine/bf16.h"
#include "engine/cpu/simd/loops.h"

#include <string.h>

static void update_fp32(const struct simd_adamw *a, uint64_t first, uint64_t end)
{
    const struct adamw_step step = a->step;
    const float *restrict gradient = a->tensor.gradient;
    float *restrict param = a->tensor.param;
    float *restrict m = a->tensor.exp_avg, *restrict v = a->tensor.exp_avg_sq;
    for (uint64_t i = first; i < end; i++)
        param[i] = adamw_element(&step, param[i], gradient[i], &m[i], &v[i]);
}

static void update_delayed(const struct simd_adamw *a, uint64_t first, uint64_t end)
{
    memcpy(a->tensor.delayed + first, (const float *)a->tensor.param + first,
           (end - first) * sizeof(float));
    update_fp32(a, first, end);
}

/* A parameter that lags is that of the master before the update. Inlined with a constant `lags`:
 * with a condition in them, the compiler does not vectorize these loops. */
static inline __attribute__((always_inline)) void
update_gradient_in_param(const struct simd_adamw *a, uint64_t first, uint64_t end, const bool lags)
{
    const struct adamw_step step = a->step;
    uint16_t *restrict param = a->tensor.param;
    float *restrict master = a->tensor.master;
    float *restrict m = a->tensor.exp_avg, *restrict v = a->tensor.exp_avg_sq;
    for (uint64_t i = first; i < end; i++) {
        float old = master[i];
        float updated = adamw_element(&step, old, bf16_widen(param[i]), &m[i], &v[i]);
        master[i] = updated;
        param[i] = bf16_round(lags ? old : updated);
    }
}

static inline __attribute__((always_inline)) void
update_bf16(const struct simd_adamw *a, uint64_t first, uint64_t end, const bool lags)
{
    const struct adamw_step step = a->step;
    const float *restrict gradient = a->tensor.gradient;
    uint16_t *restrict param = a->tensor.param;
    float *restrict master = a->tensor.master;
    float *restrict m = a->tensor.exp_avg, *restrict v = a->tensor.exp_avg_sq;
    for (uint64_t i = first; i < end; i++) {
        float old = master[i];
        float updated = adamw_element(&step, old, gradient[i], &m[i], &v[i]);
        master[i] = updated;
        param[i] = bf16_round(lags ? old : updated);
    }
}

static void update_split(const struct simd_adamw *a, uint64_t first, uint64_t end)
{
    const struct adamw_step step = a->step;
    const uint16_t *restrict gradient = a->tensor.gradient_bf16;
    uint16_t *restrict param = a->tensor.param, *restrict rest = a->tensor.rest;
    float *restrict m = a->tensor.exp_avg, *restrict v = a->tensor.exp_avg_sq;
    for (uint64_t i = first; i < end; i++) {
        float master = adamw_element(&step, bf16_join(param[i], rest[i]), bf16_widen(gradient[i]),
                                     &m[i], &v[i]);
        param[i] = bf16_round(master);
        rest[i] = bf16_rest(master);
    }
}

static void update_split_fp32(const struct simd_adamw *a, uint64_t first, uint64_t end)
{
    const struct adamw_step step = a->step;
    const float *restrict gradient = a->tensor.gradient;
    uint16_t *restrict param = a->tensor.param, *restrict rest = a->tensor.rest;
    float *restrict m = a->tensor.exp_avg, *restrict v = a->tensor.exp_avg_sq;
    for (uint64_t i = first; i < end; i++) {
        float master = adamw_element(&step, bf16_join(param[i], rest[i]), gradient[i], &m[i],
                                     &v[i]);
        param[i] = bf16_round(master);
        rest[i] = bf16_rest(master);
    }
}

void SIMD(adamw)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_adamw *a = arguments;
    if (a->tensor.gradient_bf16)
        update_split(a, first, end);
    else if (a->tensor.rest)
        update_split_fp32(a, first, end);
    else if (a->tensor.delayed)
        update_delayed(a, first, end);
    else if (!a->tensor.master)
        update_fp32(a, first, end);
    else if (a->tensor.gradient && a->tensor.lags)
        update_bf16(a, first, end, true);
    else if (a->tensor.gradient)
        update_bf16(a, first, end, false);
    else if (a->tensor.lags)
        update_gradient_in_param(a, first, end, true);
    else
        update_gradient_in_param(a, first, end, false);
}
