/* Products of small fp32 matrices that lie in a thread's cache, for attention. */
#ifndef PSTAR_ENGINE_CPU_SIMD_PRODUCT_H
#define PSTAR_ENGINE_CPU_SIMD_PRODUCT_H

#include "engine/cpu/simd/simd.h"
#include "engine/cpu/simd/vector.h"

enum {
    PRODUCT_VECTORS = 2,                              /* of a row, held in registers */
    PRODUCT_COLUMNS = PRODUCT_VECTORS * VECTOR_LANES, /* divides 32 */
};

/* One operand: element [row, column] is data[row * row_stride + column * column_stride]. */
struct product_operand {
    const float *data;
    uint32_t row_stride, column_stride;
};

/* `rows` <= PRODUCT_ROWS, a constant at each place of use, of one step of columns. */
static inline __attribute__((always_inline)) void product_block(int rows, uint32_t depth,
                                                                struct product_operand a,
                                                                const float *b, uint32_t b_stride,
                                                                float *c, uint32_t c_stride)
{
    vector sum[PRODUCT_ROWS][PRODUCT_VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < PRODUCT_VECTORS; v++)
            sum[r][v] = vector_load(c + r * c_stride + v * VECTOR_LANES);
    for (uint32_t k = 0; k < depth; k++) {
        vector row[PRODUCT_VECTORS];
        for (int v = 0; v < PRODUCT_VECTORS; v++)
            row[v] = vector_load(b + k * b_stride + v * VECTOR_LANES);
        for (int r = 0; r < rows; r++) {
            vector factor = vector_set(a.data[r * a.row_stride + k * a.column_stride]);
            for (int v = 0; v < PRODUCT_VECTORS; v++)
                sum[r][v] = vector_fma(factor, row[v], sum[r][v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < PRODUCT_VECTORS; v++)
            vector_store(c + r * c_stride + v * VECTOR_LANES, sum[r][v]);
}

/* c[rows, columns] += a[rows, depth] b[depth, columns], the terms in ascending order; `columns` is
 * a multiple of 32, rows of b and c are contiguous. */
static inline void product_add(uint32_t rows, uint32_t columns, uint32_t depth,
                               struct product_operand a, const float *b, uint32_t b_stride,
                               float *c, uint32_t c_stride)
{
    for (uint32_t column = 0; column < columns; column += PRODUCT_COLUMNS) {
        struct product_operand at = a;
        float *to = c + column;
        uint32_t r = 0;
        for (; r + PRODUCT_ROWS <= rows; r += PRODUCT_ROWS) {
            product_block(PRODUCT_ROWS, depth, at, b + column, b_stride, to, c_stride);
            at.data += (uint64_t)PRODUCT_ROWS * a.row_stride;
            to += (uint64_t)PRODUCT_ROWS * c_stride;
        }
        for (; r < rows; r++) {
            product_block(1, depth, at, b + column, b_stride, to, c_stride);
            at.data += a.row_stride;
            to += c_stride;
        }
    }
}

#endif
