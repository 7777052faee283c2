#include "engine/cpu/simd/columns.h"
#include "engine/cpu/simd/loops.h"

void SIMD(column_sums)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_column_sums *a = arguments;
    for (uint32_t t = (uint32_t)first; t < end; t++) {
        struct tile_span span = tile_of(t, a->O);
        struct column_sum sum = {0};
        for (uint64_t n = 0; n < a->N; n++) {
            tile_fp32 dy;
            tile_load(a->precision, a->dy, n * a->O + span.first, span.count, 0, dy);
            column_sum_add(&sum, dy);
        }
        column_sum_end(&sum);
        tile_store_gradient(a->gradient, a->dbias, span.first, span.count, sum.total);
    }
}
