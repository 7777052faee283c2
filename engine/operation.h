/* One operator with its operands resolved to addresses, as a device is handed it. */
#ifndef PSTAR_ENGINE_OPERATION_H
#define PSTAR_ENGINE_OPERATION_H

#include "models/iteration.h"

#define OPERATION_ABSENT UINT64_MAX

/* A tensor's address in each list that the operator accesses; OPERATION_ABSENT elsewhere. */
struct operation_tensor {
    uint64_t address[TRACE_LISTS];
    uint64_t gradient; /* in TRACE_GRAD or over the parameter: see model_gradient */
    uint64_t elements;
    double *norm; /* where the sum of the squares of its finished gradient goes; NULL: not due */
};

/* AdamW's constants of one step. */
struct operation_adamw {
    float learning_rate, weight_decay;
    float beta1, beta2, epsilon;
    float correction1, correction2; /* 1 - beta^t, computed once on the host */
    float clip;                     /* factor of every gradient */
};

struct operation {
    const struct model_operator *operator;
    const struct model_config *config;
    const struct model_job *job;

    struct operation_tensor tensor[2];
    uint64_t in[4], out[2]; /* buffers; OPERATION_ABSENT */
    uint64_t workspace, masked;

    const uint32_t *tokens, *targets; /* [B, T] of the micro-batch */
    uint64_t seed, step;              /* keys of dropout */
    bool training;                    /* false: no dropout, and no gradient of the loss */
    double *loss;                     /* mean over the micro-batch's rows: of MODEL_LOSS */
    struct operation_adamw adamw;
};

#endif
