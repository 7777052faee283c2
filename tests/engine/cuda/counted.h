/* Launches of kernels that are counted and do not run, so that models of any size can be asked. */
#ifndef PSTAR_TESTS_ENGINE_CUDA_COUNTED_H
#define PSTAR_TESTS_ENGINE_CUDA_COUNTED_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From now on kernels, and products of cublaslt.c, do not touch memory. */
void counted_begin(void);
bool counted_only(void);

/* Kernels launched since counted_begin; without products and clears. */
uint64_t counted_launches(void);

#ifdef __cplusplus
}
#endif

#endif
