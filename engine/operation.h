/* One operator with its operands resolved to addresses, as a device receives it. */
#ifndef PSTAR_ENGINE_OPERATION_H
#define PSTAR_ENGINE_OPERATION_H

#include "engine/adamw.h"
#include "models/iteration.h"

/* A tensor's address in each list that the operator accesses; NO_ADDRESS elsewhere. */
struct operation_tensor {
    uint64_t address[TRACE_LISTS];
    uint64_t gradient; /* in TRACE_GRAD, over the parameter, or a buffer: see model_gradient. With
                          several ranks a buffer with this rank's micro-batch */
    uint64_t elements;
    double *norm; /* where the sum of the squares of its finished gradient goes; NULL if it is not
                     due */
};

/* Addresses are bytes from the start of the arena, or of the host pool for an operator on the host.
 * An address is NO_ADDRESS if the operator has no such operand. */
struct operation {
    const struct model_operator *op;
    moment_id moment;
    const char *name; /* of the operator in the trace, which outlives the operation */
    const struct model_config *config;
    const struct model_job *job;

    struct operation_tensor tensor[MODEL_TENSORS];
    const struct operation_tensor *bucket; /* MODEL_REDUCE_BUCKET: [op->bucket_count]; the executor
                                              keeps them */
    uint64_t in[MODEL_INPUTS], out[MODEL_OUTPUTS]; /* buffers */
    uint64_t newest[MODEL_TENSORS];                /* buffers with the newest parameters */
    uint64_t workspace, masked;

    const uint32_t *
        tokens; /* [2, B, T]: inputs and targets, for operators on the host; others have a buffer */
    uint64_t seed;  /* of dropout */
    uint32_t pass;  /* micro-batches since the start of training */
    bool training;  /* if false, there is no dropout, and the logits stay unchanged */
    double *loss;   /* MODEL_LOSS: the sum over the micro-batch's targets that count, which
                       MODEL_BALANCE_LOSS adds to */
    double divisor; /* of losses and MODEL_LOSS' gradient: the number of these targets in the whole
                       step, at least 1; of an evaluation, in its micro-batch */
    struct adamw_step adamw; /* MODEL_UPDATE */
    /* MODEL_UPDATE: the gradient's factor, which the device's `clip` writes and the operator reads
     * when it runs. If this is NULL, the factor is in `adamw`. */
    const double *gradient_scale;
    uint64_t turn; /* of its collectives, if operation_exchanges; the device issues it */
};

/* Returns whether the operator exchanges anything with other ranks, if there are any. */
static inline bool operation_exchanges(const struct operation *operation)
{
    return model_kind_reduces(operation->op->kind) || operation->op->kind == MODEL_NEWEST ||
           model_update_gathers(operation->job, operation->op);
}

#endif
