#include "engine/cpu/operators.h"

#include <glib.h>

/* What every operator's kernels are called with. N rows, H width. */
struct call {
    struct cpu_operators *operators;
    struct cpu_context *cpu;
    const struct operation *operation;
    const struct model_operator *op;
    const struct model_config *config;
    enum model_precision precision;
    enum model_gradient layout;
    uint32_t B, T, N, H;
    struct cpu_dropout storage;
    const struct cpu_dropout *dropout; /* NULL: none */
};

typedef void run_kind(struct call *call);

static void *at(const struct call *call, uint64_t address)
{
    return address == OPERATION_ABSENT ? NULL : call->operators->memory + address;
}

static void *in(const struct call *call, int i)
{
    return at(call, call->operation->in[i]);
}

static void *out(const struct call *call, int i)
{
    return at(call, call->operation->out[i]);
}

static void *parameter(const struct call *call, int i)
{
    return at(call, call->operation->tensor[i].address[TRACE_PARAM]);
}

static void *gradient(const struct call *call, int i)
{
    return at(call, call->operation->tensor[i].gradient);
}

static enum cpu_gradient gradient_kind(const struct call *call, bool add)
{
    if (call->layout == MODEL_GRADIENT_LIST)
        return add ? CPU_GRADIENT_ADD : CPU_GRADIENT_SET;
    return add ? CPU_GRADIENT_ADD_BF16 : CPU_GRADIENT_SET_BF16;
}

static double dropout_probability(const struct model_config *config, uint8_t kind)
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

static void set_dropout(struct call *call)
{
    const struct operation *operation = call->operation;
    if (!operation->training || call->op->dropout_site == MODEL_NONE)
        return;
    call->storage = (struct cpu_dropout){
        {operation->seed, operation->pass, call->op->dropout_site},
        dropout_probability(call->config, call->op->kind),
    };
    call->dropout = &call->storage;
}

/* The norm of a gradient that is complete, where it is due. */
static void sum_squares(const struct call *call, int i)
{
    const struct operation_tensor *tensor = &call->operation->tensor[i];
    enum model_precision precision = call->layout == MODEL_GRADIENT_LIST ? MODEL_FP32
                                                                         : call->precision;
    if (tensor->norm)
        *tensor->norm = cpu_sum_squares(call->cpu, precision, tensor->elements, gradient(call, i));
}

/* The micro-batch's tokens, from the buffer where there is one; its targets follow them. */
static const uint32_t *tokens(const struct call *call, int i)
{
    const uint32_t *buffer = in(call, i);
    return buffer ? buffer : call->operation->tokens;
}

static void embed_forward(struct call *call)
{
    cpu_embed_forward(call->cpu, call->precision, call->N, call->T, call->H, tokens(call, 0),
                      parameter(call, 0), parameter(call, 1), call->dropout, out(call, 0));
}

/* On the host the order is no part of any budget: it is as small as the tokens. */
static const uint64_t *token_order(struct call *call)
{
    struct cpu_operators *operators = call->operators;
    uint64_t *order = at(call, call->operation->workspace);
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

static void embed_backward(struct call *call)
{
    /* Tied: the classifier's gradient is there already. */
    bool add_tokens = call->op->accumulate || call->config->tied;
    cpu_embed_backward_tokens(call->cpu, call->precision, call->N, call->H,
                              call->config->vocabulary, token_order(call), in(call, 0),
                              call->dropout, gradient_kind(call, add_tokens), gradient(call, 0));
    cpu_embed_backward_positions(call->cpu, call->precision, call->B, call->T, call->H,
                                 call->config->positions, in(call, 0), call->dropout,
                                 gradient_kind(call, call->op->accumulate), gradient(call, 1));
    sum_squares(call, 0);
    sum_squares(call, 1);
}

static void norm_forward(struct call *call)
{
    cpu_norm_forward(call->cpu, call->precision, call->N, call->H, call->config->norm_epsilon,
                     parameter(call, 0), parameter(call, 1), in(call, 0), out(call, 0),
                     out(call, 1));
}

/* The input's gradient first: the weight may be overwritten by its own. */
static void norm_backward(struct call *call)
{
    cpu_norm_backward_input(call->cpu, call->precision, call->N, call->H, parameter(call, 0),
                            in(call, 0), in(call, 1), in(call, 2), call->op->add, out(call, 0));
    cpu_norm_backward_parameters(
        call->cpu, call->precision, call->N, call->H, in(call, 0), in(call, 1), in(call, 2),
        gradient_kind(call, call->op->accumulate), gradient(call, 0), gradient(call, 1));
    sum_squares(call, 0);
    sum_squares(call, 1);
}

static void product_forward(const struct call *call, const void *x, void *y)
{
    cpu_linear_forward(call->cpu, call->precision, call->N, call->op->inputs, call->op->outputs, x,
                       parameter(call, 0), parameter(call, 1), y);
}

static void linear_forward(struct call *call)
{
    product_forward(call, in(call, 0), out(call, 0));
}

static void gelu_forward(struct call *call)
{
    product_forward(call, in(call, 0), out(call, 0));
    cpu_gelu_forward(call->cpu, call->precision, (uint64_t)call->N * call->op->outputs,
                     out(call, 0), out(call, 1));
}

static void residual_forward(struct call *call)
{
    product_forward(call, in(call, 0), out(call, 0));
    cpu_residual_forward(call->cpu, call->precision, call->N, call->op->outputs, in(call, 1),
                         call->dropout, out(call, 0));
}

/* A weight's gradient that was summed in the workspace is rounded over the parameter. */
static void round_over_parameter(const struct call *call, const float *workspace)
{
    const struct operation_tensor *tensor = &call->operation->tensor[0];
    double norm = cpu_round_gradient(call->cpu, tensor->elements, workspace, gradient(call, 0));
    if (tensor->norm)
        *tensor->norm = norm;
}

/* The input's gradient first: the weight may be overwritten by its own. */
static void product_backward(const struct call *call, const void *dy, const void *x, void *dx)
{
    uint32_t inputs = call->op->inputs, outputs = call->op->outputs;
    bool add = call->op->accumulate;
    cpu_linear_backward_input(call->cpu, call->precision, call->N, inputs, outputs, dy,
                              parameter(call, 0), dx);
    float *workspace = at(call, call->operation->workspace);
    cpu_linear_backward_weight(call->cpu, call->precision, call->N, inputs, outputs, x, dy,
                               workspace ? false : add, workspace ? workspace : gradient(call, 0));
    if (workspace)
        round_over_parameter(call, workspace);
    else
        sum_squares(call, 0);
    cpu_linear_backward_bias(call->cpu, call->precision, call->N, outputs, dy,
                             gradient_kind(call, add), gradient(call, 1));
    sum_squares(call, 1);
}

static void linear_backward(struct call *call)
{
    product_backward(call, in(call, 0), in(call, 1), out(call, 0));
}

static void gelu_backward(struct call *call)
{
    cpu_gelu_backward(call->cpu, call->precision, (uint64_t)call->N * call->op->outputs,
                      in(call, 2), in(call, 0));
    product_backward(call, in(call, 0), in(call, 1), out(call, 0));
}

static void residual_backward(struct call *call)
{
    void *dy = in(call, 0);
    void *masked = at(call, call->operation->masked);
    if (masked && call->dropout) {
        cpu_dropout_backward(call->cpu, call->precision, call->N, call->op->outputs, call->dropout,
                             dy, masked);
        dy = masked;
    }
    product_backward(call, dy, in(call, 1), out(call, 0));
}

static void attention_forward(struct call *call)
{
    cpu_attention_forward(call->cpu, call->precision, call->B, call->T, call->config->heads,
                          call->H / call->config->heads, in(call, 0), call->dropout, out(call, 0),
                          out(call, 1));
}

static void attention_backward(struct call *call)
{
    cpu_attention_backward(call->cpu, call->precision, call->B, call->T, call->config->heads,
                           call->H / call->config->heads, in(call, 0), in(call, 1), in(call, 2),
                           in(call, 3), call->dropout, out(call, 0));
}

static void classifier_forward(struct call *call)
{
    cpu_classifier_forward(call->cpu, call->precision, call->N, call->H, call->config->vocabulary,
                           in(call, 0), parameter(call, 0), out(call, 0));
}

static void classifier_backward(struct call *call)
{
    uint32_t V = call->config->vocabulary;
    cpu_classifier_backward_input(call->cpu, call->precision, call->N, call->H, V, in(call, 0),
                                  parameter(call, 0), out(call, 0));
    float *workspace = at(call, call->operation->workspace);
    cpu_classifier_backward_weight(call->cpu, call->precision, call->N, call->H, V, in(call, 1),
                                   in(call, 0), workspace ? false : call->op->accumulate,
                                   workspace ? workspace : gradient(call, 0));
    if (workspace)
        round_over_parameter(call, workspace);
    else
        sum_squares(call, 0);
}

static void loss(struct call *call)
{
    const struct operation *operation = call->operation;
    uint32_t V = call->config->vocabulary;
    const uint32_t *targets = tokens(call, 1) + call->N;
    double divisor = (double)call->N * operation->job->micro_batches;
    if (operation->training)
        *operation->loss = cpu_loss_backward(call->cpu, call->precision, call->N, V, targets,
                                             divisor, in(call, 0));
    else
        *operation->loss = cpu_loss(call->cpu, call->precision, call->N, V, targets, in(call, 0));
}

static void update(struct call *call)
{
    const struct operation_tensor *tensor = &call->operation->tensor[0];
    const struct cpu_adamw adamw = {
        .elements = tensor->elements,
        .param = at(call, tensor->address[TRACE_PARAM]),
        .gradient = at(call, tensor->address[TRACE_GRAD]),
        .master = at(call, tensor->address[TRACE_MASTER]),
        .exp_avg = at(call, tensor->address[TRACE_EXP_AVG]),
        .exp_avg_sq = at(call, tensor->address[TRACE_EXP_AVG_SQ]),
    };
    cpu_adamw(call->cpu, &call->operation->adamw, &adamw);
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
    const struct model_job *job = operation->job;
    struct call call = {
        .operators = operators,
        .cpu = operators->cpu,
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
    set_dropout(&call);
    kinds[operation->op->kind](&call);
}
