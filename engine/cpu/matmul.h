/* Matrix products by oneDNN: c[M,N] = a[M,K] b[K,N] + bias[N]. In bf16 one primitive a shape, made
 * at its first use and kept, so that the algorithm of a shape is fixed; in fp32 sgemm, whose
 * algorithm depends on the shape and the number of threads alone. */
#ifndef PSTAR_ENGINE_CPU_MATMUL_H
#define PSTAR_ENGINE_CPU_MATMUL_H

#include "models/iteration.h"

/* Compared byte by byte: begin with all zero. */
struct matmul_shape {
    uint32_t M, N, K;
    uint32_t a_row, c_row; /* elements from one stored row to the next; 0: they are contiguous */
    uint8_t transposed_a, transposed_b; /* stored [K,M], [N,K] */
    uint8_t in, out;                    /* enum model_precision of a, b and bias; of c: fp32
                                           where `in` is */
    uint8_t bias;                       /* with one */
    uint8_t add;                        /* to what c holds; without bias */
};

struct matmul_library;

/* For products on `threads` threads. */
struct matmul_library *matmul_library_new(unsigned threads);
void matmul_library_free(struct matmul_library *library);

/* Scratch that the bf16 products met so far share. sgemm takes and frees its own: 10 MiB a thread
 * at most. */
uint64_t matmul_library_bytes(const struct matmul_library *library);

/* `bias` is NULL where the shape has none; c overlaps nothing else. Where the library cannot
 * multiply bf16 on this machine, tiles are widened to fp32. */
void matmul_run(struct matmul_library *library, const struct matmul_shape *shape, const void *a,
                const void *b, const void *bias, void *c);

/* ---- bf16 matrix products by fp32 ones of widened tiles, for machines whose library has no bf16.
 * ---- */

enum {
    WIDENED_MATMUL_TILE = 512, /* rows and columns of a tile of a, of b and of c */
    WIDENED_MATMUL_BYTES = 3 * WIDENED_MATMUL_TILE * WIDENED_MATMUL_TILE * 4
};

/* As matmul_run, for shapes whose `in` is bf16; `scratch`: WIDENED_MATMUL_BYTES. Terms are summed
 * in fp32, in the order of the tiles of K. */
void widened_matmul(const struct matmul_shape *shape, const uint16_t *a, const uint16_t *b,
                    const uint16_t *bias, void *c, float *scratch);

#endif
