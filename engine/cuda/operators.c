#include "engine/cuda/operators.h"

#include "engine/cuda/kernels.h"
#include "engine/cuda/reduction.h"
#include "engine/device.h"
#include "engine/operators.h"

enum {
    WORKSPACE_BYTES = 32 << 20, /* for the matrix products */
    SCRATCH_BYTES = 16 << 20,   /* for the kernels */
    COUNTER_BYTES = 256,
    SCALE_BYTES = 256
};

/* Tables begin behind the counter and the scale. */
enum { OWN_BYTES = WORKSPACE_BYTES + SCRATCH_BYTES + COUNTER_BYTES + SCALE_BYTES };

/* Elements that a rank receives from each other rank at once. */
enum { PIECE = 256 << 10 };

struct cuda_operators {
    bool waits;   /* behind each operator */
    uint8_t *own; /* workspace, scratch, counter, scale, tables */
    struct cuda_context cuda;
    struct cuda_updates updates; /* that wait */
    struct cuda_squares squares; /* that wait */
    struct operators operators;
    /* Several ranks: reductions, on a stream of their own. */
    uint8_t *received; /* and the blocks' sums behind it */
    struct cuda_context network;
    struct operators reductions;
};

/* The host's memory is not pinned, so the runtime has read it when the call returns. */
static const float *copy_table(const void *context, uint64_t count, const float *values)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    g_assert(count * sizeof *values <= cuda->table_bytes);
    cudaMemcpyAsync(cuda->tables, values, count * sizeof *values, cudaMemcpyHostToDevice,
                    cuda->stream);
    return cuda->tables;
}

static const struct kernels cuda_kernels = {
    .embed_forward = cuda_embed_forward,
    .embed_order = cuda_embed_order,
    .embed_tokens = cuda_embed_tokens,
    .embed_positions = cuda_embed_positions,
    .norm_forward = cuda_norm_forward,
    .norm_backward_input = cuda_norm_backward_input,
    .norm_backward_parameters = cuda_norm_backward_parameters,
    .linear_forward = cuda_linear_forward,
    .linear_gelu = cuda_linear_gelu,
    .linear_residual = cuda_linear_residual,
    .linear_slope = cuda_linear_slope,
    .linear_backward_input = cuda_linear_backward_input,
    .linear_backward_weight = cuda_linear_backward_weight,
    .linear_backward_bias = cuda_linear_backward_bias,
    .classifier_forward = cuda_classifier_forward,
    .classifier_backward_input = cuda_classifier_backward_input,
    .classifier_backward_weight = cuda_classifier_backward_weight,
    .gelu_forward = cuda_gelu_forward,
    .gelu_backward_bias = cuda_gelu_backward_bias,
    .residual_forward = cuda_residual_forward,
    .dropout_backward = cuda_dropout_backward,
    .attention_forward = cuda_attention_forward,
    .attention_backward = cuda_attention_backward,
    .loss = cuda_loss,
    .loss_backward = cuda_loss_backward,
    .sum_squares = cuda_sum_squares,
    .block_squares = cuda_block_squares,
    .total_squares = cuda_total_squares,
    .clip = cuda_clip,
    .adamw = cuda_adamw,
    .rms_forward = cuda_rms_forward,
    .rms_backward_input = cuda_rms_backward_input,
    .rms_backward_weight = cuda_rms_backward_weight,
    .product_forward = cuda_product_forward,
    .product_residual = cuda_product_residual,
    .product_slope = cuda_product_slope,
    .product_backward_input = cuda_product_backward_input,
    .product_backward_weight = cuda_product_backward_weight,
    .gate_forward = cuda_gate_forward,
    .gate_backward = cuda_gate_backward,
    .scale = cuda_scale,
    .cap_logits = cuda_cap_logits,
    .table = copy_table,
    .grouped_forward = cuda_grouped_forward,
    .grouped_backward = cuda_grouped_backward,
};

bool cuda_operators_support(const struct model_config *config, GError **error)
{
    uint32_t head = model_config_head_size(config);
    uint32_t group = config->heads / model_config_key_heads(config);
    uint64_t deltas = (uint64_t)group * config->positions * sizeof(float);
    if (config->experts)
        g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_MODEL,
                    "the CUDA device does not train mixtures of experts; the CPU device does "
                    "(--device cpu)");
    else if (head > CUDA_HEAD_LIMIT)
        g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_MODEL,
                    "heads have %u columns; the CUDA device computes attention heads of at most %d",
                    head, CUDA_HEAD_LIMIT);
    else if (deltas > SCRATCH_BYTES)
        g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_MODEL,
                    "the CUDA device's attention cannot hold %u heads of %u positions", group,
                    config->positions);
    else
        return true;
    return false;
}

static bool take_memory(struct cuda_operators *operators, uint64_t table_bytes, cudaStream_t stream)
{
    void *own;
    int device, multiprocessors;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) !=
            cudaSuccess ||
        cudaMalloc(&own, OWN_BYTES + table_bytes) != cudaSuccess)
        return false;
    operators->own = own;
    operators->cuda = (struct cuda_context){
        .stream = stream,
        .scratch = operators->own + WORKSPACE_BYTES,
        .scratch_bytes = SCRATCH_BYTES,
        .counter = (uint32_t *)(operators->own + WORKSPACE_BYTES + SCRATCH_BYTES),
        .multiprocessors = (uint32_t)multiprocessors,
        .scale = (double *)(operators->own + WORKSPACE_BYTES + SCRATCH_BYTES + COUNTER_BYTES),
        .tables = (float *)(void *)(operators->own + OWN_BYTES),
        .table_bytes = table_bytes,
    };
    return cudaMemsetAsync(operators->cuda.counter, 0, COUNTER_BYTES, stream) == cudaSuccess;
}

struct cuda_operators *cuda_operators_new(uint8_t *arena, uint64_t table_bytes, cudaStream_t stream,
                                          GError **error)
{
    struct cuda_operators *operators = g_new0(struct cuda_operators, 1);
    operators->waits = cuda_operators_wait();
    operators->operators.kernels = &cuda_kernels;
    operators->operators.context = &operators->cuda;
    operators->operators.memory = arena;
    if (take_memory(operators, table_bytes, stream))
        operators->cuda.products = cuda_products_new(stream, operators->own, WORKSPACE_BYTES);
    const char *choices = g_getenv("PSTAR_CUDA_PRODUCTS");
    if (operators->cuda.products &&
        (!choices || cuda_products_time(operators->cuda.products, choices, error)))
        return operators;
    if (!operators->cuda.products)
        g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_MEMORY,
                    "cannot allocate %" G_GUINT64_FORMAT
                    " MiB of device memory for the operators or cannot start cuBLASLt",
                    (OWN_BYTES + table_bytes) >> 20);
    cuda_operators_free(operators);
    return NULL;
}

void cuda_operators_free(struct cuda_operators *operators)
{
    if (!operators)
        return;
    cuda_products_free(operators->cuda.products);
    reduction_free(operators->operators.reduction);
    reduction_free(operators->reductions.reduction);
    g_free(operators->operators.rotary);
    cudaFree(operators->received);
    cudaFree(operators->own);
    g_free(operators);
}

/* Frees `library`, what a library said; if it is NULL, `error` says what failed. */
static char *explain(const struct cuda_operators *operators, const struct operation *operation,
                     char *library, cudaError_t error)
{
    static const char hint[] = "; it may be of an operator before it, which PSTAR_CUDA_SYNC=1 "
                               "finds by waiting behind each";
    const struct model_operator *op = operation->op;
    const struct model_job *job = operation->job;
    if (!library && error == cudaSuccess)
        return NULL;
    char *text = g_strdup_printf(
        "CUDA: %s (operator %s, %s: %u rows of %u, %u to %u columns, %s%s%s%s)",
        library ? library : cudaGetErrorString(error), operation->name, model_kind_name(op->kind),
        job->choices.batch * job->sequence, operation->config->width, op->inputs, op->outputs,
        job->precision == MODEL_BF16 ? "bf16" : "fp32", op->accumulate ? ", accumulates" : "",
        op->dropout_site == NO_INDEX ? "" : ", dropout", library || operators->waits ? "" : hint);
    g_free(library);
    return text;
}

static char *finish(const struct cuda_operators *operators, const struct operation *operation,
                    char *library, cudaStream_t stream)
{
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess && operators->waits)
        error = cudaStreamSynchronize(stream);
    return explain(operators, operation, library, error);
}

void cuda_operators_join(struct cuda_operators *operators)
{
    operators->cuda.updates = operators->waits ? NULL : &operators->updates;
    operators->cuda.squares = operators->waits ? NULL : &operators->squares;
}

char *cuda_operators_flush(struct cuda_operators *operators)
{
    uint32_t updates = operators->updates.count, squares = operators->squares.count;
    if (updates + squares == 0)
        return NULL;
    cuda_flush_squares(&operators->cuda);
    cuda_flush_updates(&operators->cuda);
    cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? NULL
                                : g_strdup_printf("CUDA: %s (norms of %u tensors, updates of %u)",
                                                  cudaGetErrorString(error), squares, updates);
}

/* Updates overwrite gradients, and other operators read parameters. */
static void flush_before(struct cuda_operators *operators, const struct operation *operation)
{
    if (operation->op->kind == MODEL_UPDATE)
        cuda_flush_squares(&operators->cuda);
    else
        cuda_flush_updates(&operators->cuda);
}

/* A gradient in a buffer is there only for a while. */
static void flush_behind(struct cuda_operators *operators, const struct operation *operation)
{
    if (model_gradient_layout(operation->job) == MODEL_GRADIENT_BUFFER)
        cuda_flush_squares(&operators->cuda);
}

char *cuda_operators_run(struct cuda_operators *operators, const struct operation *operation)
{
    flush_before(operators, operation);
    operators_run(&operators->operators, operation);
    flush_behind(operators, operation);
    return finish(operators, operation, cuda_products_take_error(operators->cuda.products),
                  operators->cuda.stream);
}

cudaError_t cuda_operators_clip(struct cuda_operators *operators, const double *squares,
                                uint32_t count, double clip, double *scale)
{
    cuda_clip(&operators->cuda, count, squares, clip, scale);
    return cudaGetLastError();
}

/* ---- several ranks ---- */

bool cuda_operators_share(struct cuda_operators *operators, struct ranks *ranks,
                          struct ranks *on_network, cudaStream_t network, GError **error)
{
    uint64_t bytes = 2 * (uint64_t)ranks->count * PIECE * sizeof(float);
    if (cudaMalloc((void **)&operators->received, bytes + REDUCTION_BLOCKS * sizeof(double)) !=
        cudaSuccess) {
        g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_MEMORY,
                    "cannot allocate %" G_GUINT64_FORMAT
                    " MiB of device memory for what %u ranks send",
                    bytes >> 20, ranks->count);
        return false;
    }
    struct reduction_place place = {
        .context = &operators->cuda, .add = cuda_reduction_add, .clear = cuda_reduction_clear};
    operators->operators.reduction = reduction_new(ranks, &place);
    operators->network = (struct cuda_context){.stream = network};
    cuda_products_fix(operators->cuda.products);
    place.context = &operators->network;
    place.piece = PIECE;
    place.received = (float *)(void *)operators->received;
    place.blocks = (double *)(void *)(operators->received + bytes);
    operators->reductions = (struct operators){
        .kernels = &cuda_kernels,
        .context = &operators->network,
        .reduction = reduction_new(on_network, &place),
        .memory = operators->operators.memory,
    };
    return true;
}

char *cuda_operators_reduce(struct cuda_operators *operators, const struct operation *operation)
{
    operators_run(&operators->reductions, operation);
    return finish(operators, operation, NULL, operators->network.stream);
}

void cuda_operators_share_update(struct cuda_operators *operators,
                                 const struct operation *operation)
{
    operators_share_update(&operators->operators, operation);
}
