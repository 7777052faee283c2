/* A model's operators on one device's kernels and one memory. */
#ifndef PSTAR_ENGINE_OPERATORS_H
#define PSTAR_ENGINE_OPERATORS_H

#include "engine/kernels.h"
#include "engine/operation.h"
#include "engine/reduction.h"

/* For one thread at a time. Set the first four fields and begin with zeros in the others. */
struct operators {
    const struct kernels *kernels;
    const void *context;         /* the kernels' context */
    struct reduction *reduction; /* NULL with one rank */
    struct ranks *stages;        /* NULL with one stage */
    uint8_t *memory;             /* the arena, or the host pool for operators on the host */
    uint64_t *order; /* [order_rows] workspace of the embedding's backward on the host; grows
                        with the first use. Free with g_free */
    uint32_t order_rows;
    float *rotary; /* cosines and sines of rotary_positions positions, two times [T, pairs]; made
                      with the first use. Free with g_free */
    const float *rotary_table; /* the same where the kernels read it */
    uint32_t rotary_positions;
};

/* Turns the operation's addresses into pointers into the memory, and calls the kernels of its kind.
 * An update that is shared with other ranks wants operators_share_update behind it. */
void operators_run(struct operators *operators, const struct operation *operation);

/* Gives every rank the whole parameter, of which each has updated its shard, if the operation is an
 * update of a parameter that all ranks hold whole and that it has not got already. */
void operators_share_update(struct operators *operators, const struct operation *operation);

#endif
