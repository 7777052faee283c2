/* Which model and job a trace is of, read off the trace alone. */
#ifndef PSTAR_MODELS_RECOGNISE_H
#define PSTAR_MODELS_RECOGNISE_H

#include "models/iteration.h"

struct recognised {
    struct model_config *config; /* what shapes an iteration; probabilities of dropout are 0.1 where
                                    there is any, epsilon and the like are defaults */
    struct model_iteration
        *iteration; /* its trace is the given one but for strings and durations */
};

/* Shapes come from the sizes of tensors, heads from attention's operations, dropout from what it
 * leaves. The result is not guessed: the iteration that it describes has every operator, access,
 * count and buffer of the trace. Fails (TRACE_ERROR_INVALID) where that is not so: the run was
 * another program's. The caller frees the result with recognised_free. */
struct recognised *recognise(const struct trace *trace, GError **error);
void recognised_free(struct recognised *recognised); /* NULL is allowed */

#endif
