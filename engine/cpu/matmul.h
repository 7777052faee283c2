/* Matrix products by oneDNN: c[M,N] = a[M,K] b[K,N] + bias[N]. In bf16 a primitive is made at the
 * first use of a shape and kept, so that the algorithm of a shape is fixed. In fp32 it is sgemm,
 * whose algorithm depends on the shape and the number of threads alone. */
#ifndef PSTAR_ENGINE_CPU_MATMUL_H
#define PSTAR_ENGINE_CPU_MATMUL_H

#include "models/iteration.h"

/* Shapes are compared byte by byte, so padding must be zero. */
struct matmul_shape {
    uint32_t M, N, K;
    uint32_t a_row, c_row; /* elements from one stored row to the next; 0 if rows are contiguous */
    uint8_t transposed_a, transposed_b; /* a is stored as [K,M], b as [N,K] */
    uint8_t in, out; /* enum model_precision: of a, b and bias; of c, which is fp32 if `in` is */
    uint8_t bias;    /* whether there is one */
    uint8_t panels;  /* c is computed in panels of rows, the same ones with and without `add`. Only
                        for contiguous c in fp32, without a bias */
    uint8_t add;     /* whether to add the product to c, after it is computed; needs `panels` */
    uint8_t onto;    /* whether the sums begin with c, which is of `in`; without a bias */
};

struct matmul_library;

/* The products run on `threads` threads. */
struct matmul_library *matmul_library_new(unsigned threads);
void matmul_library_free(struct matmul_library *library);

/* Returns the bytes of the scratch that the bf16 products share, and of the panel that is added to
 * c: about 4 MiB, or 64 rows of c if these are more. sgemm takes and frees its own scratch, at most
 * 10 MiB a thread. */
uint64_t matmul_library_bytes(const struct matmul_library *library);

/* `bias` is NULL if the shape has none. c overlaps no other operand. Where the library cannot
 * multiply bf16 on this machine, tiles are widened to fp32. */
void matmul_run(struct matmul_library *library, const struct matmul_shape *shape, const void *a,
                const void *b, const void *bias, void *c);

/* ---- for machines whose library cannot multiply bf16 ---- */

enum {
    WIDENED_MATMUL_TILE = 512, /* rows and columns of a tile of a, of b and of c */
    WIDENED_MATMUL_BYTES = 3 * WIDENED_MATMUL_TILE * WIDENED_MATMUL_TILE * 4
};

/* As matmul_run, for shapes whose `in` is bf16. `scratch` has WIDENED_MATMUL_BYTES. Terms are
 * summed in fp32, in the order of the tiles of K. */
void widened_matmul(const struct matmul_shape *shape, const uint16_t *a, const uint16_t *b,
                    const uint16_t *bias, void *c, float *scratch);

#endif
