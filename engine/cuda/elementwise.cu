#include "engine/cuda/kernel_code.h"
#include "engine/gelu.h"
#include "engine/silu.h"
#include "engine/soft_cap.h"

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

template <enum model_activation OF> __device__ inline float activated(float x)
{
    return OF == MODEL_SILU ? silu(x) : OF == MODEL_GELU_TANH ? gelu(x) : gelu_exact(x);
}

template <enum model_activation OF> __device__ inline float activated_slope(float x)
{
    return OF == MODEL_SILU        ? silu_slope(x)
           : OF == MODEL_GELU_TANH ? gelu_slope(x)
                                   : gelu_exact_slope(x);
}

template <typename T, enum model_activation OF>
__global__ void __launch_bounds__(THREADS) gelu_forward_kernel(struct gelu_arguments<T> a)
{
    uint64_t first = first_of_thread();
    struct octet x = octet_load(a.pre, first, a.elements, 0);
    for (int i = 0; i < OCTET; i++)
        x.at[i] = activated<OF>(x.at[i]);
    octet_store(a.y, first, a.elements, x);
}

template <typename T>
static void gelu_launch(const struct cuda_context *cuda, enum model_activation of,
                        uint64_t elements, const void *pre, void *y)
{
    struct gelu_arguments<T> arguments = {
        elements, (const T *)pre, (T *)y
    };
    launch(of == MODEL_GELU_EXACT ? gelu_forward_kernel<T, MODEL_GELU_EXACT>
                                  : gelu_forward_kernel<T, MODEL_GELU_TANH>,
           launch_blocks(elements, THREADS * OCTET), THREADS, 0, cuda->stream, arguments);
}

void cuda_gelu_forward(const void *context, enum model_precision precision,
                       enum model_activation of, uint64_t elements, const void *pre, void *y)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, gelu_launch, cuda, of, elements, pre, y);
}

/* ---- gates ---- */

/* Octets of rows are loaded whole if `whole`, which takes rows that begin at multiples of 8. */
template <typename T> struct gate_arguments {
    uint64_t rows, columns, row;
    bool whole;
    const T *gate, *up, *dy;
    T *y;           /* of the forward */
    T *dgate, *dup; /* of the backward */
};

/* A thread's octet: its row and its first column. */
struct gate_place {
    uint64_t row, column;
};

template <typename T> __device__ inline struct gate_place gate_place_of(struct gate_arguments<T> a)
{
    uint64_t octets = (a.columns + OCTET - 1) / OCTET, item = first_of_thread() / OCTET;
    return {item / octets, item % octets * OCTET};
}

template <typename T>
__device__ inline struct octet gate_load(const struct gate_arguments<T> &a, const T *row,
                                         uint64_t column)
{
    if (a.whole)
        return octet_load(row, column, a.columns, 0);
    struct octet octet;
    for (int i = 0; i < OCTET; i++)
        octet.at[i] = column + i < a.columns ? element_load(row + column + i) : 0;
    return octet;
}

template <typename T>
__device__ inline void gate_store(const struct gate_arguments<T> &a, T *row, uint64_t column,
                                  const struct octet &octet)
{
    if (a.whole) {
        octet_store(row, column, a.columns, octet);
        return;
    }
    for (int i = 0; i < OCTET; i++)
        if (column + i < a.columns)
            element_store(row + column + i, octet.at[i]);
}

template <typename T, enum model_activation OF>
__global__ void __launch_bounds__(THREADS) gate_forward_kernel(struct gate_arguments<T> a)
{
    struct gate_place at = gate_place_of(a);
    if (at.row >= a.rows)
        return;
    struct octet gate = gate_load(a, a.gate + at.row * a.row, at.column);
    struct octet up = gate_load(a, a.up + at.row * a.row, at.column);
    for (int i = 0; i < OCTET; i++)
        gate.at[i] = activated<OF>(gate.at[i]) * up.at[i];
    gate_store(a, a.y + at.row * a.columns, at.column, gate);
}

template <typename T, enum model_activation OF>
__global__ void __launch_bounds__(THREADS) gate_backward_kernel(struct gate_arguments<T> a)
{
    struct gate_place at = gate_place_of(a);
    if (at.row >= a.rows)
        return;
    struct octet gate = gate_load(a, a.gate + at.row * a.row, at.column);
    struct octet up = gate_load(a, a.up + at.row * a.row, at.column);
    struct octet dy = gate_load(a, a.dy + at.row * a.columns, at.column);
    for (int i = 0; i < OCTET; i++) {
        up.at[i] = dy.at[i] * up.at[i] * activated_slope<OF>(gate.at[i]);
        dy.at[i] = dy.at[i] * activated<OF>(gate.at[i]);
    }
    gate_store(a, a.dgate + at.row * a.row, at.column, up);
    gate_store(a, a.dup + at.row * a.row, at.column, dy);
}

template <typename T, enum model_activation OF>
static void gate_launch_of(const struct cuda_context *cuda, const struct gate_arguments<T> &a)
{
    uint64_t octets = a.rows * ((a.columns + OCTET - 1) / OCTET);
    launch(a.dgate ? gate_backward_kernel<T, OF> : gate_forward_kernel<T, OF>,
           launch_blocks(octets, THREADS), THREADS, 0, cuda->stream, a);
}

template <typename T>
static void gate_launch(const struct cuda_context *cuda, const struct kernel_gate *of,
                        const void *dy, void *y, void *dgate, void *dup)
{
    struct kernel_gate flat = kernel_gate_flat(of);
    struct gate_arguments<T> a = {
        flat.N, flat.F, flat.row, flat.row == flat.F || flat.F % OCTET == 0, (const T *)flat.gate,
            (const T *)flat.up, (const T *)dy, (T *)y, (T *)dgate, (T *)dup,
    };
    if (flat.activation == MODEL_SILU)
        gate_launch_of<T, MODEL_SILU>(cuda, a);
    else if (flat.activation == MODEL_GELU_TANH)
        gate_launch_of<T, MODEL_GELU_TANH>(cuda, a);
    else
        gate_launch_of<T, MODEL_GELU_EXACT>(cuda, a);
}

void cuda_gate_forward(const void *context, enum model_precision precision,
                       const struct kernel_gate *gate, void *y)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, gate_launch, cuda, gate, NULL, y, NULL, NULL);
}

void cuda_gate_backward(const void *context, enum model_precision precision,
                        const struct kernel_gate *gate, const void *dy, void *dgate, void *dup)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, gate_launch, cuda, gate, dy, NULL, dgate, dup);
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

/* ---- capped logits ---- */

template <typename T> struct cap_arguments {
    uint32_t N, V, row; /* row: elements from one to the next */
    float cap;
    T *logits;
};

template <typename T>
__global__ void __launch_bounds__(THREADS) cap_kernel(struct cap_arguments<T> a)
{
    uint64_t octets = (a.V + OCTET - 1) / OCTET, item = first_of_thread() / OCTET;
    if (item / octets >= a.N)
        return;
    T *row = a.logits + item / octets * a.row;
    uint64_t first = item % octets * OCTET;
    struct octet l = octet_load((const T *)row, first, a.V, 0);
    for (int i = 0; i < OCTET; i++)
        l.at[i] = soft_cap(l.at[i], a.cap);
    octet_store(row, first, a.V, l);
}

template <typename T>
static void cap_launch(const struct cuda_context *cuda, uint32_t N, uint32_t V, float cap,
                       void *logits)
{
    struct cap_arguments<T> arguments = {
        N, V, model_logits_row(V), cap, (T *)logits
    };
    launch(cap_kernel<T>, launch_blocks((uint64_t)N * launch_blocks(V, OCTET), THREADS), THREADS, 0,
           cuda->stream, arguments);
}

void cuda_cap_logits(const void *context, enum model_precision precision, uint32_t N, uint32_t V,
                     float cap, void *logits)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, cap_launch, cuda, N, V, cap, logits);
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
