/* One operation as the functions that run operators see it, and its operands. */
#ifndef PSTAR_ENGINE_OPERATOR_CALL_H
#define PSTAR_ENGINE_OPERATOR_CALL_H

#include "engine/operators.h"

/* An operation with its properties from the model and the job: N rows, width H. It must not move,
 * because `dropout` points into it. */
struct call {
    struct operators *operators;
    const struct kernels *kernels;
    const void *context;
    const struct operation *operation;
    const struct model_operator *op;
    const struct model_config *config;
    enum model_precision precision;
    enum model_gradient layout;
    uint32_t B, T, N, H;
    struct kernel_dropout storage;
    const struct kernel_dropout *dropout; /* may be NULL */
};

typedef void run_kind(const struct call *call);

/* ---- operands: NULL where the operation has no such operand ---- */

static inline void *at(const struct call *call, uint64_t address)
{
    return address == NO_ADDRESS ? NULL : call->operators->memory + address;
}

static inline void *in(const struct call *call, int i)
{
    return at(call, call->operation->in[i]);
}

static inline void *out(const struct call *call, int i)
{
    return at(call, call->operation->out[i]);
}

/* A micro-batch of the next step reads the newest parameter, or the master. */
static inline void *parameter(const struct call *call, int i)
{
    const uint64_t *address = call->operation->tensor[i].address;
    if (call->operation->newest[i] != NO_ADDRESS && call->op->kind != MODEL_UPDATE)
        return at(call, call->operation->newest[i]);
    if (address[TRACE_GATHERED] != NO_ADDRESS)
        return at(call, address[TRACE_GATHERED]);
    return at(call,
              address[TRACE_PARAM] != NO_ADDRESS ? address[TRACE_PARAM] : address[TRACE_MASTER]);
}

static inline void *gradient(const struct call *call, int i)
{
    return at(call, call->operation->tensor[i].gradient);
}

static inline void *workspace(const struct call *call)
{
    return at(call, call->operation->workspace);
}

static inline uint32_t element_bytes(const struct call *call)
{
    return call->precision == MODEL_BF16 ? 2 : 4;
}

static inline enum kernel_gradient gradient_kind(const struct call *call, bool add)
{
    if (call->layout == MODEL_GRADIENT_LIST)
        return add ? KERNEL_GRADIENT_ADD : KERNEL_GRADIENT_SET;
    return add ? KERNEL_GRADIENT_ADD_BF16 : KERNEL_GRADIENT_SET_BF16;
}

/* Returns the micro-batch's inputs, followed by its targets. They are in buffer `i`, or on the host
 * in the operation's tokens. */
static inline const uint32_t *tokens(const struct call *call, int i)
{
    const uint32_t *buffer = in(call, i);
    return buffer ? buffer : call->operation->tokens;
}

static inline enum model_precision stored_gradients(const struct call *call)
{
    return call->layout == MODEL_GRADIENT_LIST ? MODEL_FP32 : call->precision;
}

/* In operators_adapters.c: thin products beside linear layers. */
run_kind operator_adapter_forward, operator_adapter_backward;

/* In operators_experts.c: mixtures of experts. */
run_kind operator_route_forward, operator_dispatch_forward, operator_combine_forward;
run_kind operator_route_backward, operator_dispatch_backward, operator_combine_backward;
run_kind operator_balance_loss;

/* Lets the call of an expert's operator work on the expert's rows, with the operands in
 * `operation`, which must outlive the call. Returns false if there are no rows: the gradients are
 * then there. */
bool operator_begin_expert(struct call *call, struct operation *operation);

/* In operators_together.c: what processes do together, and the update. */
run_kind operator_send, operator_receive, operator_add_gradient, operator_newest;
run_kind operator_reduce, operator_reduce_bucket, operator_update;

#endif
