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

/* Elements from one stored row to the next. */
uint32_t matmul_a_row(const struct matmul_shape *shape);
uint32_t matmul_b_row(const struct matmul_shape *shape);
uint32_t matmul_c_row(const struct matmul_shape *shape);

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

#endif
