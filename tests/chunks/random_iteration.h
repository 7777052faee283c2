/* Random traces like those of a training iteration, for properties that must hold for every trace.
 */
#ifndef PSTAR_TESTS_CHUNKS_RANDOM_ITERATION_H
#define PSTAR_TESTS_CHUNKS_RANDOM_ITERATION_H

#include "policies/policy.h"
#include "traces/trace.h"

/* Forward over tensors, backward, update; with overwritten gradients, host operators, buffers, tied
 * and oversized tensors, and tensors whose states are cut, drawn from `random`. The trace passes
 * trace_check. */
struct trace *random_iteration(GRand *random);

/* The same with several ranks and shared parameters: forward and backward read gathered copies. */
struct trace *shared_iteration(GRand *random);

/* One or two micro-batches of one of several ranks, with reductions that the network's queue runs.
 * The ranks share their parameters, or exchange them after the updates. */
struct trace *ranks_iteration(GRand *random);

/* Operators in the order of the phases that read, update and overwrite lists of a few tensors as
 * chance has it, on either side. So the host may write what nobody reads. The trace passes
 * trace_check. */
struct trace *wild_iteration(GRand *random);

/* Puts the updates at the end of the iteration into a random order; if `random` is NULL, reverses
 * them. */
void shuffle_updates(struct trace *trace, GRand *random);

/* Any of policy_all. */
const struct pstar_policy_ops *random_policy(GRand *random);

/* Returns the seed for a property test, from the environment variable PSTAR_SEED or from the time,
 * and prints it. */
guint32 random_seed(void);

#endif
