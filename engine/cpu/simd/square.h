/* The transpose of a 4 x 4 square of fp32, in registers that every machine has. */
#ifndef PSTAR_ENGINE_CPU_SIMD_SQUARE_H
#define PSTAR_ENGINE_CPU_SIMD_SQUARE_H

#include <string.h>

enum { SQUARE = 4 };

typedef float square_row __attribute__((vector_size(16)));

static inline square_row square_load(const float *from)
{
    square_row row;
    memcpy(&row, from, sizeof row);
    return row;
}

static inline void square_transpose(const float *from, size_t from_stride, float *to,
                                    size_t to_stride)
{
    square_row a = square_load(from), b = square_load(from + from_stride);
    square_row c = square_load(from + 2 * from_stride), d = square_load(from + 3 * from_stride);
    square_row ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    square_row ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    square_row cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    square_row cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    square_row columns[SQUARE] = {
        __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5),
        __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
        __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
        __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7),
    };
    for (int i = 0; i < SQUARE; i++)
        memcpy(to + i * to_stride, &columns[i], sizeof columns[i]);
}

#endif
