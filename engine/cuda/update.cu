/* The optimizer, and conversions between the precisions: eight elements a thread. */
#include "engine/adamw.h"
#include "engine/cuda/element.h"
#include "engine/cuda/kernels.h"

enum { THREADS = 256 };

__device__ static inline uint64_t first_of_thread()
{
    return ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * OCTET;
}

static unsigned blocks_of(uint64_t elements)
{
    return launch_blocks(elements, THREADS * OCTET);
}

template <typename T> struct adamw_arguments {
    struct adamw_step step;
    uint64_t elements;
    T *param;
    const float *gradient; /* NULL: in the parameter's place */
    float *master;         /* NULL: the parameter is its own */
    float *exp_avg, *exp_avg_sq;
};

template <typename T>
__global__ void __launch_bounds__(THREADS) adamw_kernel(struct adamw_arguments<T> a)
{
    uint64_t first = first_of_thread(), end = a.elements;
    struct octet g = a.gradient ? octet_load(a.gradient, first, end, 0)
                                : octet_load(a.param, first, end, 0);
    struct octet value = a.master ? octet_load(a.master, first, end, 0)
                                  : octet_load(a.param, first, end, 0);
    struct octet m = octet_load(a.exp_avg, first, end, 0);
    struct octet v = octet_load(a.exp_avg_sq, first, end, 0);
    for (int i = 0; i < OCTET; i++)
        value.at[i] = adamw_element(&a.step, value.at[i], g.at[i], &m.at[i], &v.at[i]);
    if (a.master)
        octet_store(a.master, first, end, value);
    octet_store(a.param, first, end, value);
    octet_store(a.exp_avg, first, end, m);
    octet_store(a.exp_avg_sq, first, end, v);
}

template <typename T>
static void adamw_launch(const struct cuda_context *cuda, const struct adamw_step *step,
                         const struct cpu_adamw *tensor)
{
    struct adamw_arguments<T> arguments = {
        *step, tensor->elements, (T *)tensor->param, tensor->gradient, tensor->master,
            tensor->exp_avg, tensor->exp_avg_sq
    };
    launch(adamw_kernel<T>, blocks_of(tensor->elements), THREADS, 0, cuda->stream, arguments);
}

/* Bits, not numbers: what rounding dropped may look like a NaN, which a store of bf16 would change.
 */
struct halves {
    uint16_t at[OCTET];
};

__device__ static inline struct halves halves_load(const uint16_t *array, uint64_t first,
                                                   uint64_t end)
{
    union {
        uint4 all;
        struct halves halves;
    } loaded = {};
    if (first + OCTET <= end)
        loaded.all = *(const uint4 *)(array + first);
    else
        for (int i = 0; i < OCTET; i++)
            loaded.halves.at[i] = first + i < end ? array[first + i] : 0;
    return loaded.halves;
}

__device__ static inline void halves_store(uint16_t *array, uint64_t first, uint64_t end,
                                           const struct halves &halves)
{
    union {
        struct halves halves;
        uint4 all;
    } stored = {halves};
    if (first + OCTET <= end)
        *(uint4 *)(array + first) = stored.all;
    else
        for (int i = 0; i < OCTET; i++)
            if (first + i < end)
                array[first + i] = halves.at[i];
}

/* T: of the gradient. */
template <typename T> struct split_arguments {
    struct adamw_step step;
    uint64_t elements;
    uint16_t *param, *rest;
    const T *gradient;
    float *exp_avg, *exp_avg_sq;
};

template <typename T>
__global__ void __launch_bounds__(THREADS) split_kernel(struct split_arguments<T> a)
{
    uint64_t first = first_of_thread(), end = a.elements;
    struct octet g = octet_load(a.gradient, first, end, 0);
    struct halves param = halves_load(a.param, first, end);
    struct halves rest = halves_load(a.rest, first, end);
    struct octet m = octet_load(a.exp_avg, first, end, 0);
    struct octet v = octet_load(a.exp_avg_sq, first, end, 0);
    for (int i = 0; i < OCTET; i++) {
        float master = adamw_element(&a.step, bf16_join(param.at[i], rest.at[i]), g.at[i], &m.at[i],
                                     &v.at[i]);
        param.at[i] = bf16_round(master);
        rest.at[i] = bf16_rest(master);
    }
    halves_store(a.param, first, end, param);
    halves_store(a.rest, first, end, rest);
    octet_store(a.exp_avg, first, end, m);
    octet_store(a.exp_avg_sq, first, end, v);
}

template <typename T>
static void split_launch(const struct cuda_context *cuda, const struct adamw_step *step,
                         const struct cpu_adamw *tensor, const T *gradient)
{
    struct split_arguments<T> arguments = {
        *step, tensor->elements,
            (uint16_t *)tensor->param, tensor->rest, gradient, tensor->exp_avg, tensor->exp_avg_sq
    };
    launch(split_kernel<T>, blocks_of(tensor->elements), THREADS, 0, cuda->stream, arguments);
}

/* A master stands beside bf16 parameters alone. */
void cuda_adamw(const struct cuda_context *cuda, const struct adamw_step *step,
                const struct cpu_adamw *tensor)
{
    if (tensor->gradient_bf16)
        split_launch(cuda, step, tensor, tensor->gradient_bf16);
    else if (tensor->rest)
        split_launch(cuda, step, tensor, tensor->gradient);
    else if (tensor->master)
        adamw_launch<uint16_t>(cuda, step, tensor);
    else
        adamw_launch<float>(cuda, step, tensor);
}

template <typename From, typename To> struct convert {
    uint64_t elements;
    const From *from;
    To *to;
};

template <typename From, typename To>
__global__ void __launch_bounds__(THREADS) convert_kernel(struct convert<From, To> a)
{
    uint64_t first = first_of_thread();
    octet_store(a.to, first, a.elements, octet_load(a.from, first, a.elements, 0));
}

template <typename From, typename To>
static void convert_launch(const struct cuda_context *cuda, uint64_t elements, const From *from,
                           To *to)
{
    struct convert<From, To> arguments = {
        elements, from, to
    };
    launch(convert_kernel<From, To>, blocks_of(elements), THREADS, 0, cuda->stream, arguments);
}

void cuda_round(const struct cuda_context *cuda, uint64_t elements, const float *values,
                uint16_t *rounded)
{
    convert_launch(cuda, elements, values, rounded);
}

void cuda_widen(const struct cuda_context *cuda, uint64_t elements, const uint16_t *halves,
                float *values)
{
    convert_launch(cuda, elements, halves, values);
}
