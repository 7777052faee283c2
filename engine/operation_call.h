/* An operation as a device's kernels are called with it: its operands as pointers into one memory,
 * and what its model, job and kind say of it. */
#ifndef PSTAR_ENGINE_OPERATION_CALL_H
#define PSTAR_ENGINE_OPERATION_CALL_H

#include "engine/kernels.h"
#include "engine/operation.h"

/* N rows, H width. Must not move: `dropout` points into it. */
struct operation_call {
    uint8_t *memory; /* the arena, or the host pool */
    const struct operation *operation;
    const struct model_operator *op;
    const struct model_config *config;
    enum model_precision precision;
    enum model_gradient layout;
    uint32_t B, T, N, H;
    struct kernel_dropout storage;
    const struct kernel_dropout *dropout; /* NULL: none */
};

/* NULL where the operation has no such operand. */
static inline void *call_at(const struct operation_call *call, uint64_t address)
{
    return address == NO_ADDRESS ? NULL : call->memory + address;
}

static inline void *call_in(const struct operation_call *call, int i)
{
    return call_at(call, call->operation->in[i]);
}

static inline void *call_out(const struct operation_call *call, int i)
{
    return call_at(call, call->operation->out[i]);
}

static inline void *call_parameter(const struct operation_call *call, int i)
{
    return call_at(call, call->operation->tensor[i].address[TRACE_PARAM]);
}

static inline void *call_gradient(const struct operation_call *call, int i)
{
    return call_at(call, call->operation->tensor[i].gradient);
}

static inline enum kernel_gradient call_gradient_kind(const struct operation_call *call, bool add)
{
    if (call->layout == MODEL_GRADIENT_LIST)
        return add ? KERNEL_GRADIENT_ADD : KERNEL_GRADIENT_SET;
    return add ? KERNEL_GRADIENT_ADD_BF16 : KERNEL_GRADIENT_SET_BF16;
}

static inline enum model_precision call_gradient_precision(const struct operation_call *call)
{
    return call->layout == MODEL_GRADIENT_LIST ? MODEL_FP32 : call->precision;
}

static inline struct kernel_adamw call_adamw(const struct operation_call *call)
{
    const struct operation_tensor *tensor = &call->operation->tensor[0];
    bool split = call->operation->job->split_masters;
    void *master = call_at(call, tensor->address[TRACE_MASTER]);
    return (struct kernel_adamw){
        .elements = tensor->elements,
        .param = call_at(call, tensor->address[TRACE_PARAM]),
        .gradient = call_at(call, tensor->address[TRACE_GRAD]),
        .gradient_bf16 = call->layout == MODEL_GRADIENT_BUFFER ? call_gradient(call, 0) : NULL,
        .master = split ? NULL : master,
        .rest = split ? master : NULL,
        .exp_avg = call_at(call, tensor->address[TRACE_EXP_AVG]),
        .exp_avg_sq = call_at(call, tensor->address[TRACE_EXP_AVG_SQ]),
    };
}

static inline double call_dropout_probability(const struct model_config *config, uint8_t kind)
{
    switch (kind) {
    case MODEL_EMBED_FORWARD:
    case MODEL_EMBED_BACKWARD:
        return config->embedding_dropout;
    case MODEL_ATTENTION_FORWARD:
    case MODEL_ATTENTION_BACKWARD:
        return config->attention_dropout;
    default:
        return config->residual_dropout;
    }
}

static inline void call_init(struct operation_call *call, uint8_t *memory,
                             const struct operation *operation)
{
    const struct model_job *job = operation->job;
    *call = (struct operation_call){
        .memory = memory,
        .operation = operation,
        .op = operation->op,
        .config = operation->config,
        .precision = job->precision,
        .layout = model_gradient_layout(job),
        .B = job->batch,
        .T = job->sequence,
        .N = job->batch * job->sequence,
        .H = operation->config->width,
    };
    if (!operation->training || call->op->dropout_site == NO_INDEX)
        return;
    call->storage = (struct kernel_dropout){
        {operation->seed, operation->pass, call->op->dropout_site},
        call_dropout_probability(call->config, call->op->kind),
    };
    call->dropout = &call->storage;
}

#endif
