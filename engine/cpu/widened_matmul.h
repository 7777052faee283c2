/* bf16 matrix products by fp32 ones of widened tiles, for machines whose library has no bf16. */
#ifndef PSTAR_ENGINE_CPU_WIDENED_MATMUL_H
#define PSTAR_ENGINE_CPU_WIDENED_MATMUL_H

#include "engine/cpu/matmul.h"

enum {
    WIDENED_MATMUL_TILE = 512, /* rows and columns of a tile of a, of b and of c */
    WIDENED_MATMUL_BYTES = 3 * WIDENED_MATMUL_TILE * WIDENED_MATMUL_TILE * 4
};

/* As matmul_run, for shapes whose `in` is bf16; `scratch`: WIDENED_MATMUL_BYTES. Terms are summed
 * in fp32, in the order of the tiles of K. */
void widened_matmul(const struct matmul_shape *shape, const uint16_t *a, const uint16_t *b,
                    const uint16_t *bias, void *c, float *scratch);

#endif
