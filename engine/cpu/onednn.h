/* The part of oneDNN's C interface that versions 2 and 3 spell differently, spelled once. */
#ifndef PSTAR_ENGINE_CPU_ONEDNN_H
#define PSTAR_ENGINE_CPU_ONEDNN_H

#include <dnnl.h>
#include <stdbool.h>
#include <stdint.h>

/* Ends the program where oneDNN fails: its arguments are ours, not a user's. */
void onednn_check(dnnl_status_t status);

/* A matrix of [rows, columns], row-major, or stored transposed; stored rows are `row` elements
 * apart. Free with onednn_matrix_free. */
dnnl_memory_desc_t onednn_matrix(uint32_t rows, uint32_t columns, uint32_t row, bool transposed,
                                 dnnl_data_type_t type);
void onednn_matrix_free(dnnl_memory_desc_t *matrix);

/* A memory of this form, whose address is set later. */
dnnl_memory_t onednn_memory(dnnl_engine_t engine, const dnnl_memory_desc_t *matrix);

/* c = a b + bias, or c += a b; `bias` may be NULL. The primitive takes its scratch from the caller.
 * False where oneDNN has no such product on this machine. */
bool onednn_matmul(dnnl_engine_t engine, const dnnl_memory_desc_t *a, const dnnl_memory_desc_t *b,
                   const dnnl_memory_desc_t *bias, const dnnl_memory_desc_t *c, bool add,
                   dnnl_primitive_desc_t *matmul);

/* A memory for the primitive's scratch; returns how many bytes it must have. */
uint64_t onednn_scratch(dnnl_engine_t engine, const_dnnl_primitive_desc_t matmul,
                        dnnl_memory_t *scratch);

#endif
