#include "models/decoder.h"

#include <string.h>

/* The state while one layer's backward pass is described. */
struct backward_pass {
    struct iteration_builder *builder;
    enum decoder_turn turn;
    uint32_t micro_batch;
    uint32_t layer;
    uint32_t stream; /* buffer: gradient of the residual stream */
};

uint32_t decoder_gradient_buffer(struct iteration_builder *b, const char *name, uint64_t columns)
{
    return iteration_builder_buffer(b, name, b->rows * columns * b->element);
}

static uint32_t layer_gradient(const struct backward_pass *pass, const char *name, uint64_t columns)
{
    g_autofree char *full = decoder_part(pass->builder, pass->layer, name);
    return decoder_gradient_buffer(pass->builder, full, columns);
}

/* The gradient of a module's result, "dln_1", or of a part's, "attn.dqkv". */
static uint32_t module_gradient(const struct backward_pass *pass, enum model_module module,
                                uint64_t columns)
{
    g_autofree char *name =
        g_strconcat("d", model_family_of(pass->builder->config)->modules[module], NULL);
    return layer_gradient(pass, name, columns);
}

static uint32_t part_gradient(const struct backward_pass *pass, const char *part, const char *which,
                              uint64_t columns)
{
    g_autofree char *name = g_strconcat(part, which, NULL);
    return layer_gradient(pass, name, columns);
}

/* Weights' gradients in bf16 are summed in fp32 first. */
uint32_t decoder_weight_workspace(struct iteration_builder *b, const struct model_operator *op)
{
    if (b->gradient == MODEL_GRADIENT_LIST || op->frozen[0])
        return NO_INDEX;
    return iteration_builder_buffer(b, "workspace",
                                    (uint64_t)op->inputs * op->outputs * sizeof(float));
}

/* A tensor's gradient is complete after the last micro-batch, and with several ranks after its
 * reduction. */
void decoder_backward_tensor(struct iteration_builder *b, enum decoder_turn turn, uint32_t tensor,
                             int i, struct model_operator *op)
{
    bool complete = model_ranks(b->job) == 1 &&
                    decoder_completes(b, (enum model_kind)op->kind, tensor, op->micro_batch);
    op->frozen[i] = iteration_builder_freezes(b, tensor);
    if (op->frozen[i] && (i > 0 || op->kind == MODEL_EMBED_BACKWARD))
        return;
    op->t[i] = tensor;
    if (op->frozen[i])
        return;
    op->gradient[i] = iteration_builder_gradient(b, tensor);
    op->norms[i] = complete && turn != SECOND_TURN;
    op->finishes[i] = complete && turn != FIRST_TURN;
}

struct model_operator decoder_backward_operator(struct iteration_builder *b, enum decoder_turn turn,
                                                enum model_kind kind, int32_t layer,
                                                uint32_t micro_batch, uint32_t tensor,
                                                uint32_t tensors)
{
    struct model_operator op = model_operator_of(kind, layer, micro_batch);
    op.accumulate = micro_batch > 0 && !iteration_builder_reduces(b);
    for (uint32_t i = 0; i < tensors; i++)
        decoder_backward_tensor(b, turn, tensor + i, (int)i, &op);
    return op;
}

void decoder_discard(struct iteration_builder *b, struct model_operator *op, int i,
                     uint64_t elements)
{
    if (op->frozen[i])
        op->gradient[i] = iteration_builder_buffer(b, "unwanted gradient",
                                                   elements * sizeof(float));
}

static const char *verb_of(enum decoder_turn turn)
{
    return turn == SECOND_TURN ? "backward again" : "backward";
}

void decoder_append(struct iteration_builder *b, enum decoder_turn turn, const char *module,
                    const struct model_operator *op)
{
    iteration_builder_operator(b, g_strdup_printf("%s %s", verb_of(turn), module), TRACE_BACKWARD,
                               op);
}

static struct model_operator module_operator(const struct backward_pass *pass, enum model_kind kind,
                                             enum model_module module, bool with_bias)
{
    struct model_operator place = model_operator_of(kind, (int32_t)pass->layer, pass->micro_batch);
    decoder_set_module(pass->builder, module, &place);
    uint32_t tensors = with_bias && place.t[1] != NO_INDEX ? 2 : 1;
    struct model_operator op = decoder_backward_operator(
        pass->builder, pass->turn, kind, place.layer, pass->micro_batch, place.t[0], tensors);
    op.inputs = place.inputs;
    op.outputs = place.outputs;
    return op;
}

static struct model_operator layer_operator(const struct backward_pass *pass, enum model_kind kind,
                                            enum model_module module)
{
    return module_operator(pass, kind, module, true);
}

void decoder_append_backward(struct iteration_builder *b, enum decoder_turn turn, const char *name,
                             const struct model_operator *op)
{
    decoder_append(b, turn, name, op);
    if (decoder_trains(op))
        decoder_consume_gradients(b, op, name);
}

static void append_part(const struct backward_pass *pass, const char *part,
                        const struct model_operator *op)
{
    g_autofree char *name = decoder_part(pass->builder, pass->layer, part);
    decoder_append_backward(pass->builder, pass->turn, name, op);
}

static void append(const struct backward_pass *pass, enum model_module module,
                   const struct model_operator *op)
{
    append_part(pass, model_family_of(pass->builder->config)->modules[module], op);
}

/* ---- a backward that is split in two ---- */

/* Appends the operator with the gradient of its weight to what comes in the second half. Returns
 * what is left. */
static struct model_operator put_off(const struct backward_pass *pass, enum model_module module,
                                     const struct model_operator *op, uint32_t dy)
{
    struct iteration_builder *b = pass->builder;
    struct model_operator first = *op, second = model_operator_of(MODEL_WEIGHT_BACKWARD, op->layer,
                                                                  op->micro_batch);
    second.t[0] = op->t[0];
    second.gradient[0] = op->gradient[0];
    second.norms[0] = op->norms[0];
    second.finishes[0] = op->finishes[0];
    second.accumulate = op->accumulate;
    second.inputs = op->inputs;
    second.outputs = op->outputs;
    second.workspace = op->workspace;
    second.in[0] = dy;
    second.in[1] = op->in[1];
    const struct builder_later later = {
        second, decoder_part(b, pass->layer, model_family_of(b->config)->modules[module])};
    g_array_append_val(b->later, later);
    first.frozen[0] = true;
    first.norms[0] = first.finishes[0] = false;
    first.gradient[0] = first.workspace = first.in[1] = NO_INDEX;
    return first;
}

/* Appends a product's backward. If backward is split, only biases have gradients in it. `dy` is
 * that of the product's result when the operator has run. */
static void append_product(const struct backward_pass *pass, enum model_module module,
                           const struct model_operator *op, uint32_t dy)
{
    struct iteration_builder *b = pass->builder;
    if (!b->job->split || op->frozen[0]) {
        append(pass, module, op);
        return;
    }
    struct model_operator first = put_off(pass, module, op, dy);
    g_autofree char *name = decoder_part(b, pass->layer,
                                         model_family_of(b->config)->modules[module]);
    decoder_append(b, pass->turn, name, &first);
    decoder_consume_biases(b, &first, name);
}

/* Appends the second half. */
static void append_later(struct iteration_builder *b)
{
    for (guint i = 0; i < b->later->len; i++) {
        const struct builder_later *later = &g_array_index(b->later, struct builder_later, i);
        iteration_builder_operator(b, g_strdup_printf("weight backward %s", later->module),
                                   TRACE_BACKWARD, &later->op);
        decoder_consume_gradients(b, &later->op, later->module);
    }
    g_array_set_size(b->later, 0);
}

/* ---- what is wanted ---- */

/* Returns the first tensor of a module. One that the model lacks stands for the next one. */
static tensor_id tensor_of(const struct backward_pass *pass, enum model_module module)
{
    const struct model_layout *layout = &pass->builder->layout;
    while (layout->place[module] == NO_INDEX)
        module++;
    return layout->first_layer + pass->layer * layout->layer_tensors + layout->place[module];
}

static bool trains_between(const struct backward_pass *pass, tensor_id first, tensor_id end)
{
    const uint8_t *frozen = pass->builder->job->choices.frozen;
    return first < end && memchr(frozen + first, 0, end - first);
}

/* Returns whether a tensor is trained of which something depends that the module reads. Those are
 * all before it in the order of forward, but for a parallel MLP: that reads nothing of attention.
 */
static bool wants_before(const struct backward_pass *pass, enum model_module module)
{
    const struct iteration_builder *b = pass->builder;
    enum model_branches branches = b->config->branches;
    if (branches == MODEL_SEQUENTIAL || module < MODULE_NORM_2)
        return b->lowest < tensor_of(pass, module);
    enum model_module begin = branches == MODEL_PARALLEL_ONE_NORM ? MODULE_QKV : MODULE_NORM_1;
    return b->lowest < tensor_of(pass, begin) ||
           trains_between(pass, tensor_of(pass, MODULE_NORM_2), tensor_of(pass, module));
}

/* Returns whether the gradient of what a module reads is wanted. Modules that read the same come
 * one after the other. */
static bool wants_input(const struct backward_pass *pass, enum model_module module)
{
    switch (module) {
    case MODULE_VALUE:
    case MODULE_KEY:
        return wants_before(pass, MODULE_QUERY);
    case MODULE_UP:
        return wants_before(pass, MODULE_GATE);
    default:
        return wants_before(pass, module);
    }
}

/* Returns whether a tensor of the module is trained, adapters included. */
static bool trains_module(const struct backward_pass *pass, enum model_module module)
{
    const struct model_layout *layout = &pass->builder->layout;
    tensor_id first = tensor_of(pass, module);
    uint32_t count = 1 + layout->biased[module] + (layout->adapter[module] == NO_INDEX ? 0 : 2);
    return trains_between(pass, first, first + count);
}

/* Appends backward of the adapters beside a module, if it has any. */
static void adapt(const struct backward_pass *pass, const struct decoder_layer *layer,
                  enum model_module module, uint32_t dy, uint32_t x, uint32_t dx)
{
    struct iteration_builder *b = pass->builder;
    struct model_operator place = model_operator_of(MODEL_ADAPTER_BACKWARD, (int32_t)pass->layer,
                                                    pass->micro_batch);
    if (!decoder_set_adapter(b, module, &place))
        return;
    struct model_operator op = decoder_backward_operator(
        b, pass->turn, MODEL_ADAPTER_BACKWARD, place.layer, pass->micro_batch, place.t[0], 2);
    g_autofree char *name = g_strconcat(model_family_of(b->config)->modules[module], ".lora", NULL);
    g_autofree char *du = g_strconcat("d", name, NULL);
    op.inputs = place.inputs;
    op.outputs = place.outputs;
    op.add = dx != NO_INDEX;
    op.in[0] = dy;
    op.in[1] = x;
    op.in[2] = layer->adapted[module];
    op.out[0] = dx;
    op.out[1] = layer_gradient(pass, du, b->config->lora_rank);
    if (b->gradient != MODEL_GRADIENT_LIST)
        op.workspace = iteration_builder_buffer(b, "workspace",
                                                (uint64_t)MAX(op.inputs, op.outputs) *
                                                    b->config->lora_rank * sizeof(float));
    append_part(pass, name, &op);
}

/* ---- a layer ---- */

/* The gradient of what several products read. The first of them sets it, the others add to it. */
struct sum {
    enum model_module of; /* the norm that made it; MODULES for the residual stream */
    uint32_t buffer;      /* NO_INDEX until it is set */
};

/* Returns that of a norm's result, or of the residual stream if there are no norms before products.
 */
static struct sum sum_of(const struct backward_pass *pass, enum model_module norm)
{
    bool before = model_config_norms_before(pass->builder->config);
    return before ? (struct sum){norm, NO_INDEX} : (struct sum){MODULES, pass->stream};
}

/* Lets the operator's dx be a term of the sum. */
static void add_term(const struct backward_pass *pass, struct sum *sum, struct model_operator *op)
{
    op->add = sum->buffer != NO_INDEX;
    if (!op->add)
        sum->buffer = module_gradient(pass, sum->of, pass->builder->config->width);
    op->out[0] = sum->buffer;
}

/* A layer norm's kernel computes the gradients of both tensors, if one is trained. */
void decoder_discard_of_norm(struct iteration_builder *b, struct model_operator *op)
{
    bool one = b->config->norm == MODEL_LAYER_NORM && decoder_trains(op);
    for (int i = 0; one && i < 2; i++)
        decoder_discard(b, op, i, op->inputs);
}

/* Goes from the sum back through its norm, if there is one, to the residual stream. */
static void end_sum(const struct backward_pass *pass, const struct sum *sum, uint32_t x,
                    uint32_t stats)
{
    if (sum->of == MODULES || sum->buffer == NO_INDEX)
        return;
    struct model_operator op = layer_operator(pass, MODEL_NORM_BACKWARD, sum->of);
    op.add = wants_before(pass, sum->of);
    op.in[0] = sum->buffer;
    op.in[1] = x;
    op.in[2] = stats;
    if (op.add)
        op.out[0] = pass->stream;
    decoder_discard_of_norm(pass->builder, &op);
    append(pass, sum->of, &op);
}

/* Returns the gradient of x, which a product made and a norm normalised in parts, if it is wanted.
 */
static uint32_t norm(const struct backward_pass *pass, enum model_module module,
                     enum model_module product, uint32_t parts, uint32_t dy, uint32_t x,
                     uint32_t stats)
{
    struct model_operator op = layer_operator(pass, MODEL_NORM_BACKWARD, module);
    op.in[0] = dy;
    op.in[1] = x;
    op.in[2] = stats;
    op.parts = parts;
    if (trains_module(pass, product) || wants_input(pass, product))
        op.out[0] = module_gradient(pass, product, pass->builder->layout.outputs[product]);
    decoder_discard_of_norm(pass->builder, &op);
    if (decoder_trains(&op) || op.out[0] != NO_INDEX)
        append(pass, module, &op);
    return op.out[0];
}

/* Returns whether a norm is between a branch and its sum with the residual stream. */
static bool normalises_branches(const struct model_config *config)
{
    return model_config_norms_after(config) && !model_config_norms_sums(config);
}

/* Returns whether the product behind GELU ends in GELU's derivative. cuBLASLt has such a product in
 * the tanh form, whose accuracy is not documented, but far better than the rounding to bf16. An
 * adapter would add to the gradient between the two. */
static bool joins_slope(const struct iteration_builder *b)
{
    return b->job->precision == MODEL_BF16 && b->config->activation == MODEL_GELU_TANH &&
           !b->config->gated && !b->config->lora_rank && !normalises_branches(b->config) &&
           !b->job->unfused && !b->job->gelu_apart;
}

/* Returns whether the product's sums over rows are the gradient of the bias in GELU's input. They
 * are bf16, so gradients in fp32 are summed behind the bias' own product. */
static bool joins_sums(const struct iteration_builder *b)
{
    return joins_slope(b) && b->gradient != MODEL_GRADIENT_LIST;
}

/* Lets the product's dx become the gradient of what GELU reads. */
static void join_slope(const struct backward_pass *pass, const struct decoder_layer *layer,
                       struct model_operator *op)
{
    struct model_operator up = model_operator_of(MODEL_GELU_BACKWARD, op->layer, op->micro_batch);
    decoder_set_module(pass->builder, MODULE_UP, &up);
    op->in[2] = layer->pre;
    if (joins_sums(pass->builder))
        decoder_backward_tensor(pass->builder, pass->turn, up.t[1], 2, op);
}

/* Goes from the residual stream back into the branch that was added to it, if anything in it is
 * wanted. Returns the gradient of x, or of what GELU made x from, a buffer that is named `dx`, if
 * that is. */
static uint32_t residual(const struct backward_pass *pass, const struct decoder_layer *layer,
                         enum model_module module, uint32_t x, uint32_t site, const char *dx)
{
    struct iteration_builder *b = pass->builder;
    if (!wants_input(pass, module) && !trains_module(pass, module))
        return NO_INDEX;
    struct model_operator op = layer_operator(pass, MODEL_RESIDUAL_BACKWARD, module);
    op.in[0] = pass->stream;
    op.in[1] = x;
    if (wants_input(pass, module))
        op.out[0] = layer_gradient(pass, dx, op.inputs);
    if (op.out[0] != NO_INDEX && module == MODULE_DOWN && joins_slope(b))
        join_slope(pass, layer, &op);
    op.workspace = decoder_weight_workspace(b, &op);
    op.dropout_site = decoder_dropout_site(b, pass->layer, site);
    if (op.dropout_site != NO_INDEX || b->job->split)
        op.masked = layer_gradient(pass, "masked", b->config->width);
    append_product(pass, module, &op, op.masked);
    adapt(pass, layer, module, op.masked == NO_INDEX ? pass->stream : op.masked, x, op.out[0]);
    return op.out[0];
}

/* `with_bias` is false if the gradient of the bias has been computed. */
static void product(const struct backward_pass *pass, const struct decoder_layer *layer,
                    enum model_module module, bool with_bias, uint32_t dy, uint32_t x,
                    struct sum *sum)
{
    struct model_operator op = module_operator(pass, MODEL_LINEAR_BACKWARD, module, with_bias);
    op.in[0] = dy;
    op.in[1] = x;
    if (wants_input(pass, module))
        add_term(pass, sum, &op);
    op.workspace = decoder_weight_workspace(pass->builder, &op);
    if (op.out[0] != NO_INDEX || decoder_trains(&op))
        append_product(pass, module, &op, dy);
    adapt(pass, layer, module, dy, x, op.out[0]);
}

static void linear(const struct backward_pass *pass, const struct decoder_layer *layer,
                   enum model_module module, uint32_t dy, uint32_t x, struct sum *sum)
{
    product(pass, layer, module, true, dy, x, sum);
}

/* A product whose result was normalised and added to the residual stream. Returns the gradient of
 * x, a buffer that is named `dx`, if it is wanted. */
static uint32_t normalised(const struct backward_pass *pass, const struct decoder_layer *layer,
                           enum model_module module, enum model_module after, uint32_t x,
                           uint32_t product, uint32_t stats, const char *dx)
{
    uint32_t dproduct = norm(pass, after, module, 1, pass->stream, product, stats);
    struct model_operator op = layer_operator(pass, MODEL_LINEAR_BACKWARD, module);
    op.in[0] = dproduct;
    op.in[1] = x;
    if (wants_input(pass, module))
        op.out[0] = layer_gradient(pass, dx, op.inputs);
    op.workspace = decoder_weight_workspace(pass->builder, &op);
    if (op.out[0] != NO_INDEX || decoder_trains(&op))
        append_product(pass, module, &op, dproduct);
    adapt(pass, layer, module, dproduct, x, op.out[0]);
    return op.out[0];
}

/* The product before the activation. Of a gated MLP it also makes the gradient of the gate, from
 * which the gate's product goes on. */
static void inside(const struct backward_pass *pass, const struct decoder_layer *layer,
                   uint32_t dinner, struct sum *sum)
{
    const struct model_config *config = pass->builder->config;
    if (joins_slope(pass->builder)) {
        product(pass, layer, MODULE_UP, !joins_sums(pass->builder), dinner, layer->norm2, sum);
        return;
    }
    enum model_kind kind = config->gated ? MODEL_GATED_BACKWARD : MODEL_GELU_BACKWARD;
    struct model_operator op = layer_operator(pass, kind, MODULE_UP);
    op.in[0] = dinner;
    op.in[1] = layer->norm2;
    op.in[2] = layer->pre;
    op.in[3] = layer->gate;
    if (wants_input(pass, MODULE_UP))
        add_term(pass, sum, &op);
    if (config->gated)
        op.out[1] = part_gradient(pass, model_family_of(config)->mlp, ".dgate", op.outputs);
    else
        decoder_discard(pass->builder, &op, 1, op.outputs);
    op.workspace = decoder_weight_workspace(pass->builder, &op);
    append_product(pass, MODULE_UP, &op, config->joined_gate ? op.out[1] : dinner);
    adapt(pass, layer, MODULE_UP, config->joined_gate ? op.out[1] : dinner, layer->norm2,
          op.out[0]);
    if (layer->gate != NO_INDEX)
        linear(pass, layer, MODULE_GATE, op.out[1], layer->norm2, sum);
}

/* Goes from the residual stream to the MLP's inside, of which it returns the gradient: that of what
 * GELU reads, if GELU's derivative is joined to the product. */
static uint32_t begin_mlp(const struct backward_pass *pass, const struct decoder_layer *layer)
{
    const struct model_config *config = pass->builder->config;
    g_autofree char *name = g_strconcat(model_family_of(config)->mlp, ".dinner", NULL);
    if (normalises_branches(config))
        return normalised(pass, layer, MODULE_DOWN, MODULE_AFTER_DOWN, layer->inner, layer->down,
                          layer->down_stats, name);
    return residual(pass, layer, MODULE_DOWN, layer->inner, DECODER_DROPOUT_DOWN, name);
}

/* Goes from the residual stream to attention's result, of which it returns the gradient. */
static uint32_t begin_attention(const struct backward_pass *pass, const struct decoder_layer *layer)
{
    const struct model_config *config = pass->builder->config;
    g_autofree char *name = g_strconcat("d", model_family_of(config)->attention, NULL);
    if (normalises_branches(config))
        return normalised(pass, layer, MODULE_OUTPUT, MODULE_AFTER_OUTPUT, layer->attention,
                          layer->output, layer->output_stats, name);
    return residual(pass, layer, MODULE_OUTPUT, layer->attention, DECODER_DROPOUT_OUTPUT, name);
}

static uint32_t attend(const struct backward_pass *pass, const struct decoder_layer *layer,
                       uint32_t dattention)
{
    const char *part = model_family_of(pass->builder->config)->attention;
    struct model_operator op = model_operator_of(MODEL_ATTENTION_BACKWARD, (int32_t)pass->layer,
                                                 pass->micro_batch);
    op.in[0] = dattention;
    op.in[1] = layer->qkv;
    op.in[2] = layer->attention;
    op.in[3] = layer->lse;
    op.out[0] = part_gradient(pass, part, ".dqkv", pass->builder->layout.outputs[MODULE_QKV]);
    op.workspace = decoder_scores_workspace(pass->builder);
    op.dropout_site = decoder_dropout_site(pass->builder, pass->layer, DECODER_DROPOUT_ATTENTION);
    append_part(pass, part, &op);
    return op.out[0];
}

/* Sets the gradients of what attention read of queries, keys and values. */
static void attend_grouped(const struct backward_pass *pass, const struct decoder_layer *layer,
                           uint32_t dattention, uint32_t gradients[3])
{
    static const char *const names[] = {".dq", ".dk", ".dv"};
    const struct model_config *config = pass->builder->config;
    const char *part = model_family_of(config)->attention;
    struct model_operator op = model_operator_of(MODEL_GROUPED_BACKWARD, (int32_t)pass->layer,
                                                 pass->micro_batch);
    op.in[0] = dattention;
    op.in[1] = config->query_norms ? layer->query_norm : layer->query;
    op.in[2] = config->query_norms ? layer->key_norm : layer->key;
    op.in[3] = layer->value;
    op.in[4] = layer->attention;
    op.in[5] = layer->lse;
    for (int i = 0; i < 3; i++)
        op.out[i] = gradients[i] = part_gradient(pass, part, names[i],
                                                 i == 0 ? model_config_queries(config)
                                                        : model_config_keys(config));
    op.workspace = decoder_scores_workspace(pass->builder);
    op.dropout_site = decoder_dropout_site(pass->builder, pass->layer, DECODER_DROPOUT_ATTENTION);
    append_part(pass, part, &op);
}

/* Values first, then keys, then queries. */
static void grouped(const struct backward_pass *pass, const struct decoder_layer *layer,
                    uint32_t dattention, struct sum *sum)
{
    const struct model_config *config = pass->builder->config;
    bool heads = config->query_norms == MODEL_QUERY_NORMS_HEADS;
    uint32_t gradients[3];
    attend_grouped(pass, layer, dattention, gradients);
    linear(pass, layer, MODULE_VALUE, gradients[2], layer->norm1, sum);
    if (config->query_norms)
        gradients[1] = norm(pass, MODULE_KEY_NORM, MODULE_KEY,
                            heads ? model_config_key_heads(config) : 1, gradients[1], layer->key,
                            layer->key_norm_stats);
    linear(pass, layer, MODULE_KEY, gradients[1], layer->norm1, sum);
    if (config->query_norms)
        gradients[0] = norm(pass, MODULE_QUERY_NORM, MODULE_QUERY, heads ? config->heads : 1,
                            gradients[0], layer->query, layer->query_norm_stats);
    linear(pass, layer, MODULE_QUERY, gradients[0], layer->norm1, sum);
}

static void attention(const struct backward_pass *pass, const struct decoder_layer *layer,
                      uint32_t dattention, struct sum *sum)
{
    if (pass->builder->config->separate)
        grouped(pass, layer, dattention, sum);
    else
        linear(pass, layer, MODULE_QKV, attend(pass, layer, dattention), layer->norm1, sum);
}

/* Goes from the residual stream back through the MLP, or the experts. Returns false if nothing
 * before its last product is wanted. */
static bool mlp(const struct backward_pass *pass, const struct decoder_layer *layer,
                struct sum *sum)
{
    if (pass->builder->config->experts) {
        const struct decoder_experts experts = {.builder = pass->builder,
                                                .micro_batch = pass->micro_batch,
                                                .layer = pass->layer,
                                                .turn = pass->turn};
        sum->buffer = decoder_experts_backward(&experts, layer, pass->stream);
        return sum->buffer != NO_INDEX;
    }
    uint32_t dinner = begin_mlp(pass, layer);
    if (dinner != NO_INDEX)
        inside(pass, layer, dinner, sum);
    return dinner != NO_INDEX;
}

/* Goes back through the norm that replaced the sum of the residual stream and a branch, if there is
 * one, to the sum `x`, whose gradient is then the stream's. Returns false if nobody wants that. */
static bool enter_sum(struct backward_pass *pass, enum model_module after,
                      enum model_module product, uint32_t x, uint32_t stats)
{
    if (model_config_norms_sums(pass->builder->config))
        pass->stream = norm(pass, after, product, 1, pass->stream, x, stats);
    return pass->stream != NO_INDEX;
}

static void sequential(struct backward_pass *pass, const struct decoder_layer *layer)
{
    if (!enter_sum(pass, MODULE_AFTER_DOWN, MODULE_DOWN, layer->down, layer->down_stats))
        return;
    struct sum sum = sum_of(pass, MODULE_NORM_2);
    if (!mlp(pass, layer, &sum))
        return;
    end_sum(pass, &sum, layer->middle, layer->norm2_stats);
    if (!wants_before(pass, MODULE_NORM_2) ||
        !enter_sum(pass, MODULE_AFTER_OUTPUT, MODULE_OUTPUT, layer->output, layer->output_stats))
        return;
    sum = sum_of(pass, MODULE_NORM_1);
    uint32_t dattention = begin_attention(pass, layer);
    if (dattention == NO_INDEX)
        return;
    attention(pass, layer, dattention, &sum);
    end_sum(pass, &sum, layer->input, layer->norm1_stats);
}

/* Attention and MLP both read the stream's gradient before their norms add to it. In the lowest
 * layer one of them may have nothing to do. */
static void parallel(const struct backward_pass *pass, const struct decoder_layer *layer)
{
    bool one_norm = pass->builder->config->branches == MODEL_PARALLEL_ONE_NORM;
    struct sum of_mlp = sum_of(pass, one_norm ? MODULE_NORM_1 : MODULE_NORM_2);
    mlp(pass, layer, &of_mlp);
    struct sum sum = one_norm ? of_mlp : sum_of(pass, MODULE_NORM_1);
    uint32_t dattention = begin_attention(pass, layer);
    if (dattention != NO_INDEX)
        attention(pass, layer, dattention, &sum);
    if (!one_norm)
        end_sum(pass, &of_mlp, layer->input, layer->norm2_stats);
    end_sum(pass, &sum, layer->input, layer->norm1_stats);
}

/* Leaves in pass->stream the gradient of the layer's input. */
static void layer_backward(struct backward_pass *pass, const struct decoder_layer *layer)
{
    if (pass->builder->config->branches == MODEL_SEQUENTIAL)
        sequential(pass, layer);
    else
        parallel(pass, layer);
}

/* Appends backward of the head and of the layers down to the lowest that is trained. Returns the
 * gradient of the layers' input. */
static uint32_t layers(struct iteration_builder *b, const struct decoder_activations *a,
                       enum decoder_turn turn, uint32_t dnorm)
{
    const char *verb = turn == SECOND_TURN ? "recompute again" : "recompute";
    uint32_t stream = decoder_head_backward(b, a, turn, dnorm);
    for (uint32_t layer = b->config->layers; layer-- > 0;) {
        if (!iteration_builder_goes_back(b, layer))
            break;
        struct backward_pass pass = {b, turn, a->micro_batch, layer, stream};
        if (b->job->choices.recompute[layer])
            decoder_recompute(b, verb, a->micro_batch, layer, &a->layers[layer]);
        layer_backward(&pass, &a->layers[layer]);
        stream = pass.stream;
    }
    return stream;
}

void decoder_backward(struct iteration_builder *builder,
                      const struct decoder_activations *activations)
{
    bool twice = builder->job->choices.second_backward;
    for (size_t i = 0; i < G_N_ELEMENTS(builder->reduced); i++)
        builder->reduced[i] = NO_INDEX;
    uint32_t dnorm = decoder_classifier_backward(builder, activations);
    bool more = dnorm != NO_INDEX;
    uint32_t stream = more ? layers(builder, activations, twice ? FIRST_TURN : ONLY_TURN, dnorm)
                           : NO_INDEX;
    if (builder->lowest < builder->layout.first_layer)
        decoder_embedding_backward(builder, activations, stream);
    append_later(builder);
    decoder_end_bucket(builder, activations->micro_batch);
    if (!twice)
        return;
    decoder_update_ends(builder);
    if (more)
        layers(builder, activations, SECOND_TURN, dnorm);
}
