#include "engine/cpu/widened_matmul.h"
#include "engine/bf16.h"

#include <dnnl.h>

enum { TILE = WIDENED_MATMUL_TILE };

/* A piece of a stored matrix: `rows` and `columns` as stored. */
struct piece {
    uint32_t row, column, rows, columns;
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The tile at [row, column] of a matrix of [rows, columns] that may be stored transposed. */
static struct piece piece_at(uint32_t row, uint32_t column, uint32_t rows, uint32_t columns,
                             bool transposed)
{
    uint32_t high = least(TILE, rows - row), wide = least(TILE, columns - column);
    return transposed ? (struct piece){column, row, wide, high}
                      : (struct piece){row, column, high, wide};
}

/* Into rows of TILE elements. */
static void widen(const uint16_t *from, uint64_t stride, struct piece piece, float *to)
{
#pragma omp parallel for
    for (uint32_t r = 0; r < piece.rows; r++)
        for (uint32_t i = 0; i < piece.columns; i++)
            to[r * TILE + i] = bf16_widen(from[(piece.row + r) * stride + piece.column + i]);
}

static void store(const struct matmul_shape *shape, struct piece piece, const float *sums,
                  const uint16_t *bias, void *c)
{
    uint64_t stride = matmul_c_row(shape);
#pragma omp parallel for
    for (uint32_t r = 0; r < piece.rows; r++)
        for (uint32_t i = 0; i < piece.columns; i++) {
            uint64_t at = (piece.row + r) * stride + piece.column + i;
            float sum = sums[r * TILE + i];
            if (shape->bias)
                sum += bf16_widen(bias[piece.column + i]);
            if (shape->out == MODEL_BF16)
                ((uint16_t *)c)[at] = bf16_round(sum);
            else
                ((float *)c)[at] = shape->add ? ((float *)c)[at] + sum : sum;
        }
}

void widened_matmul(const struct matmul_shape *shape, const uint16_t *a, const uint16_t *b,
                    const uint16_t *bias, void *c, float *scratch)
{
    float *a_tile = scratch, *b_tile = a_tile + TILE * TILE, *sums = b_tile + TILE * TILE;
    uint64_t a_stride = matmul_a_row(shape), b_stride = matmul_b_row(shape);
    g_assert(!shape->add || shape->out == MODEL_FP32);
    for (uint32_t m = 0; m < shape->M; m += TILE)
        for (uint32_t n = 0; n < shape->N; n += TILE) {
            struct piece to = piece_at(m, n, shape->M, shape->N, false);
            for (uint32_t k = 0; k < shape->K; k += TILE) {
                widen(a, a_stride, piece_at(m, k, shape->M, shape->K, shape->transposed_a), a_tile);
                widen(b, b_stride, piece_at(k, n, shape->K, shape->N, shape->transposed_b), b_tile);
                dnnl_sgemm(shape->transposed_a ? 'T' : 'N', shape->transposed_b ? 'T' : 'N',
                           to.rows, to.columns, least(TILE, shape->K - k), 1, a_tile, TILE, b_tile,
                           TILE, k > 0 ? 1 : 0, sums, TILE);
            }
            store(shape, to, sums, bias, c);
        }
}
