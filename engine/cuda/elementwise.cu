#include "engine/cuda/kernel_code.h"
#include "engine/gelu.h"

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
