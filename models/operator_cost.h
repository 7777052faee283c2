/* What an operator costs, counted from its shapes. Exponentials, square roots and hyperbolic
 * tangents count as one operation each. */
#ifndef PSTAR_MODELS_OPERATOR_COST_H
#define PSTAR_MODELS_OPERATOR_COST_H

#include "models/iteration_builder.h"

/* Floating-point operations of its arithmetic. Causal attention counts the pairs at or below the
 * diagonal only, T * (T + 1) / 2 a sequence and head; unfused, all T * T. */
uint64_t operator_flops(const struct iteration_builder *builder, const struct model_operator *op);

/* Bytes that it reads and bytes that it writes, each operand once: its accesses, from
 * `first_access` on, and its buffers. The embedding counts the rows it touches, not the table.
 * Unfused, each step that could be fused into a product reads and writes its result once more. */
uint64_t operator_bytes(const struct iteration_builder *builder, const struct model_operator *op,
                        uint32_t first_access);

/* Bytes an element in the list; 0: the job has no such list. */
uint64_t operator_list_bytes(const struct model_job *job, enum trace_list list);

/* Whether its time is a matrix product's, not memory traffic's alone. */
bool operator_is_matrix_product(enum model_kind kind);

#endif
