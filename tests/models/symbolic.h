/* Runs an iteration on symbols instead of numbers: every value is a hash of the computation that
 * made it. What an operator may touch is taken from the trace's accesses and lifetimes alone, what
 * it computes from the formulas of training; a value that was overwritten, never made or already
 * dead yields other symbols, or an error. Two jobs that train alike end with the same symbols. */
#ifndef PSTAR_TESTS_MODELS_SYMBOLIC_H
#define PSTAR_TESTS_MODELS_SYMBOLIC_H

#include "models/iteration.h"

typedef uint64_t symbol; /* 0: nothing */

struct symbolic_result {
    symbol *gradients; /* [tensor_count] as the update found them */
    symbol *norms;     /* [tensor_count] the gradients whose norms were taken */
    symbol *losses;    /* [micro_batches] */
    uint32_t tensor_count, micro_batches;
};

/* Asserts on every violation. Free with symbolic_free. */
struct symbolic_result symbolic_run(const struct model_iteration *iteration);
void symbolic_free(struct symbolic_result *result);

#endif
