/* Random traces of a training-like iteration, for properties that must hold of any. */
#ifndef PSTAR_TESTS_RANDOM_ITERATION_H
#define PSTAR_TESTS_RANDOM_ITERATION_H

#include "policies/policy.h"
#include "traces/trace.h"

/* Forward over tensors, backward, update; with overwritten gradients, host operators, buffers, tied
 * and oversized tensors, as `random` will have it. Passes trace_check. */
struct trace *random_iteration(GRand *random);

/* Any of policy_all. */
const struct pstar_policy_ops *random_policy(GRand *random);

/* A seed for a property test: PSTAR_SEED of the environment, or the time's; printed. */
guint32 random_seed(void);

#endif
