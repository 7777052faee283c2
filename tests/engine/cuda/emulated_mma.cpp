#include "kernel_target.h"

#include "engine/bf16.h"
#include <stdlib.h>

namespace
{

float half_of(uint32_t halves, unsigned which)
{
    return bf16_widen((uint16_t)(halves >> (16 * which)));
}

uint16_t to_even(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

struct operands {
    uint32_t a[4], b[2];
};

/* Return elements [row, k] of a and [k, column] of b, from the lanes that hold them. */
float a_at(const operands *lanes, unsigned row, unsigned k)
{
    return half_of(lanes[row % 8 * 4 + k % 8 / 2].a[row / 8 + k / 8 * 2], k % 2);
}

float b_at(const operands *lanes, unsigned k, unsigned column)
{
    return half_of(lanes[column * 4 + k % 8 / 2].b[k / 8], k % 2);
}

const uint16_t *const *exchange_rows(const uint16_t *row)
{
    if ((uintptr_t)row % 16 != 0)
        abort();
    return (const uint16_t *const *)emulation_exchange(&row, sizeof row);
}

} // namespace

void mma_add(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    operands mine = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    const operands *lanes = (const operands *)emulation_exchange(&mine, sizeof mine);
    unsigned lane = threadIdx.x % 32;
    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < 16; k++)
            c[i] += a_at(lanes, lane / 4 + i / 2 * 8, k) * b_at(lanes, k, lane % 4 * 2 + i % 2);
}

void matrices_load(const uint16_t *row, uint32_t matrices[4])
{
    const uint16_t *const *rows = exchange_rows(row);
    unsigned lane = threadIdx.x % 32;
    for (unsigned m = 0; m < 4; m++) {
        const uint16_t *from = rows[m * 8 + lane / 4] + lane % 4 * 2;
        matrices[m] = from[0] | (uint32_t)from[1] << 16;
    }
}

void matrices_load_transposed(const uint16_t *row, uint32_t matrices[4])
{
    const uint16_t *const *rows = exchange_rows(row);
    unsigned lane = threadIdx.x % 32;
    for (unsigned m = 0; m < 4; m++) {
        const uint16_t *const *from = rows + m * 8 + lane % 4 * 2;
        matrices[m] = from[0][lane / 4] | (uint32_t)from[1][lane / 4] << 16;
    }
}

uint32_t halves_even(float low, float high)
{
    return to_even(low) | (uint32_t)to_even(high) << 16;
}
