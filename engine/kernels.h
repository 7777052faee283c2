/* The types of the kernels' arguments, on every device. */
#ifndef PSTAR_ENGINE_KERNELS_H
#define PSTAR_ENGINE_KERNELS_H

#include "engine/adamw.h"
#include "engine/random.h"
#include "models/iteration.h"

/* What becomes of a parameter's gradient. */
enum kernel_gradient {
    KERNEL_GRADIENT_SET, /* fp32, overwritten: every element, also where the gradient is zero */
    KERNEL_GRADIENT_ADD, /* fp32, added to what is there */
    KERNEL_GRADIENT_SET_BF16, /* bf16, overwritten; summed in fp32 and rounded once */
    KERNEL_GRADIENT_ADD_BF16  /* bf16: widened, added to in fp32, rounded */
};

/* Inverted dropout: an element stays, divided by 1 - probability, where its word is at least
 * probability * 2^32. Element [row, column] of [rows, columns] draws word row * C + column, C being
 * `columns` rounded up to a multiple of 64. Functions that take a pointer: NULL for none. */
struct kernel_dropout {
    struct random_stream stream;
    double probability; /* in [0, 1) */
};

/* Squares of a gradient are summed in fp64, in at most this many blocks. The blocks depend on the
 * number of elements alone. A GPU gives each of them to one warp and sums in the same order. */
enum { KERNEL_SQUARES_BLOCKS = 1024 };

/* AdamW on `elements` of a tensor or a piece of one. What a layout has not is NULL.
 *   fp32:                      param fp32, gradient fp32
 *   bf16, 12 bytes an element: param bf16, the upper half of the master; rest, the other half
 *                              (bf16_join); gradient_bf16
 *   bf16, 14 bytes an element: param bf16 holds the gradient and receives the parameter; master
 *   bf16, 16 bytes an element: as 12, gradient fp32
 *   bf16, 18 bytes an element: param bf16, gradient fp32, master */
struct kernel_adamw {
    uint64_t elements;
    void *param;
    const float *gradient;
    const uint16_t *gradient_bf16;
    float *master;
    uint16_t *rest;
    float *exp_avg, *exp_avg_sq;
};

#endif
