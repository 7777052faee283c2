#include "engine/cuda/operators.h"

#include "engine/cuda/kernels.h"
#include "engine/cuda/products.h"
#include "engine/device.h"
#include "engine/operation_call.h"

enum {
    WORKSPACE_BYTES = 32 << 20, /* of the matrix products */
    SCRATCH_BYTES = 16 << 20,   /* of the kernels */
    COUNTER_BYTES = 256,
    SCALE_BYTES = 256
};

struct cuda_operators {
    uint8_t *arena, *own; /* own: workspace, scratch, counter, scale */
    struct cuda_context cuda;
    struct cuda_products *products;
    cudaError_t error; /* the first of the products of the operator that is being queued */
};

typedef void run_kind(struct cuda_operators *operators, const struct operation_call *call);

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
    int multiprocessors;
    if (cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0) !=
            cudaSuccess ||
        cudaMalloc(&own, WORKSPACE_BYTES + SCRATCH_BYTES + COUNTER_BYTES + SCALE_BYTES) !=
            cudaSuccess)
        return false;
    operators->own = own;
    operators->cuda = (struct cuda_context){
        .stream = stream,
        .scratch = operators->own + WORKSPACE_BYTES,
        .scratch_bytes = SCRATCH_BYTES,
        .counter = (uint32_t *)(operators->own + WORKSPACE_BYTES + SCRATCH_BYTES),
        .multiprocessors = (uint32_t)multiprocessors,
        .scale = (double *)(operators->own + WORKSPACE_BYTES + SCRATCH_BYTES + COUNTER_BYTES),
    };
    return cudaMemsetAsync(operators->cuda.counter, 0, COUNTER_BYTES, stream) == cudaSuccess;
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

/* The norm of a gradient that is complete, where it is due. */
static void sum_squares(struct cuda_operators *operators, const struct operation_call *call, int i)
{
    const struct operation_tensor *tensor = &call->operation->tensor[i];
    enum model_precision precision = call_gradient_precision(call);
    if (tensor->norm)
        cuda_sum_squares(&operators->cuda, precision, tensor->elements, call_gradient(call, i),
                         tensor->norm);
}

static void embed_forward(struct cuda_operators *operators, const struct operation_call *call)
{
    cuda_embed_forward(&operators->cuda, call->precision, call->N, call->T, call->H,
                       call_in(call, 0), call_parameter(call, 0), call_parameter(call, 1),
                       call->dropout, call_out(call, 0));
}

static void embed_backward(struct cuda_operators *operators, const struct operation_call *call)
{
    /* Tied: the classifier's gradient is there already. */
    bool add_tokens = call->op->accumulate || call->config->tied;
    uint64_t *order = call_at(call, call->operation->workspace);
    cuda_embed_order(&operators->cuda, call->N, call_in(call, 1), order);
    cuda_embed_backward_tokens(&operators->cuda, call->precision, call->N, call->H,
                               call->config->vocabulary, order, call_in(call, 0), call->dropout,
                               call_gradient_kind(call, add_tokens), call_gradient(call, 0));
    cuda_embed_backward_positions(&operators->cuda, call->precision, call->B, call->T, call->H,
                                  call->config->positions, call_in(call, 0), call->dropout,
                                  call_gradient_kind(call, call->op->accumulate),
                                  call_gradient(call, 1));
    sum_squares(operators, call, 0);
    sum_squares(operators, call, 1);
}

static void norm_forward(struct cuda_operators *operators, const struct operation_call *call)
{
    cuda_norm_forward(&operators->cuda, call->precision, call->N, call->H,
                      call->config->norm_epsilon, call_parameter(call, 0), call_parameter(call, 1),
                      call_in(call, 0), call_out(call, 0), call_out(call, 1));
}

/* The input's gradient first: the weight may be overwritten by its own. */
static void norm_backward(struct cuda_operators *operators, const struct operation_call *call)
{
    cuda_norm_backward_input(&operators->cuda, call->precision, call->N, call->H,
                             call_parameter(call, 0), call_in(call, 0), call_in(call, 1),
                             call_in(call, 2), call->op->add, call_out(call, 0));
    cuda_norm_backward_parameters(&operators->cuda, call->precision, call->N, call->H,
                                  call_in(call, 0), call_in(call, 1), call_in(call, 2),
                                  call_gradient_kind(call, call->op->accumulate),
                                  call_gradient(call, 0), call_gradient(call, 1));
    sum_squares(operators, call, 0);
    sum_squares(operators, call, 1);
}

static void multiply(struct cuda_operators *operators, const struct operation_call *call,
                     struct product_shape shape, struct product product)
{
    shape.in = (uint8_t)call->precision;
    cudaError_t error = cuda_products_run(operators->products, &shape, &product);
    if (operators->error == cudaSuccess)
        operators->error = error;
}

/* y[N,O] = x[N,I] weight[I,O] + bias[O] */
static struct product_shape forward_shape(const struct operation_call *call,
                                          enum product_epilogue epilogue)
{
    return (struct product_shape){.M = call->N,
                                  .N = call->op->outputs,
                                  .K = call->op->inputs,
                                  .in = (uint8_t)call->precision,
                                  .out = (uint8_t)call->precision,
                                  .epilogue = (uint8_t)epilogue};
}

static void linear_forward(struct cuda_operators *operators, const struct operation_call *call)
{
    multiply(operators, call, forward_shape(call, PRODUCT_BIAS),
             (struct product){.a = call_in(call, 0),
                              .b = call_parameter(call, 0),
                              .bias = call_parameter(call, 1),
                              .c = call_out(call, 0)});
}

/* In one product, or where the library cannot, in a product and a kernel: always the same for a
 * shape. */
static void gelu_forward(struct cuda_operators *operators, const struct operation_call *call)
{
    struct product_shape fused = forward_shape(call, PRODUCT_GELU);
    if (cuda_products_have(operators->products, &fused)) {
        multiply(operators, call, fused,
                 (struct product){.a = call_in(call, 0),
                                  .b = call_parameter(call, 0),
                                  .bias = call_parameter(call, 1),
                                  .c = call_out(call, 1),
                                  .pre = call_out(call, 0)});
        return;
    }
    linear_forward(operators, call);
    cuda_gelu_forward(&operators->cuda, call->precision, (uint64_t)call->N * call->op->outputs,
                      call_out(call, 0), call_out(call, 1));
}

/* In one product where nothing is dropped between. */
static void residual_forward(struct cuda_operators *operators, const struct operation_call *call)
{
    struct product_shape fused = forward_shape(call, PRODUCT_RESIDUAL);
    if (!call->dropout && cuda_products_have(operators->products, &fused)) {
        multiply(operators, call, fused,
                 (struct product){.a = call_in(call, 0),
                                  .b = call_parameter(call, 0),
                                  .bias = call_parameter(call, 1),
                                  .residual = call_in(call, 1),
                                  .c = call_out(call, 0)});
        return;
    }
    linear_forward(operators, call);
    cuda_residual_forward(&operators->cuda, call->precision, call->N, call->op->outputs,
                          call_in(call, 1), call->dropout, call_out(call, 0));
}

/* dweight = a^T b: summed in fp32 and rounded at most once, where it is stored. So the operation's
 * workspace, for what the CPU device rounds afterwards, is left as it is. */
static void multiply_weight(struct cuda_operators *operators, const struct operation_call *call,
                            struct product_shape shape, const void *a, const void *b)
{
    bool in_list = call->layout == MODEL_GRADIENT_LIST;
    shape.transposed_a = true;
    shape.out = (uint8_t)call_gradient_precision(call);
    shape.epilogue = in_list && call->op->accumulate ? PRODUCT_ADD : PRODUCT_PLAIN;
    multiply(operators, call, shape, (struct product){.a = a, .b = b, .c = call_gradient(call, 0)});
    sum_squares(operators, call, 0);
}

/* The input's gradient first: the weight may be overwritten by its own. */
static void product_backward(struct cuda_operators *operators, const struct operation_call *call,
                             const void *dy)
{
    uint32_t I = call->op->inputs, O = call->op->outputs;
    multiply(
        operators, call,
        (struct product_shape){
            .M = call->N, .N = I, .K = O, .transposed_b = true, .out = (uint8_t)call->precision},
        (struct product){.a = dy, .b = call_parameter(call, 0), .c = call_out(call, 0)});
    multiply_weight(operators, call, (struct product_shape){.M = I, .N = O, .K = call->N},
                    call_in(call, 1), dy);
}

static void dense_backward(struct cuda_operators *operators, const struct operation_call *call,
                           const void *dy)
{
    product_backward(operators, call, dy);
    cuda_linear_backward_bias(&operators->cuda, call->precision, call->N, call->op->outputs, dy,
                              call_gradient_kind(call, call->op->accumulate),
                              call_gradient(call, 1));
    sum_squares(operators, call, 1);
}

static void linear_backward(struct cuda_operators *operators, const struct operation_call *call)
{
    dense_backward(operators, call, call_in(call, 0));
}

static void gelu_backward(struct cuda_operators *operators, const struct operation_call *call)
{
    cuda_gelu_backward_bias(&operators->cuda, call->precision, call->N, call->op->outputs,
                            call_in(call, 2), call_in(call, 0),
                            call_gradient_kind(call, call->op->accumulate), call_gradient(call, 1));
    sum_squares(operators, call, 1);
    product_backward(operators, call, call_in(call, 0));
}

static void residual_backward(struct cuda_operators *operators, const struct operation_call *call)
{
    void *dy = call_in(call, 0);
    void *masked = call_at(call, call->operation->masked);
    if (masked && call->dropout) {
        cuda_dropout_backward(&operators->cuda, call->precision, call->N, call->op->outputs,
                              call->dropout, dy, masked);
        dy = masked;
    }
    dense_backward(operators, call, dy);
}

static void attention_forward(struct cuda_operators *operators, const struct operation_call *call)
{
    cuda_attention_forward(&operators->cuda, call->precision, call->B, call->T, call->config->heads,
                           call->H / call->config->heads, call_in(call, 0), call->dropout,
                           call_out(call, 0), call_out(call, 1));
}

static void attention_backward(struct cuda_operators *operators, const struct operation_call *call)
{
    cuda_attention_backward(&operators->cuda, call->precision, call->B, call->T,
                            call->config->heads, call->H / call->config->heads, call_in(call, 0),
                            call_in(call, 1), call_in(call, 2), call_in(call, 3), call->dropout,
                            call_out(call, 0));
}

/* logits[N,V] = x[N,H] weight[V,H]^T, rows of logits apart */
static void classifier_forward(struct cuda_operators *operators, const struct operation_call *call)
{
    uint32_t V = call->config->vocabulary;
    multiply(operators, call,
             (struct product_shape){.M = call->N,
                                    .N = V,
                                    .K = call->H,
                                    .c_row = model_logits_row(V),
                                    .transposed_b = true,
                                    .out = (uint8_t)call->precision},
             (struct product){
                 .a = call_in(call, 0), .b = call_parameter(call, 0), .c = call_out(call, 0)});
}

/* The input's gradient first: the weight may be overwritten by its own. */
static void classifier_backward(struct cuda_operators *operators, const struct operation_call *call)
{
    uint32_t V = call->config->vocabulary, row = model_logits_row(V);
    multiply(operators, call,
             (struct product_shape){
                 .M = call->N, .N = call->H, .K = V, .a_row = row, .out = (uint8_t)call->precision},
             (struct product){
                 .a = call_in(call, 0), .b = call_parameter(call, 0), .c = call_out(call, 0)});
    multiply_weight(operators, call,
                    (struct product_shape){.M = V, .N = call->H, .K = call->N, .a_row = row},
                    call_in(call, 0), call_in(call, 1));
}

static void loss(struct cuda_operators *operators, const struct operation_call *call)
{
    const struct operation *operation = call->operation;
    uint32_t V = call->config->vocabulary;
    const uint32_t *targets = (const uint32_t *)call_in(call, 1) + call->N;
    double divisor = (double)call->N * operation->job->micro_batches;
    if (operation->training)
        cuda_loss_backward(&operators->cuda, call->precision, call->N, V, targets, divisor,
                           call_in(call, 0), operation->loss);
    else
        cuda_loss(&operators->cuda, call->precision, call->N, V, targets, call_in(call, 0),
                  operation->loss);
}

static void update(struct cuda_operators *operators, const struct operation_call *call)
{
    const struct kernel_adamw adamw = call_adamw(call);
    cuda_adamw(&operators->cuda, &call->operation->adamw, call->operation->gradient_scale != NULL,
               &adamw);
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
    struct operation_call call;
    call_init(&call, operators->arena, operation);
    operators->error = cudaSuccess;
    kinds[operation->op->kind](operators, &call);
    cudaError_t launched = cudaGetLastError();
    return operators->error != cudaSuccess ? operators->error : launched;
}

cudaError_t cuda_operators_clip(struct cuda_operators *operators, const double *squares,
                                uint32_t count, double clip, double *scale)
{
    cuda_clip(&operators->cuda, count, squares, clip, scale);
    return cudaGetLastError();
}
