/* The bytes that a rank exchanges with the others in a step's operators. */
#ifndef PSTAR_MODELS_RANK_TRAFFIC_H
#define PSTAR_MODELS_RANK_TRAFFIC_H

#include "models/iteration.h"

struct rank_traffic {
    uint64_t sent_bytes, received_bytes; /* without what a rank sends to itself */
};

/* Sets what each operator of the iteration's trace exchanges (struct trace_exchange) to what this
 * rank exchanges there. model_iteration_new has set it for rank 0. */
void rank_traffic_set(struct model_iteration *iteration, uint32_t rank);

/* Counts, for rank `rank` of p: of each micro-batch's gradients the shards of the other ranks,
 * sent, and p - 1 times its own shard, received; of each complete gradient its blocks' squares,
 * sent to all others, and theirs; the same of each parameter's shard after its update, unless
 * parameters are shared, whose gathers are the plan's; and of its losses. A bucket's gradients are
 * sent once a step; at stage 0 their sums go to all, instead of squares and parameters. All are 0
 * with one rank. */
struct rank_traffic rank_traffic_of(const struct model_iteration *iteration, uint32_t rank);

#endif
