#include "engine/cuda/kernel_code.h"
#include "engine/gelu.h"
#include "engine/silu.h"

enum { THREADS = 256 };

template <typename T> struct gelu_arguments {
    uint64_t elements;
    const T *pre;
    T *y;
};

__device__ static inline uint64_t first_of_thread()
{
    return ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * OCTET;
}

template <typename T>
__global__ void __launch_bounds__(THREADS) gelu_forward_kernel(struct gelu_arguments<T> a)
{
    uint64_t first = first_of_thread();
    struct octet x = octet_load(a.pre, first, a.elements, 0);
    for (int i = 0; i < OCTET; i++)
        x.at[i] = gelu(x.at[i]);
    octet_store(a.y, first, a.elements, x);
}

template <typename T>
static void gelu_launch(const struct cuda_context *cuda, uint64_t elements, const void *pre,
                        void *y)
{
    struct gelu_arguments<T> arguments = {
        elements, (const T *)pre, (T *)y
    };
    launch(gelu_forward_kernel<T>, launch_blocks(elements, THREADS * OCTET), THREADS, 0,
           cuda->stream, arguments);
}

void cuda_gelu_forward(const void *context, enum model_precision precision, uint64_t elements,
                       const void *pre, void *y)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, gelu_launch, cuda, elements, pre, y);
}

/* ---- gates ---- */

template <typename T> struct gate_arguments {
    uint64_t elements;
    const T *gate, *up;
    T *y;     /* of the backward: dy */
    T *dgate; /* of the backward */
};

template <enum model_activation OF> __device__ inline float activated(float x)
{
    return OF == MODEL_SILU ? silu(x) : gelu(x);
}

template <enum model_activation OF> __device__ inline float activated_slope(float x)
{
    return OF == MODEL_SILU ? silu_slope(x) : gelu_slope(x);
}

template <typename T, enum model_activation OF>
__global__ void __launch_bounds__(THREADS) gate_forward_kernel(struct gate_arguments<T> a)
{
    uint64_t first = first_of_thread();
    struct octet gate = octet_load(a.gate, first, a.elements, 0);
    struct octet up = octet_load(a.up, first, a.elements, 0);
    for (int i = 0; i < OCTET; i++)
        gate.at[i] = activated<OF>(gate.at[i]) * up.at[i];
    octet_store(a.y, first, a.elements, gate);
}

template <typename T, enum model_activation OF>
__global__ void __launch_bounds__(THREADS) gate_backward_kernel(struct gate_arguments<T> a)
{
    uint64_t first = first_of_thread();
    struct octet gate = octet_load(a.gate, first, a.elements, 0);
    struct octet up = octet_load(a.up, first, a.elements, 0);
    struct octet dy = octet_load((const T *)a.y, first, a.elements, 0);
    for (int i = 0; i < OCTET; i++) {
        up.at[i] = dy.at[i] * up.at[i] * activated_slope<OF>(gate.at[i]);
        dy.at[i] = dy.at[i] * activated<OF>(gate.at[i]);
    }
    octet_store(a.dgate, first, a.elements, up);
    octet_store(a.y, first, a.elements, dy);
}

template <typename T, enum model_activation OF>
static void gate_launch_of(const struct cuda_context *cuda, const struct gate_arguments<T> &a)
{
    launch(a.dgate ? gate_backward_kernel<T, OF> : gate_forward_kernel<T, OF>,
           launch_blocks(a.elements, THREADS * OCTET), THREADS, 0, cuda->stream, a);
}

template <typename T>
static void gate_launch(const struct cuda_context *cuda, enum model_activation activation,
                        uint64_t elements, const void *gate, const void *up, void *y, void *dgate)
{
    struct gate_arguments<T> a = {
        elements, (const T *)gate, (const T *)up, (T *)y, (T *)dgate
    };
    if (activation == MODEL_SILU)
        gate_launch_of<T, MODEL_SILU>(cuda, a);
    else
        gate_launch_of<T, MODEL_GELU_TANH>(cuda, a);
}

void cuda_gate_forward(const void *context, enum model_precision precision,
                       enum model_activation activation, uint64_t elements, const void *gate,
                       const void *up, void *y)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, gate_launch, cuda, activation, elements, gate, up, y, NULL);
}

void cuda_gate_backward(const void *context, enum model_precision precision,
                        enum model_activation activation, uint64_t elements, const void *gate,
                        const void *up, void *dy, void *dgate)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, gate_launch, cuda, activation, elements, gate, up, dy, dgate);
}

/* ---- scaling ---- */

template <typename T> struct scale_arguments {
    uint64_t elements;
    float factor;
    T *x;
};

template <typename T>
__global__ void __launch_bounds__(THREADS) scale_kernel(struct scale_arguments<T> a)
{
    uint64_t first = first_of_thread();
    struct octet x = octet_load((const T *)a.x, first, a.elements, 0);
    for (int i = 0; i < OCTET; i++)
        x.at[i] *= a.factor;
    octet_store(a.x, first, a.elements, x);
}

template <typename T>
static void scale_launch(const struct cuda_context *cuda, uint64_t elements, float factor, void *x)
{
    struct scale_arguments<T> arguments = {
        elements, factor, (T *)x
    };
    launch(scale_kernel<T>, launch_blocks(elements, THREADS * OCTET), THREADS, 0, cuda->stream,
           arguments);
}

void cuda_scale(const void *context, enum model_precision precision, uint64_t elements,
                float factor, void *x)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, scale_launch, cuda, elements, factor, x);
}

/* ---- residual and dropout ---- */

template <typename T> struct residual_arguments {
    uint32_t N, H;
    const T *residual; /* NULL for y = dropout(from) */
    const T *from;     /* y = residual + dropout(from) */
    struct tile_dropout dropout;
    T *y;
};

/* Eight threads compute a tile of a row. */
template <typename T, bool WHOLE>
__global__ void __launch_bounds__(THREADS) residual_kernel(struct residual_arguments<T> a)
{
    uint32_t tiles = tiles_of(a.H);
    uint64_t item = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) / TILE_THREADS;
    uint64_t row = item / tiles;
    uint32_t tile = (uint32_t)(item % tiles);
    unsigned t = threadIdx.x % TILE_THREADS;
    if (row >= a.N)
        return;
    struct tile_part y = tile_part_load<WHOLE>(a.from + row * a.H, tile, t, a.H), residual = {};
    if (a.residual)
        residual = tile_part_load<WHOLE>(a.residual + row * a.H, tile, t, a.H);
    tile_part_drop(a.dropout, row, tiles, tile, t, y);
    if (a.residual)
        tile_part_add(y, residual);
    tile_part_store<WHOLE>(a.y + row * a.H, tile, t, a.H, y);
}

template <typename T>
static void residual_launch(const struct cuda_context *cuda, uint32_t N, uint32_t H,
                            const void *residual, const void *from,
                            const struct kernel_dropout *dropout, void *y)
{
    struct residual_arguments<T> arguments = {
        N, H, (const T *)residual, (const T *)from, tile_dropout_of(dropout), (T *)y
    };
    launch(H % TILE == 0 ? residual_kernel<T, true> : residual_kernel<T, false>,
           launch_blocks((uint64_t)N * tiles_of(H) * TILE_THREADS, THREADS), THREADS, 0,
           cuda->stream, arguments);
}

void cuda_residual_forward(const void *context, enum model_precision precision, uint32_t N,
                           uint32_t H, const void *residual, const struct kernel_dropout *dropout,
                           void *y)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, residual_launch, cuda, N, H, residual, y, dropout, y);
}

void cuda_dropout_backward(const void *context, enum model_precision precision, uint32_t N,
                           uint32_t H, const struct kernel_dropout *dropout, const void *dy,
                           void *masked)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, residual_launch, cuda, N, H, NULL, dy, dropout, masked);
}
