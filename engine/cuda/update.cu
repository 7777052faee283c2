/* The optimizer: four elements a thread, 16 bytes of an fp32 array, whose accesses within a warp
 * lie side by side. */
#include "engine/adamw.h"
#include "engine/cuda/element.h"
#include "engine/cuda/kernels.h"

enum { THREADS = 256, QUARTET = 4 };

struct quartet {
    float at[QUARTET];
};

/* Bits, not numbers: what rounding dropped may look like a NaN, which a store of bf16 would change.
 */
struct halves {
    uint16_t at[QUARTET];
};

/* WHOLE: all of it lies within the array, which ends at `end`; else what lies beyond is 0. */
template <bool WHOLE>
__device__ inline struct quartet quartet_load(const float *array, uint64_t first, uint64_t end)
{
    struct quartet quartet = {};
    if constexpr (WHOLE) {
        float4 all = *(const float4 *)(array + first);
        quartet = {{all.x, all.y, all.z, all.w}};
    } else {
        for (int i = 0; i < QUARTET && first + i < end; i++)
            quartet.at[i] = array[first + i];
    }
    return quartet;
}

template <bool WHOLE>
__device__ inline void quartet_store(float *array, uint64_t first, uint64_t end,
                                     const struct quartet &quartet)
{
    const float *at = quartet.at;
    if constexpr (WHOLE)
        *(float4 *)(array + first) = {at[0], at[1], at[2], at[3]};
    else
        for (int i = 0; i < QUARTET && first + i < end; i++)
            array[first + i] = at[i];
}

template <bool WHOLE>
__device__ inline struct halves halves_load(const uint16_t *array, uint64_t first, uint64_t end)
{
    struct halves halves = {};
    if constexpr (WHOLE) {
        uint2 all = *(const uint2 *)(array + first);
        halves = {
            {(uint16_t)all.x, (uint16_t)(all.x >> 16), (uint16_t)all.y, (uint16_t)(all.y >> 16)}};
    } else {
        for (int i = 0; i < QUARTET && first + i < end; i++)
            halves.at[i] = array[first + i];
    }
    return halves;
}

template <bool WHOLE>
__device__ inline void halves_store(uint16_t *array, uint64_t first, uint64_t end,
                                    const struct halves &halves)
{
    const uint16_t *at = halves.at;
    if constexpr (WHOLE)
        *(uint2 *)(array + first) = {at[0] | (uint32_t)at[1] << 16, at[2] | (uint32_t)at[3] << 16};
    else
        for (int i = 0; i < QUARTET && first + i < end; i++)
            array[first + i] = at[i];
}

/* Halves as numbers. */
template <bool WHOLE>
__device__ inline struct quartet quartet_load(const uint16_t *array, uint64_t first, uint64_t end)
{
    struct halves halves = halves_load<WHOLE>(array, first, end);
    struct quartet quartet;
    for (int i = 0; i < QUARTET; i++)
        quartet.at[i] = bf16_widen(halves.at[i]);
    return quartet;
}

template <bool WHOLE>
__device__ inline void quartet_store(uint16_t *array, uint64_t first, uint64_t end,
                                     const struct quartet &quartet)
{
    struct halves halves;
    for (int i = 0; i < QUARTET; i++)
        halves.at[i] = bf16_round(quartet.at[i]);
    halves_store<WHOLE>(array, first, end, halves);
}

__device__ static inline uint64_t first_of_thread()
{
    return ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * QUARTET;
}

static unsigned blocks_of(uint64_t elements)
{
    return launch_blocks(elements, THREADS * QUARTET);
}

/* The step, with the scale that is in device memory; NULL: its own. */
__device__ static inline struct adamw_step step_of(struct adamw_step step, const double *scale)
{
    if (scale)
        step.gradient_scale = (float)*scale;
    return step;
}

template <typename T> struct adamw_arguments {
    struct adamw_step step;
    const double *scale;
    uint64_t elements;
    T *param;
    const float *gradient; /* NULL: in the parameter's place */
    float *master;         /* NULL: the parameter is its own */
    float *exp_avg, *exp_avg_sq;
};

template <bool WHOLE, typename T>
__device__ inline void adamw(const struct adamw_arguments<T> &a, uint64_t first)
{
    uint64_t end = a.elements;
    struct quartet g = a.gradient ? quartet_load<WHOLE>(a.gradient, first, end)
                                  : quartet_load<WHOLE>(a.param, first, end);
    struct quartet value = a.master ? quartet_load<WHOLE>(a.master, first, end)
                                    : quartet_load<WHOLE>(a.param, first, end);
    struct quartet m = quartet_load<WHOLE>(a.exp_avg, first, end);
    struct quartet v = quartet_load<WHOLE>(a.exp_avg_sq, first, end);
    struct adamw_step step = step_of(a.step, a.scale);
    for (int i = 0; i < QUARTET; i++)
        value.at[i] = adamw_element(&step, value.at[i], g.at[i], &m.at[i], &v.at[i]);
    if (a.master)
        quartet_store<WHOLE>(a.master, first, end, value);
    quartet_store<WHOLE>(a.param, first, end, value);
    quartet_store<WHOLE>(a.exp_avg, first, end, m);
    quartet_store<WHOLE>(a.exp_avg_sq, first, end, v);
}

template <typename T>
__global__ void __launch_bounds__(THREADS) adamw_kernel(struct adamw_arguments<T> a)
{
    uint64_t first = first_of_thread();
    if (first + QUARTET <= a.elements)
        adamw<true>(a, first);
    else
        adamw<false>(a, first);
}

template <typename T>
static void adamw_launch(const struct cuda_context *cuda, const struct adamw_step *step,
                         bool clipped, const struct adamw_tensor *tensor)
{
    struct adamw_arguments<T> arguments = {
        *step, clipped ? cuda->scale : NULL, tensor->elements, (T *)tensor->param, tensor->gradient,
            tensor->master, tensor->exp_avg, tensor->exp_avg_sq
    };
    launch(adamw_kernel<T>, blocks_of(tensor->elements), THREADS, 0, cuda->stream, arguments);
}

/* T: of the gradient. */
template <typename T> struct split_arguments {
    struct adamw_step step;
    const double *scale;
    uint64_t elements;
    uint16_t *param, *rest;
    const T *gradient;
    float *exp_avg, *exp_avg_sq;
};

template <bool WHOLE, typename T>
__device__ inline void split(const struct split_arguments<T> &a, uint64_t first)
{
    uint64_t end = a.elements;
    struct quartet g = quartet_load<WHOLE>(a.gradient, first, end);
    struct halves param = halves_load<WHOLE>(a.param, first, end);
    struct halves rest = halves_load<WHOLE>(a.rest, first, end);
    struct quartet m = quartet_load<WHOLE>(a.exp_avg, first, end);
    struct quartet v = quartet_load<WHOLE>(a.exp_avg_sq, first, end);
    struct adamw_step step = step_of(a.step, a.scale);
    for (int i = 0; i < QUARTET; i++) {
        float master = adamw_element(&step, bf16_join(param.at[i], rest.at[i]), g.at[i], &m.at[i],
                                     &v.at[i]);
        param.at[i] = bf16_round(master);
        rest.at[i] = bf16_rest(master);
    }
    halves_store<WHOLE>(a.param, first, end, param);
    halves_store<WHOLE>(a.rest, first, end, rest);
    quartet_store<WHOLE>(a.exp_avg, first, end, m);
    quartet_store<WHOLE>(a.exp_avg_sq, first, end, v);
}

template <typename T>
__global__ void __launch_bounds__(THREADS) split_kernel(struct split_arguments<T> a)
{
    uint64_t first = first_of_thread();
    if (first + QUARTET <= a.elements)
        split<true>(a, first);
    else
        split<false>(a, first);
}

template <typename T>
static void split_launch(const struct cuda_context *cuda, const struct adamw_step *step,
                         bool clipped, const struct adamw_tensor *tensor, const T *gradient)
{
    struct split_arguments<T> arguments = {
        *step, clipped ? cuda->scale : NULL, tensor->elements,
            (uint16_t *)tensor->param, tensor->rest, gradient, tensor->exp_avg, tensor->exp_avg_sq
    };
    launch(split_kernel<T>, blocks_of(tensor->elements), THREADS, 0, cuda->stream, arguments);
}

/* A master stands beside bf16 parameters alone. */
void cuda_adamw(const void *context, const struct adamw_step *step, const double *scale,
                const struct adamw_tensor *tensor)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    bool clipped = scale != NULL;
    if (tensor->gradient_bf16)
        split_launch(cuda, step, clipped, tensor, tensor->gradient_bf16);
    else if (tensor->rest)
        split_launch(cuda, step, clipped, tensor, tensor->gradient);
    else if (tensor->master)
        adamw_launch<uint16_t>(cuda, step, clipped, tensor);
    else
        adamw_launch<float>(cuda, step, clipped, tensor);
}
