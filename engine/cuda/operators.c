#include "engine/cuda/operators.h"

#include "engine/cuda/kernels.h"
#include "engine/cuda/products.h"
#include "engine/device.h"

enum {
    WORKSPACE_BYTES = 32 << 20, /* of the matrix products */
    SCRATCH_BYTES = 16 << 20,   /* of the kernels */
    COUNTER_BYTES = 256
};

struct cuda_operators {
    uint8_t *arena, *own; /* own: workspace, scratch, counter */
    struct cuda_context cuda;
    struct cuda_products *products;
};

/* What every operator's kernels are called with. N rows, H width. */
struct call {
    struct cuda_operators *operators;
    const struct cuda_context *cuda;
    const struct operation *operation;
    const struct model_operator *op;
    const struct model_config *config;
    enum model_precision precision;
    enum model_gradient layout;
    uint32_t B, T, N, H;
    struct cpu_dropout storage;
    const struct cpu_dropout *dropout; /* NULL: none */
    cudaError_t error;                 /* the first of the products */
};

typedef void run_kind(struct call *call);

bool cuda_operators_support(const struct model_config *config, GError **error)
{
    uint32_t head = config->width / config->heads;
    uint64_t deltas = (uint64_t)config->heads * config->positions * sizeof(float);
    if (head > CUDA_HEAD_LIMIT)
        g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_MODEL,
                    "heads of %u elements: the CUDA device has kernels for %d at most", head,
                    CUDA_HEAD_LIMIT);
    else if (deltas > SCRATCH_BYTES)
        g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_MODEL,
                    "%u heads of %u positions: more than the CUDA device's attention has room for",
                    config->heads, config->positions);
    else
        return true;
    return false;
}

static bool take_memory(struct cuda_operators *operators, cudaStream_t stream)
{
    void *own;
    if (cudaMalloc(&own, WORKSPACE_BYTES + SCRATCH_BYTES + COUNTER_BYTES) != cudaSuccess)
        return false;
    operators->own = own;
    operators->cuda = (struct cuda_context){
        .stream = stream,
        .scratch = operators->own + WORKSPACE_BYTES,
        .scratch_bytes = SCRATCH_BYTES,
        .counter = (uint32_t *)(operators->own + WORKSPACE_BYTES + SCRATCH_BYTES),
    };
    return cudaMemset(operators->cuda.counter, 0, COUNTER_BYTES) == cudaSuccess;
}

struct cuda_operators *cuda_operators_new(uint8_t *arena, cudaStream_t stream, GError **error)
{
    struct cuda_operators *operators = g_new0(struct cuda_operators, 1);
    operators->arena = arena;
    if (take_memory(operators, stream))
        operators->products = cuda_products_new(stream, operators->own, WORKSPACE_BYTES);
    if (operators->products)
        return operators;
    g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_MEMORY,
                "no %d MiB of device memory for the operators' sums, or cuBLASLt does not start",
                (WORKSPACE_BYTES + SCRATCH_BYTES) >> 20);
    cuda_operators_free(operators);
    return NULL;
}

void cuda_operators_free(struct cuda_operators *operators)
{
    if (!operators)
        return;
    cuda_products_free(operators->products);
    cudaFree(operators->own);
    g_free(operators);
}

static void *at(const struct call *call, uint64_t address)
{
    return address == OPERATION_ABSENT ? NULL : call->operators->arena + address;
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
        cuda_sum_squares(call->cuda, precision, tensor->elements, gradient(call, i), tensor->norm);
}

static void embed_forward(struct call *call)
{
    cuda_embed_forward(call->cuda, call->precision, call->N, call->T, call->H, in(call, 0),
                       parameter(call, 0), parameter(call, 1), call->dropout, out(call, 0));
}

static void embed_backward(struct call *call)
{
    /* Tied: the classifier's gradient is there already. */
    bool add_tokens = call->op->accumulate || call->config->tied;
    uint64_t *order = at(call, call->operation->workspace);
    cuda_embed_order(call->cuda, call->N, in(call, 1), order);
    cuda_embed_backward_tokens(call->cuda, call->precision, call->N, call->H,
                               call->config->vocabulary, order, in(call, 0), call->dropout,
                               gradient_kind(call, add_tokens), gradient(call, 0));
    cuda_embed_backward_positions(call->cuda, call->precision, call->B, call->T, call->H,
                                  call->config->positions, in(call, 0), call->dropout,
                                  gradient_kind(call, call->op->accumulate), gradient(call, 1));
    sum_squares(call, 0);
    sum_squares(call, 1);
}

static void norm_forward(struct call *call)
{
    cuda_norm_forward(call->cuda, call->precision, call->N, call->H, call->config->norm_epsilon,
                      parameter(call, 0), parameter(call, 1), in(call, 0), out(call, 0),
                      out(call, 1));
}

/* The input's gradient first: the weight may be overwritten by its own. */
static void norm_backward(struct call *call)
{
    cuda_norm_backward_input(call->cuda, call->precision, call->N, call->H, parameter(call, 0),
                             in(call, 0), in(call, 1), in(call, 2), call->op->add, out(call, 0));
    cuda_norm_backward_parameters(
        call->cuda, call->precision, call->N, call->H, in(call, 0), in(call, 1), in(call, 2),
        gradient_kind(call, call->op->accumulate), gradient(call, 0), gradient(call, 1));
    sum_squares(call, 0);
    sum_squares(call, 1);
}

static void multiply(struct call *call, struct product_shape shape, struct product product)
{
    shape.in = (uint8_t)call->precision;
    cudaError_t error = cuda_products_run(call->operators->products, &shape, &product);
    if (call->error == cudaSuccess)
        call->error = error;
}

/* y[N,O] = x[N,I] weight[I,O] + bias[O] */
static struct product_shape forward_shape(const struct call *call, enum product_epilogue epilogue)
{
    return (struct product_shape){.M = call->N,
                                  .N = call->op->outputs,
                                  .K = call->op->inputs,
                                  .in = (uint8_t)call->precision,
                                  .out = (uint8_t)call->precision,
                                  .epilogue = (uint8_t)epilogue};
}

static void linear_forward(struct call *call)
{
    multiply(call, forward_shape(call, PRODUCT_BIAS),
             (struct product){.a = in(call, 0),
                              .b = parameter(call, 0),
                              .bias = parameter(call, 1),
                              .c = out(call, 0)});
}

/* In one product, or where the library cannot, in a product and a kernel: always the same for a
 * shape. */
static void gelu_forward(struct call *call)
{
    struct product_shape fused = forward_shape(call, PRODUCT_GELU);
    if (cuda_products_have(call->operators->products, &fused)) {
        multiply(call, fused,
                 (struct product){.a = in(call, 0),
                                  .b = parameter(call, 0),
                                  .bias = parameter(call, 1),
                                  .c = out(call, 1),
                                  .pre = out(call, 0)});
        return;
    }
    linear_forward(call);
    cuda_gelu_forward(call->cuda, call->precision, (uint64_t)call->N * call->op->outputs,
                      out(call, 0), out(call, 1));
}

static void residual_forward(struct call *call)
{
    linear_forward(call);
    cuda_residual_forward(call->cuda, call->precision, call->N, call->op->outputs, in(call, 1),
                          call->dropout, out(call, 0));
}

/* dweight = a^T b, in fp32: into the gradient, or into the workspace and rounded over the
 * parameter from there. */
static void multiply_weight(struct call *call, struct product_shape shape, const void *a,
                            const void *b)
{
    const struct operation_tensor *tensor = &call->operation->tensor[0];
    float *workspace = at(call, call->operation->workspace);
    bool add = !workspace && call->op->accumulate;
    shape.transposed_a = true;
    shape.out = MODEL_FP32;
    shape.epilogue = add ? PRODUCT_ADD : PRODUCT_PLAIN;
    multiply(call, shape,
             (struct product){.a = a, .b = b, .c = workspace ? workspace : gradient(call, 0)});
    if (workspace)
        cuda_round_gradient(call->cuda, tensor->elements, workspace, gradient(call, 0),
                            tensor->norm);
    else
        sum_squares(call, 0);
}

/* The input's gradient first: the weight may be overwritten by its own. */
static void product_backward(struct call *call, const void *dy, const void *x, void *dx)
{
    uint32_t I = call->op->inputs, O = call->op->outputs;
    multiply(
        call,
        (struct product_shape){
            .M = call->N, .N = I, .K = O, .transposed_b = true, .out = (uint8_t)call->precision},
        (struct product){.a = dy, .b = parameter(call, 0), .c = dx});
    multiply_weight(call, (struct product_shape){.M = I, .N = O, .K = call->N}, x, dy);
    cuda_linear_backward_bias(call->cuda, call->precision, call->N, O, dy,
                              gradient_kind(call, call->op->accumulate), gradient(call, 1));
    sum_squares(call, 1);
}

static void linear_backward(struct call *call)
{
    product_backward(call, in(call, 0), in(call, 1), out(call, 0));
}

static void gelu_backward(struct call *call)
{
    cuda_gelu_backward(call->cuda, call->precision, (uint64_t)call->N * call->op->outputs,
                       in(call, 2), in(call, 0));
    product_backward(call, in(call, 0), in(call, 1), out(call, 0));
}

static void residual_backward(struct call *call)
{
    void *dy = in(call, 0);
    void *masked = at(call, call->operation->masked);
    if (masked && call->dropout) {
        cuda_dropout_backward(call->cuda, call->precision, call->N, call->op->outputs,
                              call->dropout, dy, masked);
        dy = masked;
    }
    product_backward(call, dy, in(call, 1), out(call, 0));
}

static void attention_forward(struct call *call)
{
    cuda_attention_forward(call->cuda, call->precision, call->B, call->T, call->config->heads,
                           call->H / call->config->heads, in(call, 0), call->dropout, out(call, 0),
                           out(call, 1));
}

static void attention_backward(struct call *call)
{
    cuda_attention_backward(call->cuda, call->precision, call->B, call->T, call->config->heads,
                            call->H / call->config->heads, in(call, 0), in(call, 1), in(call, 2),
                            in(call, 3), call->dropout, out(call, 0));
}

/* logits[N,V] = x[N,H] weight[V,H]^T */
static void classifier_forward(struct call *call)
{
    multiply(call,
             (struct product_shape){.M = call->N,
                                    .N = call->config->vocabulary,
                                    .K = call->H,
                                    .transposed_b = true,
                                    .out = (uint8_t)call->precision},
             (struct product){.a = in(call, 0), .b = parameter(call, 0), .c = out(call, 0)});
}

/* The input's gradient first: the weight may be overwritten by its own. */
static void classifier_backward(struct call *call)
{
    uint32_t V = call->config->vocabulary;
    multiply(
        call,
        (struct product_shape){.M = call->N, .N = call->H, .K = V, .out = (uint8_t)call->precision},
        (struct product){.a = in(call, 0), .b = parameter(call, 0), .c = out(call, 0)});
    multiply_weight(call, (struct product_shape){.M = V, .N = call->H, .K = call->N}, in(call, 0),
                    in(call, 1));
}

static void loss(struct call *call)
{
    const struct operation *operation = call->operation;
    uint32_t V = call->config->vocabulary;
    const uint32_t *targets = (const uint32_t *)in(call, 1) + call->N;
    double divisor = (double)call->N * operation->job->micro_batches;
    if (operation->training)
        cuda_loss_backward(call->cuda, call->precision, call->N, V, targets, divisor, in(call, 0),
                           operation->loss);
    else
        cuda_loss(call->cuda, call->precision, call->N, V, targets, in(call, 0), operation->loss);
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
    cuda_adamw(call->cuda, &call->operation->adamw, &adamw);
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

cudaError_t cuda_operators_run(struct cuda_operators *operators, const struct operation *operation)
{
    const struct model_job *job = operation->job;
    struct call call = {
        .operators = operators,
        .cuda = &operators->cuda,
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
    cudaError_t launched = cudaGetLastError();
    return call.error != cudaSuccess ? call.error : launched;
}
