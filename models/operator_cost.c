#include "models/operator_cost.h"

#include "traces/shard.h"

/* More operations an element, counted from the formulas. */
enum {
    NORM_BACKWARD = 12,  /* x^; dy w; two sums; their combination; sums for weight and bias */
    RMS_FORWARD = 4,     /* square, sum; scale twice */
    RMS_BACKWARD = 9,    /* x^; dy w; a sum; their combination; a sum for the weight */
    GATE_FORWARD = 5,    /* u x / (1 + exp(-x)) */
    GATE_BACKWARD = 11,  /* the logistic function, SiLU and its derivative, and two gradients */
    GELU_FORWARD = 9,    /* 0.5 x (1 + tanh(s (x + c x^3))) */
    GELU_BACKWARD = 16,  /* its derivative times the gradient */
    EXACT_BACKWARD = 11, /* its derivative times the gradient */
    ROUTED_BACKWARD = 4, /* of a softmax: a product and a sum, a difference, a product */
    LOSS = 6,            /* softmax, normalised and scaled into the gradient */
    ADAMW = 17, /* moments 7, bias corrections 2, root, epsilon, division, decay, step, clip */
};

static uint64_t bias(const struct iteration_builder *b, const struct model_operator *op)
{
    return op->t[1] == NO_INDEX ? 0 : iteration_builder_rows(b, op) * op->outputs;
}

static uint64_t linear_forward(const struct iteration_builder *b, const struct model_operator *op)
{
    uint64_t n = iteration_builder_rows(b, op), add = op->in[2] == NO_INDEX ? 0 : n * op->outputs;
    return 2 * n * op->inputs * op->outputs + bias(b, op) + add;
}

/* The gradients of the weight, unless it is frozen, and of the input, if it is wanted. */
static uint64_t backward_products(const struct iteration_builder *b,
                                  const struct model_operator *op)
{
    uint64_t products = (op->frozen[0] ? 0 : 1) + (op->out[0] == NO_INDEX ? 0 : 1);
    return products * 2 * iteration_builder_rows(b, op) * op->inputs * op->outputs;
}

/* The operator of a split backward adds no bias: that is in the first half. */
static uint64_t weight_backward(const struct iteration_builder *b, const struct model_operator *op)
{
    return 2 * b->rows * op->inputs * op->outputs;
}

static uint64_t linear_backward(const struct iteration_builder *b, const struct model_operator *op)
{
    uint64_t add = op->add ? b->rows * op->inputs : 0;
    return backward_products(b, op) + bias(b, op) + add;
}

/* Two thin products, and the factor. */
static uint64_t adapter_forward(const struct iteration_builder *b, const struct model_operator *op)
{
    uint64_t outputs = op->out[1] == NO_INDEX ? 0 : op->outputs;
    return b->rows * b->config->lora_rank * (2 * (op->inputs + outputs) + 1);
}

/* Four, or three where nobody wants the gradient of the input. */
static uint64_t adapter_backward(const struct iteration_builder *b, const struct model_operator *op)
{
    uint64_t inputs = op->out[0] == NO_INDEX ? 1 : 2, add = op->add ? b->rows * op->inputs : 0;
    return b->rows * b->config->lora_rank * (2 * (inputs * op->inputs + 2 * op->outputs) + 1) + add;
}

/* A gate of GELU also multiplies: once forward, and twice backward, where it computes GELU, too. */
static uint64_t gate(const struct iteration_builder *b, uint64_t silu, uint64_t gelu)
{
    uint64_t more = gelu == GELU_FORWARD ? 1 : GELU_FORWARD + 2;
    return b->config->activation == MODEL_SILU ? silu : gelu + more;
}

static uint64_t gelu(const struct iteration_builder *b, uint64_t tanh, uint64_t exact)
{
    return b->config->activation == MODEL_GELU_EXACT ? exact : tanh;
}

/* GELU's derivative behind a product, and the sums that are the gradient of the bias in its input.
 */
static uint64_t joined_slope(const struct iteration_builder *b, const struct model_operator *op)
{
    uint64_t each = gelu(b, GELU_BACKWARD, EXACT_BACKWARD) + (op->t[2] != NO_INDEX);
    return op->in[2] == NO_INDEX ? 0 : each * b->rows * op->inputs;
}

static uint64_t norm(const struct iteration_builder *b, const struct model_operator *op,
                     uint64_t layer_norm, uint64_t rms_norm)
{
    uint64_t each = b->config->norm == MODEL_LAYER_NORM ? layer_norm : rms_norm;
    uint64_t dropout = op->dropout_site == NO_INDEX ? 0 : 1;
    return (each + dropout) * iteration_builder_norm_rows(b, op) * op->inputs;
}

/* Returns the pairs of positions of which one attends to the other: the last `window` of each
 * position, or all before it, or all. Unfused, all pairs are computed. */
static uint64_t pairs(const struct iteration_builder *b, int32_t layer)
{
    uint64_t t = b->job->sequence, window = model_config_window(b->config, layer);
    uint64_t each = t * (t + 1) / 2;
    if (b->job->unfused || b->config->bidirectional)
        each = t * t;
    else if (window && window < t)
        each = window * (window + 1) / 2 + (t - window) * window;
    return b->job->choices.batch * each;
}

/* Matrix products over the pairs: queries with keys and weights with values forward; backward the
 * scores again where they were not kept, and the gradients of weights, values, queries and keys. */
static uint64_t attention(const struct iteration_builder *b, const struct model_operator *op,
                          uint64_t products, uint64_t caps)
{
    uint64_t heads = b->config->heads,
             each = COST_SOFTMAX + (b->config->score_cap > 0 ? caps * COST_CAP : 0);
    return pairs(b, op->layer) * (products * 2 * model_config_queries(b->config) + each * heads);
}

/* Queries and keys turn forward, and their gradients backward. */
static uint64_t rotary(const struct iteration_builder *b, int32_t layer)
{
    uint64_t heads = b->config->heads + model_config_key_heads(b->config);
    return COST_ROTARY * b->rows * heads * model_config_turned(b->config, layer);
}

/* Returns the elements of a tensor that the rank has in a list. */
static uint64_t elements_in(const struct iteration_builder *b, tensor_id tensor,
                            enum trace_list list)
{
    uint64_t all = g_array_index(b->tensors, struct trace_tensor, tensor).elements;
    bool whole = list == TRACE_GATHERED ||
                 (list == TRACE_PARAM && !model_shares_parameters(b->job)) ||
                 (list == TRACE_GRAD && b->sums == MODEL_SUMS_BUCKETS) ||
                 (list >= TRACE_MASTER && list <= TRACE_EXP_AVG_SQ && model_updates_whole(b->job));
    return whole ? all : shard_room(all, model_ranks(b->job));
}

static uint64_t additions(const struct iteration_builder *b, tensor_id tensor)
{
    uint64_t all = g_array_index(b->tensors, struct trace_tensor, tensor).elements;
    return shard_room(all, model_ranks(b->job)) * model_ranks(b->job);
}

/* One addition an element of the shard and rank. */
static uint64_t reduction(const struct iteration_builder *b, const struct model_operator *op)
{
    uint64_t flops = 0;
    for (int i = 0; i < MODEL_TENSORS; i++)
        if (op->t[i] != NO_INDEX)
            flops += additions(b, op->t[i]);
    for (uint32_t i = 0; i < op->bucket_count; i++)
        flops += additions(b, op->bucket[i]);
    return flops;
}

/* A product, the softmax of its rows, and comparisons that find the greatest probabilities; sums,
 * and quotients, where these are to add up to 1, and sums of all rows for the loss. */
static uint64_t route_forward(const struct iteration_builder *b, const struct model_operator *op)
{
    uint64_t s = b->config->experts_per_token, each = COST_SOFTMAX + s + (op->in[1] != NO_INDEX);
    return linear_forward(b, op) +
           b->rows * (each * op->outputs + (b->config->shared_weight ? 2 * s : 0));
}

/* From the gradients of the weights to those of the probabilities, which the loss of imbalance adds
 * to, and of the logits. */
static uint64_t route_backward(const struct iteration_builder *b, const struct model_operator *op)
{
    uint64_t s = b->config->experts_per_token;
    uint64_t each = ROUTED_BACKWARD + (op->in[4] != NO_INDEX);
    return linear_backward(b, op) +
           b->rows * (each * op->outputs + (b->config->shared_weight ? 4 * s : 0));
}

/* Rows are weighted and added to the residual stream, once for each of their experts. Backward, the
 * stream's gradient is weighted, and its product with each row is the weight's. */
static uint64_t combine(const struct iteration_builder *b, const struct model_operator *op)
{
    bool forward = op->kind == MODEL_COMBINE_FORWARD;
    uint64_t rows = forward || op->out[0] != NO_INDEX ? 1 : 0;
    uint64_t sums = forward ? 1 : op->out[1] != NO_INDEX ? 2 : 0;
    return (rows + sums) * b->rows * b->config->experts_per_token * b->config->width;
}

uint64_t operator_flops(const struct iteration_builder *b, const struct model_operator *op)
{
    uint64_t n = b->rows, h = b->config->width, v = model_config_classes(b->config);
    uint64_t residual = op->dropout_site == NO_INDEX ? 1 : 2;
    uint64_t cap = b->config->logit_cap > 0 ? COST_CAP : 0;
    switch ((enum model_kind)op->kind) {
    case MODEL_EMBED_FORWARD:
    case MODEL_EMBED_BACKWARD:
        return n * h * (residual + b->config->scaled_embedding + (b->config->token_types > 0));
    case MODEL_NORM_FORWARD:
        return norm(b, op, COST_NORM, RMS_FORWARD) + (op->in[1] == NO_INDEX ? 0 : n * op->inputs);
    case MODEL_NORM_BACKWARD:
        return norm(b, op, NORM_BACKWARD, RMS_BACKWARD);
    case MODEL_LINEAR_FORWARD:
        return linear_forward(b, op);
    case MODEL_GELU_FORWARD:
        return linear_forward(b, op) + gelu(b, GELU_FORWARD, COST_EXACT_GELU) * n * op->outputs;
    case MODEL_RESIDUAL_FORWARD:
        return linear_forward(b, op) + residual * n * op->outputs;
    case MODEL_LINEAR_BACKWARD:
        return linear_backward(b, op);
    case MODEL_WEIGHT_BACKWARD:
        return weight_backward(b, op);
    case MODEL_GELU_BACKWARD:
        return linear_backward(b, op) + gelu(b, GELU_BACKWARD, EXACT_BACKWARD) * n * op->outputs;
    case MODEL_RESIDUAL_BACKWARD:
        return linear_backward(b, op) + (residual - 1) * n * op->outputs + joined_slope(b, op);
    case MODEL_GATED_FORWARD:
        return linear_forward(b, op) + gate(b, GATE_FORWARD, GELU_FORWARD) *
                                           iteration_builder_rows(b, op) * b->config->inner;
    case MODEL_GATED_BACKWARD:
        return linear_backward(b, op) + gate(b, GATE_BACKWARD, GELU_BACKWARD) *
                                            iteration_builder_rows(b, op) * b->config->inner;
    case MODEL_ATTENTION_FORWARD:
    case MODEL_GROUPED_FORWARD:
        return attention(b, op, 2, 1) + rotary(b, op->layer);
    case MODEL_ATTENTION_BACKWARD:
    case MODEL_GROUPED_BACKWARD:
        return attention(b, op, b->job->unfused ? 4 : 5, 2) +
               2 * n * model_config_queries(b->config) + rotary(b, op->layer);
    case MODEL_ADAPTER_FORWARD:
        return adapter_forward(b, op);
    case MODEL_ADAPTER_BACKWARD:
        return adapter_backward(b, op);
    case MODEL_ROUTE_FORWARD:
        return route_forward(b, op);
    case MODEL_ROUTE_BACKWARD:
        return route_backward(b, op);
    case MODEL_COMBINE_FORWARD:
    case MODEL_COMBINE_BACKWARD:
        return combine(b, op);
    case MODEL_DISPATCH_FORWARD:
        return 0;
    case MODEL_DISPATCH_BACKWARD:
        return n * h * (b->config->experts_per_token - 1);
    case MODEL_BALANCE_LOSS:
        return 3 * (uint64_t)b->config->experts;
    case MODEL_CLASSIFIER_FORWARD:
        return 2 * n * h * v + cap * n * v + bias(b, op);
    case MODEL_LOSS:
        return (LOSS + cap) * n * v;
    case MODEL_CLASSIFIER_BACKWARD:
        return backward_products(b, op) + bias(b, op);
    case MODEL_REDUCE:
    case MODEL_REDUCE_BUCKET:
        return reduction(b, op);
    case MODEL_SEND:
    case MODEL_RECEIVE:
    case MODEL_ADD:
    case MODEL_NEWEST:
        return 0; /* described by the cut (models/pipeline.h) */
    case MODEL_UPDATE:
        return ADAMW * (iteration_builder_blocks(b, op->t[0]) > 1
                            ? iteration_builder_updated(b, op)
                            : elements_in(b, op->t[0], TRACE_EXP_AVG));
    case MODEL_KINDS:
        break;
    }
    g_assert_not_reached();
}

uint64_t operator_list_bytes(const struct model_job *job, enum trace_list list)
{
    bool bf16 = job->precision == MODEL_BF16;
    switch (list) {
    case TRACE_PARAM:
        return bf16 ? 2 : 4;
    case TRACE_GRAD:
        return model_gradient_layout(job) == MODEL_GRADIENT_LIST ? 4 : 0;
    case TRACE_MASTER:
        return !model_has_masters(job) ? 0 : job->choices.split_masters ? 2 : 4;
    case TRACE_EXP_AVG:
    case TRACE_EXP_AVG_SQ:
        return 4;
    case TRACE_GATHERED:
        return !model_shares_parameters(job) ? 0 : bf16 ? 2 : 4;
    case TRACE_LISTS:
    case TRACE_ACCESS_LISTS:
        break;
    }
    g_assert_not_reached();
}

static uint64_t elements_touched(const struct iteration_builder *b, const struct model_operator *op,
                                 const struct trace_access *access)
{
    uint64_t all = elements_in(b, access->tensor, access->list);
    if (op->kind == MODEL_UPDATE && iteration_builder_blocks(b, op->t[0]) > 1)
        return iteration_builder_updated(b, op);
    bool embeds = op->kind == MODEL_EMBED_FORWARD || op->kind == MODEL_EMBED_BACKWARD;
    if (!embeds || access->mode == TRACE_OVERWRITE)
        return all;
    uint64_t rows = access->tensor == op->t[1] ? b->job->sequence : b->rows;
    return MIN(all, rows * b->config->width);
}

static uint64_t access_bytes(const struct iteration_builder *b, const struct model_operator *op,
                             const struct trace_access *access)
{
    uint64_t once = elements_touched(b, op, access) * operator_list_bytes(b->job, access->list);
    if (access->list == TRACE_GATHERED && access->mode != TRACE_READ)
        return 0; /* the update ends the copy */
    bool rounded = op->kind == MODEL_UPDATE && access->list == TRACE_PARAM &&
                   iteration_builder_rounds(b);
    return access->mode == TRACE_UPDATE && !rounded ? 2 * once : once;
}

static uint64_t buffer_bytes(const struct iteration_builder *b, uint32_t buffer)
{
    return buffer == NO_INDEX ? 0 : g_array_index(b->buffers, struct trace_buffer, buffer).bytes;
}

/* With tied weights, the gradient exists already, and only the rows of the batch's tokens are added
 * to. */
static uint64_t gradient_bytes(const struct iteration_builder *b, const struct model_operator *op,
                               int i)
{
    uint64_t all = buffer_bytes(b, op->gradient[i]);
    if (op->kind == MODEL_UPDATE && iteration_builder_blocks(b, op->t[0]) > 1)
        return i == 0 ? MIN(all, b->element * iteration_builder_updated(b, op)) : 0;
    bool adds = op->kind == MODEL_EMBED_BACKWARD && i == 0 && b->config->tied;
    return adds ? 2 * MIN(all, b->rows * b->config->width * b->element) : all;
}

/* Returns the bytes of buffers that the operator both reads and writes, because it changes them in
 * place or uses them as scratch. */
static uint64_t second_passes(const struct iteration_builder *b, const struct model_operator *op)
{
    uint64_t bytes = buffer_bytes(b, op->workspace) + buffer_bytes(b, op->masked);
    bool gated = op->kind == MODEL_GATED_BACKWARD && !b->config->joined_gate;
    if (op->kind == MODEL_LOSS || op->kind == MODEL_GELU_BACKWARD || gated)
        bytes += buffer_bytes(b, op->in[0]);
    if (op->kind == MODEL_ROUTE_FORWARD)
        bytes += buffer_bytes(b, op->in[1]);
    if (op->add)
        bytes += buffer_bytes(b, op->out[0]);
    return bytes;
}

/* What an operator is if nothing is fused. */
struct unfused {
    uint64_t kernels;
    uint64_t passes; /* over an element of its columns, beside its operands */
};

/* Forward, a step reads and writes its columns once: bias, GELU, dropout and residual; in
 * attention, the transposition of the heads of queries, keys, values and result. */
static struct unfused unfused_forward(const struct model_operator *op, enum model_kind kind,
                                      uint64_t dropout)
{
    uint64_t types = op->t[2] != NO_INDEX, sum = op->in[1] != NO_INDEX;
    switch (kind) {
    case MODEL_EMBED_FORWARD: /* two look-ups and their sum; one of each for types */
        return (struct unfused){3 + 2 * types + dropout, 0};
    case MODEL_NORM_FORWARD:
        return (struct unfused){1 + sum + dropout, 2 * (sum + dropout)};
    case MODEL_LINEAR_FORWARD:
        return (struct unfused){2, 2};
    case MODEL_GELU_FORWARD:
        return (struct unfused){3, 4};
    case MODEL_RESIDUAL_FORWARD:
        return (struct unfused){3 + dropout, 4 + 2 * dropout};
    case MODEL_GATED_FORWARD: /* SiLU, product */
        return (struct unfused){3, 2};
    case MODEL_ATTENTION_FORWARD: /* two products, scale, mask, softmax, heads */
        return (struct unfused){9 + dropout, 8};
    case MODEL_GROUPED_FORWARD: /* the same; turning queries and keys, and repeating keys and values
                                 */
        return (struct unfused){21 + dropout, 24};
    case MODEL_ADAPTER_FORWARD: /* two products, and the factor */
        return (struct unfused){3, 0};
    case MODEL_ROUTE_FORWARD: /* product, conversion, softmax, choice, sum, quotient */
        return (struct unfused){6, 2};
    case MODEL_COMBINE_FORWARD: /* product, sum over experts, sum with the residual */
        return (struct unfused){3, 4};
    case MODEL_LOSS:
        return (struct unfused){6, 0};
    default:
        return (struct unfused){1, 0};
    }
}

/* Backward, the gradient of a product's result is read again for the weight and for the bias, and
 * once more where GELU's derivative wrote it. A norm reads its operands again for its weight and
 * bias, and a step adds the gradient of the residual stream. */
static struct unfused unfused_backward(const struct model_operator *op, enum model_kind kind,
                                       uint64_t dropout)
{
    uint64_t types = op->t[2] != NO_INDEX;
    switch (kind) {
    case MODEL_EMBED_BACKWARD:
        return (struct unfused){3 + types + dropout, 0};
    case MODEL_LINEAR_BACKWARD:
        return (struct unfused){3, 2};
    case MODEL_WEIGHT_BACKWARD:
        return (struct unfused){1, 0};
    case MODEL_ADAPTER_BACKWARD: /* four products, the factor, and a sum */
        return (struct unfused){6, 0};
    case MODEL_ROUTE_BACKWARD: /* two products; quotient, sum, choice, softmax, conversion */
        return (struct unfused){7, 2};
    case MODEL_COMBINE_BACKWARD: /* spreads, two products, a sum */
        return (struct unfused){4, 2};
    case MODEL_GELU_BACKWARD:
        return (struct unfused){4, 3};
    case MODEL_RESIDUAL_BACKWARD:
        return (struct unfused){3 + dropout, 2};
    case MODEL_GATED_BACKWARD:
        return (struct unfused){5, 3};
    case MODEL_ATTENTION_BACKWARD: /* four products, scale, mask, softmax, heads */
        return (struct unfused){11 + dropout, 8};
    case MODEL_GROUPED_BACKWARD:
        return (struct unfused){25 + dropout, 26};
    case MODEL_NORM_BACKWARD:
        return (struct unfused){2 + op->add + dropout, 2 + 2 * (op->add + dropout)};
    default:
        return (struct unfused){2, 0};
    }
}

/* Attention that reads three buffers takes the steps of one that reads one buffer, where nothing
 * turns or is repeated. */
static enum model_kind unfused_kind(const struct model_config *config,
                                    const struct model_operator *op)
{
    bool plain = !config->rotary.columns && model_config_key_heads(config) == config->heads;
    if (plain && op->kind == MODEL_GROUPED_FORWARD)
        return MODEL_ATTENTION_FORWARD;
    if (plain && op->kind == MODEL_GROUPED_BACKWARD)
        return MODEL_ATTENTION_BACKWARD;
    return (enum model_kind)op->kind;
}

static struct unfused unfused_of(const struct model_config *config, const struct model_operator *op)
{
    enum model_kind kind = unfused_kind(config, op);
    uint64_t dropout = op->dropout_site != NO_INDEX;
    bool forward = model_operator_is_forward(op) || op->kind == MODEL_LOSS;
    return forward ? unfused_forward(op, kind, dropout) : unfused_backward(op, kind, dropout);
}

uint64_t operator_kernels(const struct model_config *config, const struct model_operator *op)
{
    return op->kind == MODEL_UPDATE ? 0 : unfused_of(config, op).kernels;
}

/* Attention's backward passes over the scores more often than forward: each product reads them
 * alone, and dropout's gradient is a step. */
static uint64_t score_passes(const struct model_operator *op)
{
    if (op->kind != MODEL_ATTENTION_BACKWARD && op->kind != MODEL_GROUPED_BACKWARD)
        return 0;
    return op->dropout_site == NO_INDEX ? 2 : 3;
}

static uint64_t unfused_bytes(const struct iteration_builder *b, const struct model_operator *op)
{
    uint64_t columns = op->outputs ? op->outputs : b->config->width;
    if (!b->job->unfused || op->kind == MODEL_UPDATE)
        return 0;
    return b->element *
           (unfused_of(b->config, op).passes * iteration_builder_rows(b, op) * columns +
            score_passes(op) * iteration_builder_scores(b));
}

/* Returns the bytes of an expert's rows in the operator's buffers. */
static uint64_t expert_bytes(const struct iteration_builder *b, const struct model_operator *op)
{
    uint64_t h = b->config->width, f = b->config->inner, columns = 0;
    switch ((enum model_kind)op->kind) {
    case MODEL_GATED_FORWARD: /* x; gate and up, and what is inside */
        columns = h + 3 * f;
        break;
    case MODEL_LINEAR_FORWARD:
        columns = f + h;
        break;
    case MODEL_LINEAR_BACKWARD: /* dy and x; dx */
        columns = h + f + (op->out[0] == NO_INDEX ? 0 : f);
        break;
    case MODEL_GATED_BACKWARD: /* dy, x, gate and up; dx, and the gradient of gate and up */
        columns = f + h + 2 * f + (op->out[0] == NO_INDEX ? 0 : h) + 2 * f;
        break;
    default:
        g_assert_not_reached();
    }
    return op->routed * columns * b->element;
}

/* Returns the bytes of all buffers that the operator reads and writes once. */
static uint64_t passed_bytes(const struct iteration_builder *b, const struct model_operator *op)
{
    size_t inputs = op->kind == MODEL_REDUCE ? 1 : G_N_ELEMENTS(op->in);
    uint64_t bytes = 0;
    if (op->expert != NO_INDEX)
        return expert_bytes(b, op);
    for (size_t i = 0; i < inputs; i++)
        bytes += buffer_bytes(b, op->in[i]);
    for (size_t i = 0; i < G_N_ELEMENTS(op->out); i++)
        bytes += buffer_bytes(b, op->out[i]);
    return bytes;
}

uint64_t operator_bytes(const struct iteration_builder *b, const struct model_operator *op,
                        uint32_t first_access)
{
    uint64_t bytes = second_passes(b, op) + unfused_bytes(b, op) + passed_bytes(b, op);
    for (guint i = first_access; i < b->accesses->len; i++)
        bytes += access_bytes(b, op, &g_array_index(b->accesses, struct trace_access, i));
    for (int i = 0; i < MODEL_TENSORS; i++)
        bytes += gradient_bytes(b, op, i);
    return bytes + buffer_bytes(b, op->workspace) + buffer_bytes(b, op->masked);
}

bool operator_is_attention(enum model_kind kind)
{
    return kind == MODEL_ATTENTION_FORWARD || kind == MODEL_ATTENTION_BACKWARD ||
           kind == MODEL_GROUPED_FORWARD || kind == MODEL_GROUPED_BACKWARD;
}

bool operator_is_matrix_product(enum model_kind kind)
{
    switch (kind) {
    case MODEL_LINEAR_FORWARD:
    case MODEL_GELU_FORWARD:
    case MODEL_GATED_FORWARD:
    case MODEL_RESIDUAL_FORWARD:
    case MODEL_ATTENTION_FORWARD:
    case MODEL_GROUPED_FORWARD:
    case MODEL_ADAPTER_FORWARD:
    case MODEL_ADAPTER_BACKWARD:
    case MODEL_ROUTE_FORWARD:
    case MODEL_ROUTE_BACKWARD:
    case MODEL_CLASSIFIER_FORWARD:
    case MODEL_CLASSIFIER_BACKWARD:
    case MODEL_LINEAR_BACKWARD:
    case MODEL_WEIGHT_BACKWARD:
    case MODEL_GELU_BACKWARD:
    case MODEL_GATED_BACKWARD:
    case MODEL_RESIDUAL_BACKWARD:
    case MODEL_ATTENTION_BACKWARD:
    case MODEL_GROUPED_BACKWARD:
        return true;
    default:
        return false;
    }
}
