/* Controls the model of cuBLASLt and of the CUDA runtime (cublaslt.c). */
#ifndef PSTAR_TESTS_ENGINE_CUDA_CUBLASLT_H
#define PSTAR_TESTS_ENGINE_CUDA_CUBLASLT_H

#include <stdbool.h>
#include <stdint.h>

/* If true, products and synchronisations fail. */
extern bool cublaslt_refuses;
/* An epilogue, cublasLtEpilogue_t, for which there is no algorithm; 0 if there is one for each. */
extern uint32_t cublaslt_lacks;
/* How often an algorithm was searched for. */
extern uint32_t cublaslt_searches;
/* How often a stream was synchronised. */
extern uint32_t cublaslt_synchronised;

/* Products that were computed, and how long each algorithm takes. */
enum { CUBLASLT_ALGORITHMS = 3 };
extern uint32_t cublaslt_products;
extern float cublaslt_milliseconds[CUBLASLT_ALGORITHMS];

#endif
