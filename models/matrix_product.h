/* The time of one matrix product on a GPU, by its shape.
 *
 * A library computes a product in tiles of the output, one a multiprocessor at a time, so all
 * multiprocessors take as long as the fullest one: tiles at the edges are computed whole (tile
 * quantisation), and the last wave of tiles leaves multiprocessors idle (wave quantisation). With
 * few tiles it splits the inner dimension, as for gradients of weights, whose inner dimension are
 * the tokens. A further kernel then sums the parts. See NVIDIA, "Matrix Multiplication Background
 * User's Guide". For a tile of a x b elements, s splits and p multiprocessors,
 *
 *   waves   = ceil(ceil(rows / a) * ceil(outputs / b) * s / p)
 *   seconds = waves * p * 2 a b * inner / s / (rate * share(a, b)) + kernels * 5e-6
 *
 * Here share(a, b) is how many of a tile's operations come to the bytes that it loads, a b to a + b
 * of each step of the inner dimension, compared with the largest tile, which has 1. What is least
 * over tiles and splits counts, so more rows, outputs or inner columns never take less time. The
 * three constants (a load is as long as PRODUCT_LOAD operations; at most PRODUCT_SPLITS splits; 5
 * microseconds a kernel) are those with the least errors of published products on A100 and H100
 * (bench/papers/products). */
#ifndef PSTAR_MODELS_MATRIX_PRODUCT_H
#define PSTAR_MODELS_MATRIX_PRODUCT_H

#include "models/iteration.h"
#include "platforms/platform.h"

/* [rows, inner] x [inner, outputs]; all above 0. */
struct matrix_product {
    uint64_t rows, outputs, inner;
};

/* Returns the seconds of a product at the rates of `compute` (by operations, 2 * rows * outputs *
 * inner) on a GPU of so many multiprocessors, at least 1. They are never less than those of its
 * operations at the rate. */
double product_seconds(const struct platform_curve *compute, uint32_t multiprocessors,
                       const struct matrix_product *shape);

/* Returns the seconds that all products of an operator take beyond their operations at the rate; 0
 * if the platform does not say how many multiprocessors it has, or if the operator is not a linear
 * layer. A linear layer has one product forward, and backward one for the gradient of its input and
 * one for that of its weight, where these are wanted; an expert's have the expert's rows. */
double product_excess(const struct platform *platform, const struct model_iteration *iteration,
                      const struct model_operator *op);

#endif
