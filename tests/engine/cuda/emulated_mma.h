/* engine/cuda/mma.h's functions on the host. A copy is made when it is started or when it is waited
 * for, by chance: reading too early, or overwriting what others still read, changes results. */
#ifndef PSTAR_TESTS_CUDA_EMULATED_MMA_H
#define PSTAR_TESTS_CUDA_EMULATED_MMA_H

#include "emulation.h"

void mma_add(float c[4], const uint32_t a[4], const uint32_t b[2]);
void matrices_load(const uint16_t *row, uint32_t matrices[4]);
void matrices_load_transposed(const uint16_t *row, uint32_t matrices[4]);
uint32_t halves_even(float low, float high);
void copy_start(void *shared, const void *from, bool there);
void copy_start_word(void *shared, const void *from, bool there);
void copy_group();
void emulation_copy_wait(unsigned left);

static inline float power_of_two(float x)
{
    return exp2f(x);
}

static inline uint32_t afresh(uint32_t x)
{
    return x;
}

template <int LEFT> void copy_wait()
{
    emulation_copy_wait(LEFT);
}

#endif
