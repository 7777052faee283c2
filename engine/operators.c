#include "engine/operator_call.h"

#include "engine/bf16.h"
#include "engine/rotary.h"
#include "engine/shards.h"
#include "models/family.h"

#include <glib.h>
#include <math.h>
#include <string.h>

/* Sums the squares of a complete gradient if its norm is due. */
static void sum_squares(const struct call *call, int i)
{
    const struct operation_tensor *tensor = &call->operation->tensor[i];
    if (tensor->norm)
        call->kernels->sum_squares(call->context, stored_gradients(call), tensor->elements,
                                   gradient(call, i), tensor->norm);
}

/* ---- operators ---- */

/* The factor is rounded as the activations are. */
static void scale_embedding(const struct call *call, void *x)
{
    float factor = sqrtf((float)call->H);
    if (call->precision == MODEL_BF16)
        factor = bf16_widen(bf16_round(factor));
    if (call->config->scaled_embedding)
        call->kernels->scale(call->context, call->precision, (uint64_t)call->N * call->H, factor,
                             x);
}

static void embed_forward(const struct call *call)
{
    call->kernels->embed_forward(call->context, call->precision, call->N, call->T, call->H,
                                 tokens(call, 0), parameter(call, 0), parameter(call, 1),
                                 call->dropout, out(call, 0));
    scale_embedding(call, out(call, 0));
}

/* On the host the order does not count towards the budget, because it is as small as the tokens. */
static uint64_t *order_of_tokens(const struct call *call)
{
    struct operators *operators = call->operators;
    uint64_t *buffer = workspace(call);
    if (buffer)
        return buffer;
    if (operators->order_rows < call->N) {
        operators->order = g_renew(uint64_t, operators->order, call->N);
        operators->order_rows = call->N;
    }
    return operators->order;
}

static void embed_backward(const struct call *call)
{
    /* With tied weights the classifier's gradient is there already. */
    bool add = call->op->accumulate, add_tokens = add || call->config->tied;
    uint64_t *order = order_of_tokens(call);
    if (call->operators->reduction && call->op->gradient[0] != NO_INDEX) {
        add = add_tokens = true;
        for (int i = 0; i < 2 && call->op->t[i] != NO_INDEX; i++)
            reduction_clear(call->operators->reduction, call->operation->tensor[i].elements,
                            stored_gradients(call) == MODEL_BF16, gradient(call, i));
    }
    scale_embedding(call, in(call, 0));
    call->kernels->embed_order(call->context, call->N, tokens(call, 1), order);
    if (gradient(call, 0))
        call->kernels->embed_tokens(call->context, call->precision, call->N, call->H,
                                    call->config->vocabulary, order, in(call, 0), call->dropout,
                                    gradient_kind(call, add_tokens), gradient(call, 0));
    if (call->op->t[1] != NO_INDEX)
        call->kernels->embed_positions(call->context, call->precision, call->B, call->T, call->H,
                                       call->config->positions, in(call, 0), call->dropout,
                                       gradient_kind(call, add), gradient(call, 1));
    sum_squares(call, 0);
    sum_squares(call, 1);
}

/* Returns the rows that a norm normalises, which are heads if it has parts. */
static uint32_t norm_rows(const struct call *call)
{
    return call->N * (call->op->parts ? call->op->parts : 1);
}

static float norm_offset(const struct call *call)
{
    return call->config->norm_plus_one ? 1 : 0;
}

static void norm_forward(const struct call *call)
{
    if (call->config->norm == MODEL_RMS_NORM)
        call->kernels->rms_forward(call->context, call->precision, norm_rows(call),
                                   call->op->inputs, call->config->norm_epsilon, norm_offset(call),
                                   parameter(call, 0), in(call, 0), out(call, 0), out(call, 1));
    else
        call->kernels->norm_forward(call->context, call->precision, call->N, call->H,
                                    call->config->norm_epsilon, parameter(call, 0),
                                    parameter(call, 1), in(call, 0), out(call, 0), out(call, 1));
    if (in(call, 1))
        call->kernels->residual_forward(call->context, call->precision, call->N, call->H,
                                        in(call, 1), NULL, out(call, 0));
}

static void rms_backward(const struct call *call)
{
    uint32_t rows = norm_rows(call), columns = call->op->inputs;
    if (out(call, 0))
        call->kernels->rms_backward_input(call->context, call->precision, rows, columns,
                                          norm_offset(call), parameter(call, 0), in(call, 0),
                                          in(call, 1), in(call, 2), call->op->add, out(call, 0));
    if (!gradient(call, 0))
        return;
    call->kernels->rms_backward_weight(
        call->context, call->precision, rows, columns, in(call, 0), in(call, 1), in(call, 2),
        gradient_kind(call, call->op->accumulate), gradient(call, 0));
    sum_squares(call, 0);
}

/* The input's gradient comes first, because the weight's may overwrite the weight. Either may not
 * be wanted. */
static void norm_backward(const struct call *call)
{
    if (call->config->norm == MODEL_RMS_NORM) {
        rms_backward(call);
        return;
    }
    if (out(call, 0))
        call->kernels->norm_backward_input(call->context, call->precision, call->N, call->H,
                                           parameter(call, 0), in(call, 0), in(call, 1),
                                           in(call, 2), call->op->add, out(call, 0));
    if (!gradient(call, 0))
        return;
    call->kernels->norm_backward_parameters(
        call->context, call->precision, call->N, call->H, in(call, 0), in(call, 1), in(call, 2),
        gradient_kind(call, call->op->accumulate), gradient(call, 0), gradient(call, 1));
    sum_squares(call, 0);
    sum_squares(call, 1);
}

/* Returns whether weights of linear layers are [inputs, outputs]. */
static bool inputs_first(const struct call *call)
{
    return model_family_of(call->config)->inputs_first;
}

/* Adds what an adapter has made, if there is one. */
static void linear_forward(const struct call *call)
{
    (inputs_first(call) ? call->kernels->linear_forward : call->kernels->product_forward)(
        call->context, call->precision, call->N, call->op->inputs, call->op->outputs, in(call, 0),
        parameter(call, 0), parameter(call, 1), out(call, 0));
    if (in(call, 2))
        call->kernels->residual_forward(call->context, call->precision, call->N, call->op->outputs,
                                        in(call, 2), NULL, out(call, 0));
}

/* Returns the column of a matrix, of which NULL has none. */
static void *column_of(const struct call *call, void *matrix, uint32_t column)
{
    return matrix ? (char *)matrix + (uint64_t)column * element_bytes(call) : NULL;
}

/* Returns where a gate is that has a product of its own, or lies before `up` in each row. */
static struct kernel_gate gate_of(const struct call *call, void *gate, void *up)
{
    uint32_t F = call->config->inner;
    return (struct kernel_gate){
        .activation = call->config->activation,
        .N = call->N,
        .F = F,
        .row = gate ? F : 2 * F,
        .gate = gate ? gate : up,
        .up = gate ? up : column_of(call, up, F),
    };
}

static void gated_forward(const struct call *call)
{
    const struct kernel_gate gate = gate_of(call, in(call, 1), out(call, 0));
    linear_forward(call);
    call->kernels->gate_forward(call->context, call->precision, &gate, out(call, 1));
}

static void gelu_forward(const struct call *call)
{
    enum model_activation of = call->config->activation;
    if (of == MODEL_GELU_TANH && inputs_first(call) && call->kernels->linear_gelu && !in(call, 2) &&
        call->kernels->linear_gelu(call->context, call->precision, call->N, call->op->inputs,
                                   call->op->outputs, in(call, 0), parameter(call, 0),
                                   parameter(call, 1), out(call, 0), out(call, 1)))
        return;
    linear_forward(call);
    call->kernels->gelu_forward(call->context, call->precision, of,
                                (uint64_t)call->N * call->op->outputs, out(call, 0), out(call, 1));
}

static void residual_forward(const struct call *call)
{
    kernel_linear_residual *fused = inputs_first(call) ? call->kernels->linear_residual
                                                       : call->kernels->product_residual;
    if (!call->dropout && fused && !in(call, 2) &&
        fused(call->context, call->precision, call->N, call->op->inputs, call->op->outputs,
              in(call, 0), parameter(call, 0), parameter(call, 1), in(call, 1), out(call, 0)))
        return;
    linear_forward(call);
    call->kernels->residual_forward(call->context, call->precision, call->N, call->op->outputs,
                                    in(call, 1), call->dropout, out(call, 0));
}

static void product_backward_input(const struct call *call, const void *dy)
{
    uint32_t inputs = call->op->inputs, outputs = call->op->outputs;
    if (!out(call, 0))
        return;
    if (inputs_first(call))
        call->kernels->linear_backward_input(call->context, call->precision, call->N, inputs,
                                             outputs, dy, parameter(call, 0), out(call, 0));
    else
        call->kernels->product_backward_input(call->context, call->precision, call->N, inputs,
                                              outputs, dy, parameter(call, 0), call->op->add,
                                              out(call, 0));
}

static void product_backward_weight(const struct call *call, const void *dy)
{
    if (!gradient(call, 0))
        return;
    (inputs_first(call) ? call->kernels->linear_backward_weight
                        : call->kernels->product_backward_weight)(
        call->context, call->precision, call->N, call->op->inputs, call->op->outputs, in(call, 1),
        dy, gradient_kind(call, call->op->accumulate), workspace(call), gradient(call, 0),
        call->operation->tensor[0].norm);
}

/* The input's gradient comes first, because the weight's may overwrite the weight. Either may not
 * be wanted. */
static void product_backward(const struct call *call, const void *dy)
{
    product_backward_input(call, dy);
    product_backward_weight(call, dy);
}

/* Rows of dy are `row` elements apart. */
static void bias_backward(const struct call *call, uint32_t row, const void *dy)
{
    call->kernels->linear_backward_bias(call->context, call->precision, call->N, call->op->outputs,
                                        row, dy, gradient_kind(call, call->op->accumulate),
                                        gradient(call, 1));
    sum_squares(call, 1);
}

static void own_bias_backward(const struct call *call, const void *dy)
{
    if (call->op->t[1] != NO_INDEX)
        bias_backward(call, call->op->outputs, dy);
}

static void dense_backward(const struct call *call, const void *dy)
{
    product_backward(call, dy);
    own_bias_backward(call, dy);
}

static void gated_backward(const struct call *call)
{
    const struct kernel_gate gate = gate_of(call, in(call, 3), in(call, 2));
    bool joined = !in(call, 3);
    void *dup = joined ? column_of(call, out(call, 1), gate.F) : in(call, 0);
    call->kernels->gate_backward(call->context, call->precision, &gate, in(call, 0), out(call, 1),
                                 dup);
    dense_backward(call, joined ? out(call, 1) : in(call, 0));
}

static void linear_backward(const struct call *call)
{
    dense_backward(call, in(call, 0));
}

static void gelu_backward(const struct call *call)
{
    call->kernels->gelu_backward_bias(call->context, call->precision, call->config->activation,
                                      call->N, call->op->outputs, in(call, 2), in(call, 0),
                                      gradient_kind(call, call->op->accumulate), gradient(call, 1));
    sum_squares(call, 1);
    product_backward(call, in(call, 0));
}

/* The product's input is what GELU made. Sets the gradients of what GELU read and, where it is
 * wanted here, of the bias in it. */
static void slope_backward(const struct call *call, const void *dy)
{
    uint32_t inputs = call->op->inputs;
    void *dpre = out(call, 0), *dbias = gradient(call, 2);
    enum kernel_gradient kind = gradient_kind(call, call->op->accumulate);
    kernel_linear_slope *fused = inputs_first(call) ? call->kernels->linear_slope
                                                    : call->kernels->product_slope;
    if (!fused || !fused(call->context, call->N, inputs, call->op->outputs, dy, parameter(call, 0),
                         in(call, 2), dpre)) {
        product_backward_input(call, dy);
        call->kernels->gelu_backward_bias(call->context, call->precision, call->config->activation,
                                          call->N, inputs, in(call, 2), dpre, kind, dbias);
    } else if (dbias) {
        call->kernels->linear_backward_bias(call->context, call->precision, call->N, inputs, inputs,
                                            dpre, kind, dbias);
    }
    sum_squares(call, 2);
}

static void residual_backward(const struct call *call)
{
    static const struct kernel_dropout none = {.probability = 0}; /* keeps all, and copies */
    void *dy = in(call, 0), *masked = at(call, call->operation->masked);
    if (masked) {
        call->kernels->dropout_backward(call->context, call->precision, call->N, call->op->outputs,
                                        call->dropout ? call->dropout : &none, dy, masked);
        dy = masked;
    }
    if (in(call, 2))
        slope_backward(call, dy);
    else
        product_backward_input(call, dy);
    product_backward_weight(call, dy);
    own_bias_backward(call, dy);
}

static void weight_backward(const struct call *call)
{
    product_backward_weight(call, in(call, 0));
}

/* Cosines and sines do not count towards the budget: they are a few bytes a position and column of
 * one head. Those of layers with a window come last. */
static void fill_rotary(const struct call *call)
{
    const struct model_config *config = call->config;
    struct operators *operators = call->operators;
    uint64_t count = rotary_bytes(config, call->T) / sizeof(float);
    const struct model_rotary *const both[] = {&config->rotary, &config->local_rotary};
    operators->rotary = g_renew(float, operators->rotary, count);
    operators->rotary_positions = call->T;
    float *table = operators->rotary;
    for (size_t i = 0; i < G_N_ELEMENTS(both); i++) {
        uint64_t values = (uint64_t)call->T * (both[i]->columns / 2);
        rotary_fill(both[i], call->T, table, table + values);
        table += 2 * values;
    }
    operators->rotary_table = operators->rotary;
    if (call->kernels->table)
        operators->rotary_table = call->kernels->table(call->context, count, operators->rotary);
}

static struct kernel_heads heads_of(const struct call *call)
{
    const struct model_config *config = call->config;
    const struct model_rotary *rotary = model_config_rotary(config, call->op->layer);
    if (call->operators->rotary_positions != call->T)
        fill_rotary(call);
    const float *table = call->operators->rotary_table;
    if (rotary == &config->local_rotary)
        table += (uint64_t)call->T * config->rotary.columns;
    return (struct kernel_heads){
        .B = call->B,
        .T = call->T,
        .A = config->heads,
        .K = model_config_key_heads(config),
        .D = model_config_head_size(config),
        .row = config->separate ? 0 : model_config_queries(config) + 2 * model_config_keys(config),
        .apart = config->interleaved ? 3 * model_config_head_size(config) : 0,
        .window = model_config_window(config, call->op->layer),
        .pairs = model_config_turned(config, call->op->layer) / 2,
        .scale = config->query_scalar > 0 ? (float)(1 / sqrt(config->query_scalar)) : 0,
        .cap = (float)config->score_cap,
        .cosines = table,
        .sines = table + (uint64_t)call->T * (rotary->columns / 2),
    };
}

static void grouped_forward(const struct call *call)
{
    const struct kernel_heads heads = heads_of(call);
    call->kernels->grouped_forward(call->context, call->precision, &heads, in(call, 0), in(call, 1),
                                   in(call, 2), call->dropout, out(call, 0), out(call, 1));
}

static void grouped_backward(const struct call *call)
{
    const struct kernel_heads heads = heads_of(call);
    call->kernels->grouped_backward(call->context, call->precision, &heads, in(call, 0),
                                    in(call, 1), in(call, 2), in(call, 3), in(call, 4), in(call, 5),
                                    call->dropout, out(call, 0), out(call, 1), out(call, 2));
}

/* Queries, keys and values in one row, or those of one head after the other. */
struct joined {
    void *q, *k, *v;
};

static struct joined joined_of(const struct call *call, void *qkv)
{
    bool interleaved = call->config->interleaved;
    uint32_t head = model_config_head_size(call->config);
    uint32_t queries = interleaved ? head : model_config_queries(call->config);
    uint32_t keys = interleaved ? head : model_config_keys(call->config);
    return (struct joined){qkv, column_of(call, qkv, queries),
                           column_of(call, qkv, queries + keys)};
}

static void joined_forward(const struct call *call)
{
    const struct kernel_heads heads = heads_of(call);
    struct joined x = joined_of(call, in(call, 0));
    call->kernels->grouped_forward(call->context, call->precision, &heads, x.q, x.k, x.v,
                                   call->dropout, out(call, 0), out(call, 1));
}

static void joined_backward(const struct call *call)
{
    const struct kernel_heads heads = heads_of(call);
    struct joined x = joined_of(call, in(call, 1)), dx = joined_of(call, out(call, 0));
    call->kernels->grouped_backward(call->context, call->precision, &heads, in(call, 0), x.q, x.k,
                                    x.v, in(call, 2), in(call, 3), call->dropout, dx.q, dx.k, dx.v);
}

static void attention_forward(const struct call *call)
{
    uint32_t heads = call->config->heads;
    if (call->config->rotary.columns)
        joined_forward(call);
    else
        call->kernels->attention_forward(call->context, call->precision, call->B, call->T, heads,
                                         call->H / heads, in(call, 0), call->dropout, out(call, 0),
                                         out(call, 1));
}

static void attention_backward(const struct call *call)
{
    uint32_t heads = call->config->heads;
    if (call->config->rotary.columns)
        joined_backward(call);
    else
        call->kernels->attention_backward(call->context, call->precision, call->B, call->T, heads,
                                          call->H / heads, in(call, 0), in(call, 1), in(call, 2),
                                          in(call, 3), call->dropout, out(call, 0));
}

/* A stage of a pipeline may have a copy of the weight, in input `i`. */
static const void *classifier_weight(const struct call *call, int i)
{
    return call->op->t[0] == NO_INDEX ? in(call, i) : parameter(call, 0);
}

static void classifier_forward(const struct call *call)
{
    call->kernels->classifier_forward(call->context, call->precision, call->N, call->H,
                                      call->config->vocabulary, in(call, 0),
                                      classifier_weight(call, 1), parameter(call, 1), out(call, 0));
    if (call->config->logit_cap > 0)
        call->kernels->cap_logits(call->context, call->precision, call->N, call->config->vocabulary,
                                  (float)call->config->logit_cap, out(call, 0));
}

/* The input's gradient comes first, because the weight's may overwrite the weight. Any of the three
 * may not be wanted. */
static void classifier_backward(const struct call *call)
{
    uint32_t V = call->config->vocabulary;
    if (out(call, 0))
        call->kernels->classifier_backward_input(call->context, call->precision, call->N, call->H,
                                                 V, in(call, 0), classifier_weight(call, 2),
                                                 out(call, 0));
    if (gradient(call, 0))
        call->kernels->classifier_backward_weight(
            call->context, call->precision, call->N, call->H, V, in(call, 1), in(call, 0),
            gradient_kind(call, call->op->accumulate), workspace(call), gradient(call, 0),
            call->operation->tensor[0].norm);
    if (call->op->t[1] != NO_INDEX)
        bias_backward(call, model_logits_row(V), in(call, 0));
}

static void loss(const struct call *call)
{
    const struct operation *operation = call->operation;
    uint32_t V = call->config->vocabulary;
    const uint32_t *targets = tokens(call, 1) + call->N;
    if (operation->training)
        call->kernels->loss_backward(call->context, call->precision, call->N, V, targets,
                                     operation->divisor, (float)call->config->logit_cap,
                                     in(call, 0), operation->loss);
    else
        call->kernels->loss(call->context, call->precision, call->N, V, targets, in(call, 0),
                            operation->loss);
}

/* A new operator is one line here, one function above, and a kernel on each device. */
static run_kind *const kinds[MODEL_KINDS] = {
    [MODEL_EMBED_FORWARD] = embed_forward,
    [MODEL_NORM_FORWARD] = norm_forward,
    [MODEL_LINEAR_FORWARD] = linear_forward,
    [MODEL_GELU_FORWARD] = gelu_forward,
    [MODEL_RESIDUAL_FORWARD] = residual_forward,
    [MODEL_ATTENTION_FORWARD] = attention_forward,
    [MODEL_GATED_FORWARD] = gated_forward,
    [MODEL_GROUPED_FORWARD] = grouped_forward,
    [MODEL_ADAPTER_FORWARD] = operator_adapter_forward,
    [MODEL_ROUTE_FORWARD] = operator_route_forward,
    [MODEL_DISPATCH_FORWARD] = operator_dispatch_forward,
    [MODEL_COMBINE_FORWARD] = operator_combine_forward,
    [MODEL_CLASSIFIER_FORWARD] = classifier_forward,
    [MODEL_LOSS] = loss,
    [MODEL_BALANCE_LOSS] = operator_balance_loss,
    [MODEL_CLASSIFIER_BACKWARD] = classifier_backward,
    [MODEL_NORM_BACKWARD] = norm_backward,
    [MODEL_LINEAR_BACKWARD] = linear_backward,
    [MODEL_GELU_BACKWARD] = gelu_backward,
    [MODEL_RESIDUAL_BACKWARD] = residual_backward,
    [MODEL_ATTENTION_BACKWARD] = attention_backward,
    [MODEL_GATED_BACKWARD] = gated_backward,
    [MODEL_GROUPED_BACKWARD] = grouped_backward,
    [MODEL_ADAPTER_BACKWARD] = operator_adapter_backward,
    [MODEL_COMBINE_BACKWARD] = operator_combine_backward,
    [MODEL_DISPATCH_BACKWARD] = operator_dispatch_backward,
    [MODEL_ROUTE_BACKWARD] = operator_route_backward,
    [MODEL_EMBED_BACKWARD] = embed_backward,
    [MODEL_WEIGHT_BACKWARD] = weight_backward,
    [MODEL_REDUCE] = operator_reduce,
    [MODEL_REDUCE_BUCKET] = operator_reduce_bucket,
    [MODEL_SEND] = operator_send,
    [MODEL_RECEIVE] = operator_receive,
    [MODEL_ADD] = operator_add_gradient,
    [MODEL_NEWEST] = operator_newest,
    [MODEL_UPDATE] = operator_update,
};

static double dropout_probability(const struct model_config *config, uint8_t kind)
{
    switch (kind) {
    case MODEL_EMBED_FORWARD:
    case MODEL_EMBED_BACKWARD:
        return config->embedding_dropout;
    case MODEL_ATTENTION_FORWARD:
    case MODEL_ATTENTION_BACKWARD:
    case MODEL_GROUPED_FORWARD:
    case MODEL_GROUPED_BACKWARD:
        return config->attention_dropout;
    default:
        return config->residual_dropout;
    }
}

void operators_run(struct operators *operators, const struct operation *operation)
{
    const struct model_job *job = operation->job;
    const struct model_operator *op = operation->op;
    struct call call = {
        .operators = operators,
        .kernels = operators->kernels,
        .context = operators->context,
        .operation = operation,
        .op = op,
        .config = operation->config,
        .precision = job->precision,
        .layout = model_gradient_layout(job),
        .B = job->choices.batch,
        .T = job->sequence,
        .N = job->choices.batch * job->sequence,
        .H = operation->config->width,
    };
    if (operation->training && op->dropout_site != NO_INDEX) {
        call.storage = (struct kernel_dropout){
            {operation->seed, operation->pass, op->dropout_site},
            dropout_probability(call.config, op->kind),
        };
        call.dropout = &call.storage;
    }
    struct operation of_expert;
    if (op->expert == NO_INDEX || operator_begin_expert(&call, &of_expert))
        kinds[op->kind](&call);
}

void operators_share_update(struct operators *operators, const struct operation *operation)
{
    struct reduction *reduction = operators->reduction;
    if (!reduction || !model_update_gathers(operation->job, operation->op))
        return;
    const struct operation_tensor *tensor = &operation->tensor[0];
    const struct shard_whole whole = {tensor->elements,
                                      operators->memory + tensor->address[TRACE_PARAM]};
    ranks_begin(reduction_ranks(reduction), operation->turn);
    shards_gather(reduction_ranks(reduction), &whole, 1,
                  operation->job->precision == MODEL_BF16 ? 2 : 4);
    ranks_end(reduction_ranks(reduction));
}
