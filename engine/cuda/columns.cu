/* Sums over rows, of the bias' and the norms' parameters' gradients: blocks of 64 rows are summed
 * into the scratch, and the blocks then, in the order of engine/cpu/simd/columns.h. As many blocks
 * a round as the scratch holds. */
#include "engine/cuda/by_precision.h"
#include "engine/cuda/gradient_store.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/tile.h"
#include <glib.h>

enum { ROWS = 64, WARPS = 4, THREADS = WARPS * WARP, GRID_LIMIT = 65535 };

/* A bias' sums are those of dy, a norm's those of dy normalised x beside. */
template <typename T> struct column_blocks {
    uint32_t N, columns;
    uint32_t first, blocks; /* of the round */
    const T *dy;
    const T *x; /* NULL: a bias */
    const float *stats;
    float *sums; /* [arrays, blocks, columns]: of dy, of the products */
};

/* Rows whose loads are under way together, and blocks of a multiprocessor, which must leave each
 * other registers for that. */
template <bool NORM> constexpr int rows_ahead = NORM ? 8 : 16;
enum { TOGETHER = 6 };

/* A warp sums a tile of columns. In place of rows beyond the block's, -0 changes no sum, and the
 * last row is loaded again: loads on a condition would come one after the other. */
template <typename T, bool EVEN, bool NORM>
__global__ void __launch_bounds__(THREADS, TOGETHER) column_blocks_kernel(struct column_blocks<T> a)
{
    enum { AHEAD = rows_ahead<NORM> };
    uint32_t tile = blockIdx.x * WARPS + threadIdx.x / WARP, block = blockIdx.y;
    uint32_t column = tile * TILE + threadIdx.x % WARP * 2;
    uint64_t begin = (uint64_t)(a.first + block) * ROWS;
    uint64_t end = begin + ROWS < a.N ? begin + ROWS : a.N;
    struct pair sum = {0, 0}, sum_normal = {0, 0};
    if (column >= a.columns)
        return;
    for (uint64_t first = begin; first < end; first += AHEAD) {
        struct pair dy[AHEAD], normal[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            uint64_t n = first + i < end ? first + i : end - 1;
            dy[i] = pair_load_known<EVEN>(a.dy + n * a.columns, column, a.columns, 0);
            if (NORM) {
                float mean = a.stats[n], inverse = a.stats[a.N + n];
                struct pair x = pair_load_known<EVEN>(a.x + n * a.columns, column, a.columns, 0);
                normal[i] = {(x.a - mean) * inverse, (x.b - mean) * inverse};
            }
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            bool there = first + i < end;
            sum.a += there ? dy[i].a : -0.0f;
            sum.b += there ? dy[i].b : -0.0f;
            if (NORM) {
                sum_normal.a += there ? dy[i].a * normal[i].a : -0.0f;
                sum_normal.b += there ? dy[i].b * normal[i].b : -0.0f;
            }
        }
    }
    pair_store(a.sums + (uint64_t)block * a.columns, column, a.columns, sum);
    if (NORM)
        pair_store(a.sums + (uint64_t)(a.blocks + block) * a.columns, column, a.columns,
                   sum_normal);
}

template <typename T, bool NORM>
static void column_blocks_launch(const struct cuda_context *cuda, const struct column_blocks<T> &a)
{
    launch(a.columns % 2 == 0 ? column_blocks_kernel<T, true, NORM>
                              : column_blocks_kernel<T, false, NORM>,
           dim3(launch_blocks(tiles_of(a.columns), WARPS), a.blocks), THREADS, 0, cuda->stream, a);
}

struct column_totals {
    uint32_t columns, blocks;
    bool first, last;  /* rounds */
    const float *sums; /* [arrays, blocks, columns] */
    float *totals;     /* [arrays, columns], between rounds */
    enum cpu_gradient gradient;
    void *gradients[2]; /* of each array */
};

enum { TOTALS_AHEAD = 64 }; /* blocks whose loads are under way together */

/* A thread a column, the block's y its array. Blocks beyond the last are -0. */
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

template <typename T>
static void column_sums(const struct cuda_context *cuda, uint32_t N, uint32_t columns,
                        const void *dy, const void *x, const float *stats,
                        enum cpu_gradient gradient, void *dbias, void *dweight)
{
    uint32_t arrays = x ? 2 : 1, blocks = launch_blocks(N, ROWS);
    uint32_t room = (uint32_t)(cuda->scratch_bytes / sizeof(float) / columns / arrays);
    g_assert(room >= 2);
    room = MIN(room, (uint32_t)GRID_LIMIT);
    float *totals = (float *)cuda->scratch, *sums = totals + (uint64_t)arrays * columns;
    for (uint32_t first = 0; first < blocks; first += room - 1) {
        uint32_t count = MIN(room - 1, blocks - first);
        struct column_blocks<T> of_blocks = {
            N, columns, first, count, (const T *)dy, (const T *)x, stats, sums
        };
        if (x)
            column_blocks_launch<T, true>(cuda, of_blocks);
        else
            column_blocks_launch<T, false>(cuda, of_blocks);
        struct column_totals of_round = {columns, count,  first == 0, first + count == blocks,
                                         sums,    totals, gradient,   {dbias, dweight}};
        launch(column_totals_kernel, dim3(launch_blocks(columns, THREADS), arrays), THREADS, 0,
               cuda->stream, of_round);
    }
}

void cuda_norm_backward_parameters(const struct cuda_context *cuda, enum model_precision precision,
                                   uint32_t N, uint32_t H, const void *dy, const void *x,
                                   const float *stats, enum cpu_gradient gradient, void *dweight,
                                   void *dbias)
{
    BY_PRECISION(precision, column_sums, cuda, N, H, dy, x, stats, gradient, dbias, dweight);
}

void cuda_linear_backward_bias(const struct cuda_context *cuda, enum model_precision precision,
                               uint32_t N, uint32_t O, const void *dy, enum cpu_gradient gradient,
                               void *dbias)
{
    BY_PRECISION(precision, column_sums, cuda, N, O, dy, NULL, NULL, gradient, dbias, NULL);
}
