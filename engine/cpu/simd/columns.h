/* The sum of a tile of columns over many rows: rows are summed in blocks, and the blocks then,
 * which keeps the error of a long sum small. */
#ifndef PSTAR_ENGINE_CPU_SIMD_COLUMNS_H
#define PSTAR_ENGINE_CPU_SIMD_COLUMNS_H

#include "engine/cpu/simd/tile.h"

enum { COLUMN_BLOCK = 64 };

/* Begins as all zero; `total` is complete after column_sum_end. */
struct column_sum {
    tile_fp32 block, total;
    uint32_t rows; /* in the block */
};

static inline void column_sum_end(struct column_sum *sum)
{
    tile_add(sum->total, sum->block);
    tile_fill(sum->block, 0);
    sum->rows = 0;
}

static inline void column_sum_add(struct column_sum *sum, const float row[SIMD_TILE])
{
    tile_add(sum->block, row);
    if (++sum->rows == COLUMN_BLOCK)
        column_sum_end(sum);
}

#endif
