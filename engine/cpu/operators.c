#include "engine/cpu/operators.h"

#include "engine/operation_call.h"

#include <glib.h>

typedef void run_kind(struct cpu_operators *operators, const struct operation_call *call);

/* The norm of a gradient that is complete, where it is due. */
static void sum_squares(struct cpu_operators *operators, const struct operation_call *call, int i)
{
    const struct operation_tensor *tensor = &call->operation->tensor[i];
    enum model_precision precision = call_gradient_precision(call);
    if (tensor->norm)
        *tensor->norm = cpu_sum_squares(operators->cpu, precision, tensor->elements,
                                        call_gradient(call, i));
}

/* The micro-batch's tokens, from the buffer where there is one; its targets follow them. */
static const uint32_t *tokens(const struct operation_call *call, int i)
{
    const uint32_t *buffer = call_in(call, i);
    return buffer ? buffer : call->operation->tokens;
}

static void embed_forward(struct cpu_operators *operators, const struct operation_call *call)
{
    cpu_embed_forward(operators->cpu, call->precision, call->N, call->T, call->H, tokens(call, 0),
                      call_parameter(call, 0), call_parameter(call, 1), call->dropout,
                      call_out(call, 0));
}

/* On the host the order is no part of any budget: it is as small as the tokens. */
static const uint64_t *token_order(struct cpu_operators *operators,
                                   const struct operation_call *call)
{
    uint64_t *order = call_at(call, call->operation->workspace);
    if (!order) {
        if (operators->order_rows < call->N) {
            operators->order = g_renew(uint64_t, operators->order, call->N);
            operators->order_rows = call->N;
        }
        order = operators->order;
    }
    cpu_embed_order(call->N, tokens(call, 1), order);
    return order;
}

static void embed_backward(struct cpu_operators *operators, const struct operation_call *call)
{
    /* Tied: the classifier's gradient is there already. */
    bool add_tokens = call->op->accumulate || call->config->tied;
    cpu_embed_backward_tokens(operators->cpu, call->precision, call->N, call->H,
                              call->config->vocabulary, token_order(operators, call),
                              call_in(call, 0), call->dropout, call_gradient_kind(call, add_tokens),
                              call_gradient(call, 0));
    cpu_embed_backward_positions(operators->cpu, call->precision, call->B, call->T, call->H,
                                 call->config->positions, call_in(call, 0), call->dropout,
                                 call_gradient_kind(call, call->op->accumulate),
                                 call_gradient(call, 1));
    sum_squares(operators, call, 0);
    sum_squares(operators, call, 1);
}

static void norm_forward(struct cpu_operators *operators, const struct operation_call *call)
{
    cpu_norm_forward(operators->cpu, call->precision, call->N, call->H, call->config->norm_epsilon,
                     call_parameter(call, 0), call_parameter(call, 1), call_in(call, 0),
                     call_out(call, 0), call_out(call, 1));
}

/* The input's gradient first: the weight may be overwritten by its own. */
static void norm_backward(struct cpu_operators *operators, const struct operation_call *call)
{
    cpu_norm_backward_input(operators->cpu, call->precision, call->N, call->H,
                            call_parameter(call, 0), call_in(call, 0), call_in(call, 1),
                            call_in(call, 2), call->op->add, call_out(call, 0));
    cpu_norm_backward_parameters(operators->cpu, call->precision, call->N, call->H,
                                 call_in(call, 0), call_in(call, 1), call_in(call, 2),
                                 call_gradient_kind(call, call->op->accumulate),
                                 call_gradient(call, 0), call_gradient(call, 1));
    sum_squares(operators, call, 0);
    sum_squares(operators, call, 1);
}

static void product_forward(struct cpu_operators *operators, const struct operation_call *call,
                            const void *x, void *y)
{
    cpu_linear_forward(operators->cpu, call->precision, call->N, call->op->inputs,
                       call->op->outputs, x, call_parameter(call, 0), call_parameter(call, 1), y);
}

static void linear_forward(struct cpu_operators *operators, const struct operation_call *call)
{
    product_forward(operators, call, call_in(call, 0), call_out(call, 0));
}

static void gelu_forward(struct cpu_operators *operators, const struct operation_call *call)
{
    product_forward(operators, call, call_in(call, 0), call_out(call, 0));
    cpu_gelu_forward(operators->cpu, call->precision, (uint64_t)call->N * call->op->outputs,
                     call_out(call, 0), call_out(call, 1));
}

static void residual_forward(struct cpu_operators *operators, const struct operation_call *call)
{
    product_forward(operators, call, call_in(call, 0), call_out(call, 0));
    cpu_residual_forward(operators->cpu, call->precision, call->N, call->op->outputs,
                         call_in(call, 1), call->dropout, call_out(call, 0));
}

/* A weight's gradient that was summed in the workspace is rounded over the parameter. */
static void round_over_parameter(struct cpu_operators *operators, const struct operation_call *call,
                                 const float *workspace)
{
    const struct operation_tensor *tensor = &call->operation->tensor[0];
    double norm = cpu_round_gradient(operators->cpu, tensor->elements, workspace,
                                     call_gradient(call, 0));
    if (tensor->norm)
        *tensor->norm = norm;
}

/* The input's gradient first: the weight may be overwritten by its own. */
static void product_backward(struct cpu_operators *operators, const struct operation_call *call,
                             const void *dy, const void *x, void *dx)
{
    uint32_t inputs = call->op->inputs, outputs = call->op->outputs;
    bool add = call->op->accumulate;
    cpu_linear_backward_input(operators->cpu, call->precision, call->N, inputs, outputs, dy,
                              call_parameter(call, 0), dx);
    float *workspace = call_at(call, call->operation->workspace);
    cpu_linear_backward_weight(operators->cpu, call->precision, call->N, inputs, outputs, x, dy,
                               workspace ? false : add,
                               workspace ? workspace : call_gradient(call, 0));
    if (workspace)
        round_over_parameter(operators, call, workspace);
    else
        sum_squares(operators, call, 0);
    cpu_linear_backward_bias(operators->cpu, call->precision, call->N, outputs, dy,
                             call_gradient_kind(call, add), call_gradient(call, 1));
    sum_squares(operators, call, 1);
}

static void linear_backward(struct cpu_operators *operators, const struct operation_call *call)
{
    product_backward(operators, call, call_in(call, 0), call_in(call, 1), call_out(call, 0));
}

static void gelu_backward(struct cpu_operators *operators, const struct operation_call *call)
{
    cpu_gelu_backward(operators->cpu, call->precision, (uint64_t)call->N * call->op->outputs,
                      call_in(call, 2), call_in(call, 0));
    product_backward(operators, call, call_in(call, 0), call_in(call, 1), call_out(call, 0));
}

static void residual_backward(struct cpu_operators *operators, const struct operation_call *call)
{
    void *dy = call_in(call, 0);
    void *masked = call_at(call, call->operation->masked);
    if (masked && call->dropout) {
        cpu_dropout_backward(operators->cpu, call->precision, call->N, call->op->outputs,
                             call->dropout, dy, masked);
        dy = masked;
    }
    product_backward(operators, call, dy, call_in(call, 1), call_out(call, 0));
}

static void attention_forward(struct cpu_operators *operators, const struct operation_call *call)
{
    cpu_attention_forward(operators->cpu, call->precision, call->B, call->T, call->config->heads,
                          call->H / call->config->heads, call_in(call, 0), call->dropout,
                          call_out(call, 0), call_out(call, 1));
}

static void attention_backward(struct cpu_operators *operators, const struct operation_call *call)
{
    cpu_attention_backward(operators->cpu, call->precision, call->B, call->T, call->config->heads,
                           call->H / call->config->heads, call_in(call, 0), call_in(call, 1),
                           call_in(call, 2), call_in(call, 3), call->dropout, call_out(call, 0));
}

static void classifier_forward(struct cpu_operators *operators, const struct operation_call *call)
{
    cpu_classifier_forward(operators->cpu, call->precision, call->N, call->H,
                           call->config->vocabulary, call_in(call, 0), call_parameter(call, 0),
                           call_out(call, 0));
}

static void classifier_backward(struct cpu_operators *operators, const struct operation_call *call)
{
    uint32_t V = call->config->vocabulary;
    cpu_classifier_backward_input(operators->cpu, call->precision, call->N, call->H, V,
                                  call_in(call, 0), call_parameter(call, 0), call_out(call, 0));
    float *workspace = call_at(call, call->operation->workspace);
    cpu_classifier_backward_weight(
        operators->cpu, call->precision, call->N, call->H, V, call_in(call, 1), call_in(call, 0),
        workspace ? false : call->op->accumulate, workspace ? workspace : call_gradient(call, 0));
    if (workspace)
        round_over_parameter(operators, call, workspace);
    else
        sum_squares(operators, call, 0);
}

static void loss(struct cpu_operators *operators, const struct operation_call *call)
{
    const struct operation *operation = call->operation;
    uint32_t V = call->config->vocabulary;
    const uint32_t *targets = tokens(call, 1) + call->N;
    double divisor = (double)call->N * operation->job->micro_batches;
    if (operation->training)
        *operation->loss = cpu_loss_backward(operators->cpu, call->precision, call->N, V, targets,
                                             divisor, call_in(call, 0));
    else
        *operation->loss = cpu_loss(operators->cpu, call->precision, call->N, V, targets,
                                    call_in(call, 0));
}

static void update(struct cpu_operators *operators, const struct operation_call *call)
{
    const struct kernel_adamw adamw = call_adamw(call);
    struct adamw_step step = call->operation->adamw;
    if (call->operation->gradient_scale)
        step.gradient_scale = (float)*call->operation->gradient_scale;
    cpu_adamw(operators->cpu, &step, &adamw);
}

static run_kind *const kinds[MODEL_KINDS] = {
    [MODEL_EMBED_FORWARD] = embed_forward,
    [MODEL_NORM_FORWARD] = norm_forward,
    [MODEL_LINEAR_FORWARD] = linear_forward,
    [MODEL_GELU_FORWARD] = gelu_forward,
    [MODEL_RESIDUAL_FORWARD] = residual_forward,
    [MODEL_ATTENTION_FORWARD] = attention_forward,
    [MODEL_CLASSIFIER_FORWARD] = classifier_forward,
    [MODEL_LOSS] = loss,
    [MODEL_CLASSIFIER_BACKWARD] = classifier_backward,
    [MODEL_NORM_BACKWARD] = norm_backward,
    [MODEL_LINEAR_BACKWARD] = linear_backward,
    [MODEL_GELU_BACKWARD] = gelu_backward,
    [MODEL_RESIDUAL_BACKWARD] = residual_backward,
    [MODEL_ATTENTION_BACKWARD] = attention_backward,
    [MODEL_EMBED_BACKWARD] = embed_backward,
    [MODEL_UPDATE] = update,
};

void cpu_operators_run(struct cpu_operators *operators, const struct operation *operation)
{
    struct operation_call call;
    call_init(&call, operators->memory, operation);
    kinds[operation->op->kind](operators, &call);
}
