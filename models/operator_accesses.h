/* Which tensors an operator reads and writes, in which list, and how. */
#ifndef PSTAR_MODELS_OPERATOR_ACCESSES_H
#define PSTAR_MODELS_OPERATOR_ACCESSES_H

#include "models/iteration_builder.h"

/* Appends the operator's accesses to the builder's. */
void operator_accesses(struct iteration_builder *builder, const struct model_operator *op);

#endif
