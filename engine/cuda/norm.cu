/* Layer norm and RMS norm, a warp a row, with the lanes and the order of sums of
 * engine/cpu/simd/rows.c. Each pass reads the row again, from the L1 cache. */
#include "engine/cuda/kernel_code.h"

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

/* Tiles of a row whose loads overlap. Sums include those beyond the row: they are padding, which
 * changes no sum. */
enum { TILES_AHEAD = 8, TILES_OF_THREE = 4 /* of three arrays */ };

/* Returns the sum of a row's terms over H. `add(sum, x)` adds the term of element x; that of
 * `padding` changes no sum. */
template <typename T, bool EVEN, typename Add>
__device__ inline float row_average(const T *x, uint32_t H, unsigned column, float padding, Add add)
{
    struct pair sum = {0, 0};
    for (uint32_t first = column; first < H; first += TILES_AHEAD * TILE) {
        struct pair v[TILES_AHEAD];
#pragma unroll
        for (int i = 0; i < TILES_AHEAD; i++)
            v[i] = pair_load_known<EVEN>(x, first + i * TILE, H, padding);
#pragma unroll
        for (int i = 0; i < TILES_AHEAD; i++)
            sum = {add(sum.a, v[i].a), add(sum.b, v[i].b)};
    }
    return lanes_sum(sum.a, sum.b) / (float)H;
}

template <typename T, bool EVEN>
__device__ inline float row_mean(const T *x, uint32_t H, unsigned column)
{
    return row_average<T, EVEN>(x, H, column, 0, [](float sum, float v) { return sum + v; });
}

template <typename T, bool EVEN>
__device__ inline float row_variance(const T *x, uint32_t H, unsigned column, float mean)
{
    return row_average<T, EVEN>(
        x, H, column, mean, [mean](float sum, float v) { return fmaf(v - mean, v - mean, sum); });
}

template <typename T, bool EVEN>
__global__ void __launch_bounds__(THREADS) norm_forward_kernel(struct norm_forward<T> a)
{
    struct row_place p = row_place_of();
    if (p.n >= a.N)
        return;
    const T *x = a.x + p.n * a.H;
    float mean = row_mean<T, EVEN>(x, a.H, p.column);
    float inverse = 1 / sqrtf(row_variance<T, EVEN>(x, a.H, p.column, mean) + a.epsilon);
    if (p.column == 0) {
        a.stats[p.n] = mean;
        a.stats[a.N + p.n] = inverse;
    }
    for (uint32_t first = p.column; first < a.H; first += TILES_OF_THREE * TILE) {
        struct pair v[TILES_OF_THREE], weight[TILES_OF_THREE], bias[TILES_OF_THREE];
#pragma unroll
        for (int i = 0; i < TILES_OF_THREE; i++) {
            v[i] = pair_load_known<EVEN>(x, first + i * TILE, a.H, 0);
            weight[i] = pair_load_known<EVEN>(a.weight, first + i * TILE, a.H, 0);
            bias[i] = pair_load_known<EVEN>(a.bias, first + i * TILE, a.H, 0);
        }
#pragma unroll
        for (int i = 0; i < TILES_OF_THREE; i++) {
            v[i].a = fmaf((v[i].a - mean) * inverse, weight[i].a, bias[i].a);
            v[i].b = fmaf((v[i].b - mean) * inverse, weight[i].b, bias[i].b);
            pair_store(a.y + p.n * a.H, first + i * TILE, a.H, v[i]);
        }
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
    launch(H % 2 == 0 ? norm_forward_kernel<T, true> : norm_forward_kernel<T, false>,
           launch_blocks(N, WARPS), THREADS, 0, cuda->stream, arguments);
}

void cuda_norm_forward(const void *context, enum model_precision precision, uint32_t N, uint32_t H,
                       double epsilon, const void *weight, const void *bias, const void *x, void *y,
                       float *stats)
{
    const struct cuda_context *cuda = cuda_context_of(context);
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

/* Some tiles of a row: g = dy weight, and normalised x. */
struct norm_terms {
    struct pair g[TILES_OF_THREE], normal[TILES_OF_THREE];
};

template <typename T, bool EVEN>
__device__ inline struct norm_terms norm_terms_of(const struct norm_input<T> &a, uint64_t n,
                                                  uint32_t first, float mean, float inverse)
{
    struct norm_terms terms;
#pragma unroll
    for (int i = 0; i < TILES_OF_THREE; i++) {
        uint32_t column = first + i * TILE;
        struct pair dy = pair_load_known<EVEN>(a.dy + n * a.H, column, a.H, 0);
        struct pair weight = pair_load_known<EVEN>(a.weight, column, a.H, 0);
        struct pair x = pair_load_known<EVEN>(a.x + n * a.H, column, a.H, mean);
        terms.g[i] = {dy.a * weight.a, dy.b * weight.b};
        terms.normal[i] = {(x.a - mean) * inverse, (x.b - mean) * inverse};
    }
    return terms;
}

/* dx = (g - mean(g) - normal mean(g normal)) / deviation */
template <typename T, bool EVEN>
__global__ void __launch_bounds__(THREADS) norm_input_kernel(struct norm_input<T> a)
{
    struct row_place p = row_place_of();
    if (p.n >= a.N)
        return;
    float mean = a.stats[p.n], inverse = a.stats[a.N + p.n];
    T *row = a.dx + p.n * a.H;
    struct pair sum = {0, 0}, sum_normal = {0, 0};
    for (uint32_t first = p.column; first < a.H; first += TILES_OF_THREE * TILE) {
        struct norm_terms v = norm_terms_of<T, EVEN>(a, p.n, first, mean, inverse);
#pragma unroll
        for (int i = 0; i < TILES_OF_THREE; i++) {
            sum.a += v.g[i].a;
            sum.b += v.g[i].b;
            sum_normal.a = fmaf(v.g[i].a, v.normal[i].a, sum_normal.a);
            sum_normal.b = fmaf(v.g[i].b, v.normal[i].b, sum_normal.b);
        }
    }
    float mean_g = lanes_sum(sum.a, sum.b) / (float)a.H;
    float mean_normal = lanes_sum(sum_normal.a, sum_normal.b) / (float)a.H;
    for (uint32_t first = p.column; first < a.H; first += TILES_OF_THREE * TILE) {
        struct norm_terms v = norm_terms_of<T, EVEN>(a, p.n, first, mean, inverse);
        struct pair dx[TILES_OF_THREE];
#pragma unroll
        for (int i = 0; i < TILES_OF_THREE; i++)
            dx[i] = a.add ? pair_load_known<EVEN>(row, first + i * TILE, a.H, 0)
                          : (struct pair){0, 0};
#pragma unroll
        for (int i = 0; i < TILES_OF_THREE; i++) {
            dx[i].a = fmaf(fmaf(-v.normal[i].a, mean_normal, v.g[i].a - mean_g), inverse, dx[i].a);
            dx[i].b = fmaf(fmaf(-v.normal[i].b, mean_normal, v.g[i].b - mean_g), inverse, dx[i].b);
            pair_store(row, first + i * TILE, a.H, dx[i]);
        }
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
    launch(H % 2 == 0 ? norm_input_kernel<T, true> : norm_input_kernel<T, false>,
           launch_blocks(N, WARPS), THREADS, 0, cuda->stream, arguments);
}

void cuda_norm_backward_input(const void *context, enum model_precision precision, uint32_t N,
                              uint32_t H, const void *weight, const void *dy, const void *x,
                              const float *stats, bool add, void *dx)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, norm_input_launch, cuda, N, H, weight, dy, x, stats, add, dx);
}

/* ---- RMS norm ---- */

template <typename T> struct rms_forward {
    uint32_t N, H;
    float epsilon, offset;
    const T *weight, *x;
    T *y;
    float *stats;
};

template <typename T, bool EVEN>
__device__ inline float row_square(const T *x, uint32_t H, unsigned column)
{
    return row_average<T, EVEN>(x, H, column, 0,
                                [](float sum, float v) { return fmaf(v, v, sum); });
}

template <typename T, bool EVEN>
__global__ void __launch_bounds__(THREADS) rms_forward_kernel(struct rms_forward<T> a)
{
    struct row_place p = row_place_of();
    if (p.n >= a.N)
        return;
    const T *x = a.x + p.n * a.H;
    float inverse = 1 / sqrtf(row_square<T, EVEN>(x, a.H, p.column) + a.epsilon);
    if (p.column == 0)
        a.stats[p.n] = inverse;
    for (uint32_t first = p.column; first < a.H; first += TILES_OF_THREE * TILE) {
        struct pair v[TILES_OF_THREE], weight[TILES_OF_THREE];
#pragma unroll
        for (int i = 0; i < TILES_OF_THREE; i++) {
            v[i] = pair_load_known<EVEN>(x, first + i * TILE, a.H, 0);
            weight[i] = pair_load_known<EVEN>(a.weight, first + i * TILE, a.H, 0);
        }
#pragma unroll
        for (int i = 0; i < TILES_OF_THREE; i++) {
            v[i].a = v[i].a * inverse * (weight[i].a + a.offset);
            v[i].b = v[i].b * inverse * (weight[i].b + a.offset);
            pair_store(a.y + p.n * a.H, first + i * TILE, a.H, v[i]);
        }
    }
}

template <typename T>
static void rms_forward_launch(const struct cuda_context *cuda, uint32_t N, uint32_t H,
                               float epsilon, float offset, const void *weight, const void *x,
                               void *y, float *stats)
{
    struct rms_forward<T> arguments = {
        N, H, epsilon, offset, (const T *)weight, (const T *)x, (T *)y, stats
    };
    launch(H % 2 == 0 ? rms_forward_kernel<T, true> : rms_forward_kernel<T, false>,
           launch_blocks(N, WARPS), THREADS, 0, cuda->stream, arguments);
}

void cuda_rms_forward(const void *context, enum model_precision precision, uint32_t N, uint32_t H,
                      double epsilon, float offset, const void *weight, const void *x, void *y,
                      float *stats)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, rms_forward_launch, cuda, N, H, (float)epsilon, offset, weight, x, y,
                 stats);
}

template <typename T> struct rms_input {
    struct norm_input<T> norm;
    float offset;
};

/* Returns some tiles of a row: g = dy (weight + offset), and normalised x. */
template <typename T, bool EVEN>
__device__ inline struct norm_terms rms_terms_of(const struct rms_input<T> &r, uint64_t n,
                                                 uint32_t first, float inverse)
{
    const struct norm_input<T> &a = r.norm;
    struct norm_terms terms;
#pragma unroll
    for (int i = 0; i < TILES_OF_THREE; i++) {
        uint32_t column = first + i * TILE;
        struct pair dy = pair_load_known<EVEN>(a.dy + n * a.H, column, a.H, 0);
        struct pair weight = pair_load_known<EVEN>(a.weight, column, a.H, 0);
        struct pair x = pair_load_known<EVEN>(a.x + n * a.H, column, a.H, 0);
        terms.g[i] = {dy.a * (weight.a + r.offset), dy.b * (weight.b + r.offset)};
        terms.normal[i] = {x.a * inverse, x.b * inverse};
    }
    return terms;
}

/* dx = (g - normal mean(g normal)) / root mean square */
template <typename T, bool EVEN>
__global__ void __launch_bounds__(THREADS) rms_input_kernel(struct rms_input<T> r)
{
    const struct norm_input<T> &a = r.norm;
    struct row_place p = row_place_of();
    if (p.n >= a.N)
        return;
    float inverse = a.stats[p.n];
    T *row = a.dx + p.n * a.H;
    struct pair sum = {0, 0};
    for (uint32_t first = p.column; first < a.H; first += TILES_OF_THREE * TILE) {
        struct norm_terms v = rms_terms_of<T, EVEN>(r, p.n, first, inverse);
#pragma unroll
        for (int i = 0; i < TILES_OF_THREE; i++) {
            sum.a = fmaf(v.g[i].a, v.normal[i].a, sum.a);
            sum.b = fmaf(v.g[i].b, v.normal[i].b, sum.b);
        }
    }
    float mean = lanes_sum(sum.a, sum.b) / (float)a.H;
    for (uint32_t first = p.column; first < a.H; first += TILES_OF_THREE * TILE) {
        struct norm_terms v = rms_terms_of<T, EVEN>(r, p.n, first, inverse);
        struct pair dx[TILES_OF_THREE];
#pragma unroll
        for (int i = 0; i < TILES_OF_THREE; i++)
            dx[i] = a.add ? pair_load_known<EVEN>(row, first + i * TILE, a.H, 0)
                          : (struct pair){0, 0};
#pragma unroll
        for (int i = 0; i < TILES_OF_THREE; i++) {
            dx[i].a = fmaf(fmaf(-v.normal[i].a, mean, v.g[i].a), inverse, dx[i].a);
            dx[i].b = fmaf(fmaf(-v.normal[i].b, mean, v.g[i].b), inverse, dx[i].b);
            pair_store(row, first + i * TILE, a.H, dx[i]);
        }
    }
}

template <typename T>
static void rms_input_launch(const struct cuda_context *cuda, uint32_t N, uint32_t H, float offset,
                             const void *weight, const void *dy, const void *x, const float *stats,
                             bool add, void *dx)
{
    struct rms_input<T> arguments = {
        {N, H, (const T *)weight, (const T *)dy, (const T *)x, stats, add, (T *)dx}, offset
    };
    launch(H % 2 == 0 ? rms_input_kernel<T, true> : rms_input_kernel<T, false>,
           launch_blocks(N, WARPS), THREADS, 0, cuda->stream, arguments);
}

void cuda_rms_backward_input(const void *context, enum model_precision precision, uint32_t N,
                             uint32_t H, float offset, const void *weight, const void *dy,
                             const void *x, const float *stats, bool add, void *dx)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, rms_input_launch, cuda, N, H, offset, weight, dy, x, stats, add, dx);
}
