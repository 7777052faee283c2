/* Layer norm, a warp a row: see engine/cpu/simd/norm.c, whose lanes and order of sums these are. A
 * row is read again for each of its passes: it stays in the L1 cache. */
#include "engine/cuda/by_precision.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/tile.h"

enum { WARPS = 4, THREADS = WARPS * WARP };

/* The row of the thread's warp, and the thread's first column in a tile. */
struct row_place {
    uint64_t n;
    unsigned column;
};

__device__ static inline struct row_place row_place_of()
{
    return {(uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP, threadIdx.x % WARP * 2};
}

template <typename T> struct norm_forward {
    uint32_t N, H;
    float epsilon;
    const T *weight, *bias, *x;
    T *y;
    float *stats;
};

template <typename T> __device__ inline float row_mean(const T *x, uint32_t H, unsigned column)
{
    struct pair sum = {0, 0};
    for (uint32_t c = column; c < H; c += TILE) {
        struct pair v = pair_load(x, c, H, 0);
        sum.a += v.a;
        sum.b += v.b;
    }
    return lanes_sum(sum.a, sum.b) / (float)H;
}

template <typename T>
__device__ inline float row_variance(const T *x, uint32_t H, unsigned column, float mean)
{
    struct pair sum = {0, 0};
    for (uint32_t c = column; c < H; c += TILE) {
        struct pair v = pair_load(x, c, H, mean);
        sum.a = fmaf(v.a - mean, v.a - mean, sum.a);
        sum.b = fmaf(v.b - mean, v.b - mean, sum.b);
    }
    return lanes_sum(sum.a, sum.b) / (float)H;
}

template <typename T>
__global__ void __launch_bounds__(THREADS) norm_forward_kernel(struct norm_forward<T> a)
{
    struct row_place p = row_place_of();
    if (p.n >= a.N)
        return;
    const T *x = a.x + p.n * a.H;
    float mean = row_mean(x, a.H, p.column);
    float inverse = 1 / sqrtf(row_variance(x, a.H, p.column, mean) + a.epsilon);
    if (p.column == 0) {
        a.stats[p.n] = mean;
        a.stats[a.N + p.n] = inverse;
    }
    for (uint32_t c = p.column; c < a.H; c += TILE) {
        struct pair v = pair_load(x, c, a.H, 0), weight = pair_load(a.weight, c, a.H, 0);
        struct pair bias = pair_load(a.bias, c, a.H, 0);
        v.a = fmaf((v.a - mean) * inverse, weight.a, bias.a);
        v.b = fmaf((v.b - mean) * inverse, weight.b, bias.b);
        pair_store(a.y + p.n * a.H, c, a.H, v);
    }
}

template <typename T>
static void norm_forward_launch(const struct cuda_context *cuda, uint32_t N, uint32_t H,
                                float epsilon, const void *weight, const void *bias, const void *x,
                                void *y, float *stats)
{
    struct norm_forward<T> arguments = {
        N, H, epsilon, (const T *)weight, (const T *)bias, (const T *)x, (T *)y, stats
    };
    launch(norm_forward_kernel<T>, launch_blocks(N, WARPS), THREADS, 0, cuda->stream, arguments);
}

void cuda_norm_forward(const struct cuda_context *cuda, enum model_precision precision, uint32_t N,
                       uint32_t H, double epsilon, const void *weight, const void *bias,
                       const void *x, void *y, float *stats)
{
    BY_PRECISION(precision, norm_forward_launch, cuda, N, H, (float)epsilon, weight, bias, x, y,
                 stats);
}

template <typename T> struct norm_input {
    uint32_t N, H;
    const T *weight, *dy, *x;
    const float *stats;
    bool add;
    T *dx;
};

/* g = dy weight, and x normalised. */
struct norm_terms {
    struct pair g, normal;
};

template <typename T>
__device__ inline struct norm_terms norm_terms_of(const struct norm_input<T> &a, uint64_t n,
                                                  uint32_t column, float mean, float inverse)
{
    struct pair dy = pair_load(a.dy + n * a.H, column, a.H, 0);
    struct pair weight = pair_load(a.weight, column, a.H, 0);
    struct pair x = pair_load(a.x + n * a.H, column, a.H, mean);
    return {{dy.a * weight.a, dy.b * weight.b}, {(x.a - mean) * inverse, (x.b - mean) * inverse}};
}

/* dx = (g - mean(g) - normal mean(g normal)) / deviation */
template <typename T>
__global__ void __launch_bounds__(THREADS) norm_input_kernel(struct norm_input<T> a)
{
    struct row_place p = row_place_of();
    if (p.n >= a.N)
        return;
    float mean = a.stats[p.n], inverse = a.stats[a.N + p.n];
    struct pair sum = {0, 0}, sum_normal = {0, 0};
    for (uint32_t c = p.column; c < a.H; c += TILE) {
        struct norm_terms v = norm_terms_of(a, p.n, c, mean, inverse);
        sum.a += v.g.a;
        sum.b += v.g.b;
        sum_normal.a = fmaf(v.g.a, v.normal.a, sum_normal.a);
        sum_normal.b = fmaf(v.g.b, v.normal.b, sum_normal.b);
    }
    float mean_g = lanes_sum(sum.a, sum.b) / (float)a.H;
    float mean_normal = lanes_sum(sum_normal.a, sum_normal.b) / (float)a.H;
    for (uint32_t c = p.column; c < a.H; c += TILE) {
        struct norm_terms v = norm_terms_of(a, p.n, c, mean, inverse);
        struct pair dx = {0, 0};
        if (a.add)
            dx = pair_load(a.dx + p.n * a.H, c, a.H, 0);
        dx.a = fmaf(fmaf(-v.normal.a, mean_normal, v.g.a - mean_g), inverse, dx.a);
        dx.b = fmaf(fmaf(-v.normal.b, mean_normal, v.g.b - mean_g), inverse, dx.b);
        pair_store(a.dx + p.n * a.H, c, a.H, dx);
    }
}

template <typename T>
static void norm_input_launch(const struct cuda_context *cuda, uint32_t N, uint32_t H,
                              const void *weight, const void *dy, const void *x, const float *stats,
                              bool add, void *dx)
{
    struct norm_input<T> arguments = {
        N, H, (const T *)weight, (const T *)dy, (const T *)x, stats, add, (T *)dx
    };
    launch(norm_input_kernel<T>, launch_blocks(N, WARPS), THREADS, 0, cuda->stream, arguments);
}

void cuda_norm_backward_input(const struct cuda_context *cuda, enum model_precision precision,
                              uint32_t N, uint32_t H, const void *weight, const void *dy,
                              const void *x, const float *stats, bool add, void *dx)
{
    BY_PRECISION(precision, norm_input_launch, cuda, N, H, weight, dy, x, stats, add, dx);
}
