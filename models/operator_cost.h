/* Counts what an operator costs from its shapes. Exponentials, square roots and hyperbolic tangents
 * count as one operation each. */
#ifndef PSTAR_MODELS_OPERATOR_COST_H
#define PSTAR_MODELS_OPERATOR_COST_H

#include "models/iteration_builder.h"

/* Operations an element, counted from the formulas. A model is recognised by them, too
 * (models/recognise.c). */
enum operator_cost {
    COST_NORM = 7,       /* sum; subtract, square, sum; subtract, scale, scale and shift */
    COST_ROTARY = 3,     /* two products and their sum */
    COST_EXACT_GELU = 5, /* 0.5 x (1 + erf(c x)) */
    COST_SOFTMAX = 5,    /* scale, maximum, subtract, exponential, sum */
    COST_CAP = 3         /* divide, hyperbolic tangent, multiply; as many for its derivative */
};

/* Returns the floating-point operations. Causal attention counts only the pairs at or below the
 * diagonal, T * (T + 1) / 2 a sequence and head; attention that is bidirectional or unfused counts
 * all T * T. */
uint64_t operator_flops(const struct iteration_builder *builder, const struct model_operator *op);

/* Returns the bytes read and written, each operand once. Operands are the accesses from
 * `first_access` on, and the buffers. The embedding counts the rows that it touches, not the table.
 * Unfused, each step that could be part of another passes over its columns once more. */
uint64_t operator_bytes(const struct iteration_builder *builder, const struct model_operator *op,
                        uint32_t first_access);

/* Returns the number of kernels that the operator launches if nothing is fused; 0 for an update. */
uint64_t operator_kernels(const struct model_config *config, const struct model_operator *op);

/* Returns the bytes an element in the list, or 0 if the job has no such list. */
uint64_t operator_list_bytes(const struct model_job *job, enum trace_list list);

/* Returns whether the operator's time depends on matrix products, not on memory traffic alone. */
bool operator_is_matrix_product(enum model_kind kind);

bool operator_is_attention(enum model_kind kind);

#endif
