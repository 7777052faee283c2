/* Sums over rows, for the gradients of biases and of the norms' parameters. Blocks of 64 rows are
 * summed into the scratch, and then the blocks are summed, in the order of engine/cpu/simd/rows.c.
 * A round takes the blocks that the scratch has room for. */
#include "engine/cuda/kernel_code.h"
#include "engine/gelu.h"
#include <glib.h>

enum { ROWS = 64, WARPS = 4, THREADS = WARPS * WARP, GRID_LIMIT = 65535 };

/* The values that are summed. OF_DY sums dy, for a bias. OF_GELU and OF_GELU_EXACT sum dy times
 * GELU's slope, which replaces dy. OF_NORM sums dy, and also dy times normalised x. OF_RMS sums dy
 * times normalised x.
 */
enum columns_of { OF_DY, OF_GELU, OF_GELU_EXACT, OF_NORM, OF_RMS };

template <typename T> struct column_blocks {
    uint32_t N, columns, row; /* row: elements of dy and x from one row to the next */
    uint32_t first, blocks;   /* of the round */
    T *dy;                    /* written for GELU only */
    const T *x;               /* or GELU's input; NULL for OF_DY */
    const float *stats;       /* for OF_NORM and OF_RMS only, else NULL */
    float *sums;              /* [arrays, blocks, columns]: of dy, of the products */
};

/* AHEAD rows load at once. A multiprocessor's blocks must leave each other registers for that, so
 * there are at most TOGETHER. */
template <enum columns_of OF> constexpr int rows_ahead = OF == OF_DY ? 16 : 8;
enum { TOGETHER = 6 };

/* Rounds as storing does. */
__device__ static inline struct pair pair_rounded(const float *, struct pair pair)
{
    return pair;
}

__device__ static inline struct pair pair_rounded(const uint16_t *, struct pair pair)
{
    return halves_unpack(halves_pack(pair.a, pair.b));
}

template <enum columns_of OF> __device__ inline float slope_of(float x)
{
    return OF == OF_GELU ? gelu_slope(x) : gelu_exact_slope(x);
}

/* A warp sums a tile of columns. In place of rows beyond the block's, -0 changes no sum, and the
 * last row is loaded again: conditional loads would come one after the other. */
template <typename T, bool EVEN, enum columns_of OF>
__global__ void __launch_bounds__(THREADS, TOGETHER) column_blocks_kernel(struct column_blocks<T> a)
{
    enum { AHEAD = rows_ahead<OF> };
    uint32_t tile = blockIdx.x * WARPS + threadIdx.x / WARP, block = blockIdx.y;
    uint32_t column = tile * TILE + threadIdx.x % WARP * 2;
    uint64_t begin = (uint64_t)(a.first + block) * ROWS;
    uint64_t end = begin + ROWS < a.N ? begin + ROWS : a.N;
    struct pair sum = {0, 0}, sum_normal = {0, 0};
    if (column >= a.columns)
        return;
    for (uint64_t first = begin; first < end; first += AHEAD) {
        struct pair dy[AHEAD], x[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            uint64_t n = first + i < end ? first + i : end - 1;
            dy[i] = pair_load_known<EVEN>(a.dy + n * a.row, column, a.columns, 0);
            if (OF != OF_DY)
                x[i] = pair_load_known<EVEN>(a.x + n * a.row, column, a.columns, 0);
            if (OF == OF_NORM) {
                float mean = a.stats[n], inverse = a.stats[a.N + n];
                x[i] = {(x[i].a - mean) * inverse, (x[i].b - mean) * inverse};
            }
            if (OF == OF_RMS) {
                float inverse = a.stats[n];
                dy[i] = {dy[i].a * (x[i].a * inverse), dy[i].b * (x[i].b * inverse)};
            }
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            bool there = first + i < end;
            if (OF == OF_GELU || OF == OF_GELU_EXACT) {
                dy[i] = {dy[i].a * slope_of<OF>(x[i].a), dy[i].b * slope_of<OF>(x[i].b)};
                dy[i] = pair_rounded(a.dy, dy[i]);
                if (there)
                    pair_store(a.dy + (first + i) * a.row, column, a.columns, dy[i]);
            }
            sum.a += there ? dy[i].a : -0.0f;
            sum.b += there ? dy[i].b : -0.0f;
            if (OF == OF_NORM) {
                sum_normal.a += there ? dy[i].a * x[i].a : -0.0f;
                sum_normal.b += there ? dy[i].b * x[i].b : -0.0f;
            }
        }
    }
    pair_store(a.sums + (uint64_t)block * a.columns, column, a.columns, sum);
    if (OF == OF_NORM)
        pair_store(a.sums + (uint64_t)(a.blocks + block) * a.columns, column, a.columns,
                   sum_normal);
}

struct column_totals {
    uint32_t columns, blocks;
    bool first, last;  /* whether it is this round */
    const float *sums; /* [arrays, blocks, columns] */
    float *totals;     /* [arrays, columns], between rounds */
    enum kernel_gradient gradient;
    void *gradients[2]; /* of each array */
};

enum { TOTALS_AHEAD = 64 }; /* blocks whose loads overlap */

/* Each thread sums a column, and the block's y is its array. Blocks beyond the last count as -0. */
__global__ static void __launch_bounds__(THREADS, 1) column_totals_kernel(struct column_totals a)
{
    uint32_t column = blockIdx.x * THREADS + threadIdx.x, array = blockIdx.y;
    if (column >= a.columns)
        return;
    const float *sums = a.sums + (uint64_t)array * a.blocks * a.columns + column;
    float *between = a.totals + (uint64_t)array * a.columns + column;
    float total = a.first ? 0 : *between;
    for (uint32_t first = 0; first < a.blocks; first += TOTALS_AHEAD) {
        float ahead[TOTALS_AHEAD];
#pragma unroll
        for (int i = 0; i < TOTALS_AHEAD; i++)
            ahead[i] = sums[(uint64_t)MIN(first + i, a.blocks - 1) * a.columns];
#pragma unroll
        for (int i = 0; i < TOTALS_AHEAD; i++)
            total += first + i < a.blocks ? ahead[i] : -0.0f;
    }
    if (a.last)
        gradient_store(a.gradient, array == 0 ? a.gradients[0] : a.gradients[1], column, total);
    else
        *between = total;
}

/* Of `of`, only N, columns, row, dy, x and stats are set. Without dbias, the sums end in the
 * scratch.
 */
template <typename T, enum columns_of OF>
static void column_sums(const struct cuda_context *cuda, struct column_blocks<T> of,
                        enum kernel_gradient gradient, void *dbias, void *dweight)
{
    uint32_t arrays = OF == OF_NORM ? 2 : 1, blocks = launch_blocks(of.N, ROWS);
    uint32_t room = (uint32_t)(cuda->scratch_bytes / sizeof(float) / of.columns / arrays);
    g_assert(room >= 2);
    room = MIN(room, (uint32_t)GRID_LIMIT);
    float *totals = (float *)cuda->scratch;
    of.sums = totals + (uint64_t)arrays * of.columns;
    for (of.first = 0; of.first < blocks; of.first += room - 1) {
        of.blocks = MIN(room - 1, blocks - of.first);
        launch(of.columns % 2 == 0 && of.row % 2 == 0 ? column_blocks_kernel<T, true, OF>
                                                      : column_blocks_kernel<T, false, OF>,
               dim3(launch_blocks(tiles_of(of.columns), WARPS), of.blocks), THREADS, 0,
               cuda->stream, of);
        if (!dbias)
            continue;
        struct column_totals of_round = {
            of.columns, of.blocks, of.first == 0, of.first + of.blocks == blocks,
            of.sums,    totals,    gradient,      {dbias, dweight}};
        launch(column_totals_kernel, dim3(launch_blocks(of.columns, THREADS), arrays), THREADS, 0,
               cuda->stream, of_round);
    }
}

template <typename T>
static void norm_parameters(const struct cuda_context *cuda, uint32_t N, uint32_t H, const void *dy,
                            const void *x, const float *stats, enum kernel_gradient gradient,
                            void *dweight, void *dbias)
{
    column_sums<T, OF_NORM>(cuda, {N, H, H, 0, 0, (T *)dy, (const T *)x, stats, NULL}, gradient,
                            dbias, dweight);
}

void cuda_norm_backward_parameters(const void *context, enum model_precision precision, uint32_t N,
                                   uint32_t H, const void *dy, const void *x, const float *stats,
                                   enum kernel_gradient gradient, void *dweight, void *dbias)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, norm_parameters, cuda, N, H, dy, x, stats, gradient, dweight, dbias);
}

template <typename T>
static void rms_weight(const struct cuda_context *cuda, uint32_t N, uint32_t H, const void *dy,
                       const void *x, const float *stats, enum kernel_gradient gradient,
                       void *dweight)
{
    column_sums<T, OF_RMS>(cuda, {N, H, H, 0, 0, (T *)dy, (const T *)x, stats, NULL}, gradient,
                           dweight, NULL);
}

void cuda_rms_backward_weight(const void *context, enum model_precision precision, uint32_t N,
                              uint32_t H, const void *dy, const void *x, const float *stats,
                              enum kernel_gradient gradient, void *dweight)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, rms_weight, cuda, N, H, dy, x, stats, gradient, dweight);
}

template <typename T>
static void bias(const struct cuda_context *cuda, uint32_t N, uint32_t O, uint32_t row,
                 const void *dy, enum kernel_gradient gradient, void *dbias)
{
    column_sums<T, OF_DY>(cuda, {N, O, row, 0, 0, (T *)dy, NULL, NULL, NULL}, gradient, dbias,
                          NULL);
}

void cuda_linear_backward_bias(const void *context, enum model_precision precision, uint32_t N,
                               uint32_t O, uint32_t row, const void *dy,
                               enum kernel_gradient gradient, void *dbias)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, bias, cuda, N, O, row, dy, gradient, dbias);
}

template <typename T>
static void gelu_bias(const struct cuda_context *cuda, enum model_activation of, uint32_t N,
                      uint32_t O, const void *pre, void *dy, enum kernel_gradient gradient,
                      void *dbias)
{
    const struct column_blocks<T> blocks = {
        N, O, O, 0, 0, (T *)dy, (const T *)pre, NULL, NULL
    };
    if (of == MODEL_GELU_EXACT)
        column_sums<T, OF_GELU_EXACT>(cuda, blocks, gradient, dbias, NULL);
    else
        column_sums<T, OF_GELU>(cuda, blocks, gradient, dbias, NULL);
}

void cuda_gelu_backward_bias(const void *context, enum model_precision precision,
                             enum model_activation of, uint32_t N, uint32_t O, const void *pre,
                             void *dy, enum kernel_gradient gradient, void *dbias)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, gelu_bias, cuda, of, N, O, pre, dy, gradient, dbias);
}
