#include "models/decoder.h"

void decoder_tensors(struct iteration_builder *builder)
{
    for (uint32_t t = 0; t < builder->layout.count; t++) {
        struct model_tensor tensor;
        char *name = model_tensor_describe(builder->config, &builder->layout, t, &tensor);
        iteration_builder_tensor(builder, name, tensor.shape[0] * tensor.shape[1]);
    }
}

/* ---- names ---- */

char *decoder_part(const struct iteration_builder *builder, uint32_t layer, const char *part)
{
    return g_strdup_printf("%s.%u.%s", model_family_of(builder->config)->layers, layer, part);
}

char *decoder_module(const struct iteration_builder *builder, uint32_t layer,
                     enum model_module module)
{
    return decoder_part(builder, layer, model_family_of(builder->config)->modules[module]);
}

void decoder_set_module(const struct iteration_builder *builder, enum model_module module,
                        struct model_operator *op)
{
    const struct model_layout *layout = &builder->layout;
    op->t[0] = layout->first_layer + (uint32_t)op->layer * layout->layer_tensors +
               layout->place[module];
    op->t[1] = layout->biased[module] ? op->t[0] + 1 : NO_INDEX;
    op->inputs = layout->inputs[module] ? layout->inputs[module] : layout->outputs[module];
    op->outputs = layout->inputs[module] ? layout->outputs[module] : 0;
}

bool decoder_set_adapter(const struct iteration_builder *builder, enum model_module module,
                         struct model_operator *op)
{
    const struct model_layout *layout = &builder->layout;
    if (layout->adapter[module] == NO_INDEX)
        return false;
    decoder_set_module(builder, module, op);
    op->t[0] += layout->adapter[module] - layout->place[module];
    op->t[1] = op->t[0] + 1;
    return true;
}

/* ---- forward ---- */

/* The state while one layer's forward pass is described. */
struct forward_pass {
    struct iteration_builder *builder;
    const char *verb; /* "forward", "recompute" or "recompute again" */
    enum trace_phase phase;
    uint32_t micro_batch;
    uint32_t layer;
    bool held;         /* chunks hold the buffers that are as large as the layer's input */
    uint32_t *adapted; /* the layer's */
};

uint32_t decoder_dropout_site(const struct iteration_builder *builder, uint32_t layer,
                              uint32_t which)
{
    const struct model_config *config = builder->config;
    double probability = which == DECODER_DROPOUT_ATTENTION ? config->attention_dropout
                                                            : config->residual_dropout;
    return probability > 0 ? 3 * layer + which : NO_INDEX;
}

static uint32_t layer_buffer(const struct forward_pass *pass, const char *name, const char *suffix,
                             uint64_t bytes)
{
    g_autofree char *part = g_strconcat(name, suffix, NULL);
    g_autofree char *full = decoder_part(pass->builder, pass->layer, part);
    return iteration_builder_buffer(pass->builder, full, bytes);
}

/* [N, columns] of the precision's element. */
static uint32_t layer_activation(const struct forward_pass *pass, const char *name,
                                 const char *suffix, uint64_t columns)
{
    const struct iteration_builder *b = pass->builder;
    uint32_t buffer = layer_buffer(pass, name, suffix, b->rows * columns * b->element);
    if (pass->held)
        iteration_builder_hold(pass->builder, buffer);
    return buffer;
}

static const char *name_of(const struct forward_pass *pass, enum model_module module)
{
    return model_family_of(pass->builder->config)->modules[module];
}

/* [N, columns of the module's output] */
static uint32_t module_activation(const struct forward_pass *pass, enum model_module module)
{
    return layer_activation(pass, name_of(pass, module), "", pass->builder->layout.outputs[module]);
}

/* A mean and a deviation, or a root mean square, for each row and each of its parts. */
static uint32_t norm_stats(const struct forward_pass *pass, enum model_module module,
                           uint64_t parts)
{
    const struct iteration_builder *b = pass->builder;
    uint64_t each = b->config->norm == MODEL_LAYER_NORM ? 2 : 1;
    return layer_buffer(pass, name_of(pass, module), ".stats",
                        each * parts * b->rows * sizeof(float));
}

uint32_t decoder_scores_workspace(struct iteration_builder *builder)
{
    return builder->job->unfused
               ? iteration_builder_buffer(builder, "attn.scores",
                                          2 * iteration_builder_scores(builder) * builder->element)
               : NO_INDEX;
}

/* Appends the buffer from which attention's backward computes its probabilities again. */
static uint32_t saved_scores(const struct forward_pass *pass)
{
    const struct iteration_builder *b = pass->builder;
    const char *attention = model_family_of(b->config)->attention;
    if (!b->job->unfused)
        return layer_buffer(pass, attention, ".lse", b->rows * b->config->heads * sizeof(float));
    uint64_t element = b->config->attention_dropout > 0 ? 2 * b->element + 1 : b->element;
    uint32_t buffer = layer_buffer(pass, attention, ".probabilities",
                                   iteration_builder_scores(b) * element);
    if (pass->held)
        iteration_builder_hold(pass->builder, buffer);
    return buffer;
}

static void append_part(const struct forward_pass *pass, const char *part,
                        const struct model_operator *op)
{
    g_autofree char *name = decoder_part(pass->builder, pass->layer, part);
    iteration_builder_operator(pass->builder, g_strdup_printf("%s %s", pass->verb, name),
                               pass->phase, op);
}

static void append(const struct forward_pass *pass, enum model_module module,
                   const struct model_operator *op)
{
    append_part(pass, name_of(pass, module), op);
}

static struct model_operator layer_operator(const struct forward_pass *pass, enum model_kind kind)
{
    return model_operator_of(kind, (int32_t)pass->layer, pass->micro_batch);
}

/* A norm whose rows are cut into parts. Its result is added to `stream`, which may be NO_INDEX. */
static void norm(const struct forward_pass *pass, enum model_module module, uint32_t parts,
                 uint32_t x, uint32_t stream, uint32_t y, uint32_t stats)
{
    struct model_operator op = layer_operator(pass, MODEL_NORM_FORWARD);
    decoder_set_module(pass->builder, module, &op);
    op.in[0] = x;
    op.in[1] = stream;
    op.out[0] = y;
    op.out[1] = stats;
    op.parts = parts;
    append(pass, module, &op);
}

/* Appends the adapters beside a module that reads x, if it has any. Returns what they add to its
 * product, which is made only if it is asked for. */
static uint32_t adapt(const struct forward_pass *pass, enum model_module module, uint32_t x,
                      bool adds)
{
    const struct iteration_builder *b = pass->builder;
    struct model_operator op = layer_operator(pass, MODEL_ADAPTER_FORWARD);
    if (!decoder_set_adapter(b, module, &op))
        return NO_INDEX;
    g_autofree char *name = g_strconcat(name_of(pass, module), ".lora", NULL);
    op.in[0] = x;
    op.out[0] = pass->adapted[module] = layer_buffer(pass, name, "_A",
                                                     b->rows * b->config->lora_rank * b->element);
    if (adds)
        op.out[1] = layer_buffer(pass, name, "_B", b->rows * op.outputs * b->element);
    append_part(pass, name, &op);
    return op.out[1];
}

static struct model_operator linear(const struct forward_pass *pass, enum model_kind kind,
                                    enum model_module module, uint32_t x)
{
    uint32_t added = adapt(pass, module, x, true);
    struct model_operator op = layer_operator(pass, kind);
    decoder_set_module(pass->builder, module, &op);
    op.in[0] = x;
    op.in[2] = added;
    return op;
}

static void residual(const struct forward_pass *pass, enum model_module module, uint32_t x,
                     uint32_t stream, uint32_t y, uint32_t site)
{
    struct model_operator op = linear(pass, MODEL_RESIDUAL_FORWARD, module, x);
    op.in[1] = stream;
    op.out[0] = y;
    op.dropout_site = decoder_dropout_site(pass->builder, pass->layer, site);
    append(pass, module, &op);
}

/* What attention reads. */
static void query_buffers(const struct forward_pass *pass, struct decoder_layer *layer)
{
    const struct model_config *config = pass->builder->config;
    const struct model_layout *layout = &pass->builder->layout;
    layer->qkv = layer->query = layer->key = layer->value = NO_INDEX;
    layer->query_norm = layer->key_norm = NO_INDEX;
    layer->query_norm_stats = layer->key_norm_stats = NO_INDEX;
    if (!config->separate) {
        layer->qkv = layer_activation(pass, model_family_of(config)->attention, ".qkv",
                                      layout->outputs[MODULE_QKV]);
        return;
    }
    layer->query = module_activation(pass, MODULE_QUERY);
    layer->key = module_activation(pass, MODULE_KEY);
    layer->value = module_activation(pass, MODULE_VALUE);
    if (!config->query_norms)
        return;
    bool heads = config->query_norms == MODEL_QUERY_NORMS_HEADS;
    layer->query_norm = layer_activation(pass, name_of(pass, MODULE_QUERY_NORM), "",
                                         layout->outputs[MODULE_QUERY]);
    layer->query_norm_stats = norm_stats(pass, MODULE_QUERY_NORM, heads ? config->heads : 1);
    layer->key_norm = layer_activation(pass, name_of(pass, MODULE_KEY_NORM), "",
                                       layout->outputs[MODULE_KEY]);
    layer->key_norm_stats = norm_stats(pass, MODULE_KEY_NORM,
                                       heads ? model_config_key_heads(config) : 1);
}

/* Sets *buffer and *stats to those of a norm before products, or of what they read without one. */
static void before_buffers(const struct forward_pass *pass, enum model_module norm, uint32_t x,
                           uint32_t *buffer, uint32_t *stats)
{
    bool before = pass->builder->layout.place[norm] != NO_INDEX;
    *buffer = before ? module_activation(pass, norm) : x;
    *stats = before ? norm_stats(pass, norm, 1) : NO_INDEX;
}

/* Backward reads the stream between attention and MLP only if the MLP does. */
static uint32_t middle_buffer(const struct forward_pass *pass)
{
    const struct model_config *config = pass->builder->config;
    struct forward_pass of = *pass;
    of.held &= config->branches == MODEL_SEQUENTIAL;
    return layer_activation(&of, "middle", "", config->width);
}

/* Returns what the MLP reads, through its norm if it has one. */
static uint32_t mlp_input(const struct model_config *config, const struct decoder_layer *layer)
{
    switch (config->branches) {
    case MODEL_SEQUENTIAL:
        return layer->middle;
    case MODEL_PARALLEL:
        return layer->input;
    case MODEL_PARALLEL_ONE_NORM:
        return layer->norm1;
    }
    g_assert_not_reached();
}

/* Sets *buffer to what a product makes that is normalised, and *stats to its norm's. */
static void after_buffers(const struct forward_pass *pass, enum model_module product,
                          enum model_module norm, uint32_t *buffer, uint32_t *stats)
{
    bool after = model_config_norms_after(pass->builder->config);
    *buffer = after ? module_activation(pass, product) : NO_INDEX;
    *stats = after ? norm_stats(pass, norm, 1) : NO_INDEX;
}

static void layer_buffers(const struct forward_pass *pass, bool adds, struct decoder_layer *layer)
{
    const struct model_config *config = pass->builder->config;
    const char *mlp = model_family_of(config)->mlp;
    before_buffers(pass, MODULE_NORM_1, layer->input, &layer->norm1, &layer->norm1_stats);
    query_buffers(pass, layer);
    layer->attention = layer_activation(pass, model_family_of(config)->attention, "",
                                        model_config_queries(config));
    layer->lse = saved_scores(pass);
    after_buffers(pass, MODULE_OUTPUT, MODULE_AFTER_OUTPUT, &layer->output, &layer->output_stats);
    layer->middle = adds ? middle_buffer(pass) : NO_INDEX;
    before_buffers(pass, MODULE_NORM_2, mlp_input(config, layer), &layer->norm2,
                   &layer->norm2_stats);
    if (config->experts)
        return;
    layer->gate = config->gated && !config->joined_gate ? module_activation(pass, MODULE_GATE)
                                                        : NO_INDEX;
    layer->pre = config->gated ? module_activation(pass, MODULE_UP)
                               : layer_activation(pass, mlp, ".pre", config->inner);
    layer->inner = layer_activation(pass, mlp, ".inner", config->inner);
    after_buffers(pass, MODULE_DOWN, MODULE_AFTER_DOWN, &layer->down, &layer->down_stats);
}

static void product(const struct forward_pass *pass, enum model_module module, uint32_t x,
                    uint32_t y)
{
    struct model_operator op = linear(pass, MODEL_LINEAR_FORWARD, module, x);
    op.out[0] = y;
    append(pass, module, &op);
}

static void queries_keys_values(const struct forward_pass *pass, const struct decoder_layer *layer)
{
    const struct model_config *config = pass->builder->config;
    if (!config->separate) {
        product(pass, MODULE_QKV, layer->norm1, layer->qkv);
        return;
    }
    product(pass, MODULE_QUERY, layer->norm1, layer->query);
    product(pass, MODULE_KEY, layer->norm1, layer->key);
    product(pass, MODULE_VALUE, layer->norm1, layer->value);
    if (!config->query_norms)
        return;
    bool heads = config->query_norms == MODEL_QUERY_NORMS_HEADS;
    norm(pass, MODULE_QUERY_NORM, heads ? config->heads : 1, layer->query, NO_INDEX,
         layer->query_norm, layer->query_norm_stats);
    norm(pass, MODULE_KEY_NORM, heads ? model_config_key_heads(config) : 1, layer->key, NO_INDEX,
         layer->key_norm, layer->key_norm_stats);
}

static void attention(const struct forward_pass *pass, const struct decoder_layer *layer)
{
    const struct model_config *config = pass->builder->config;
    enum model_kind kind = config->separate ? MODEL_GROUPED_FORWARD : MODEL_ATTENTION_FORWARD;
    struct model_operator op = layer_operator(pass, kind);
    queries_keys_values(pass, layer);
    op.in[0] = config->query_norms ? layer->query_norm
               : config->separate  ? layer->query
                                   : layer->qkv;
    op.in[1] = config->query_norms ? layer->key_norm : layer->key;
    op.in[2] = layer->value;
    op.out[0] = layer->attention;
    op.out[1] = layer->lse;
    op.workspace = decoder_scores_workspace(pass->builder);
    op.dropout_site = decoder_dropout_site(pass->builder, pass->layer, DECODER_DROPOUT_ATTENTION);
    append_part(pass, model_family_of(config)->attention, &op);
}

static struct decoder_experts experts_of(const struct forward_pass *pass)
{
    return (struct decoder_experts){.builder = pass->builder,
                                    .micro_batch = pass->micro_batch,
                                    .layer = pass->layer,
                                    .verb = pass->verb,
                                    .phase = pass->phase,
                                    .held = pass->held};
}

static void mlp(const struct forward_pass *pass, struct decoder_layer *layer)
{
    if (pass->builder->config->experts) {
        const struct decoder_experts experts = experts_of(pass);
        decoder_experts_forward(&experts, layer);
        return;
    }
    bool gated = pass->builder->config->gated;
    if (layer->gate != NO_INDEX)
        product(pass, MODULE_GATE, layer->norm2, layer->gate);
    struct model_operator op = linear(pass, gated ? MODEL_GATED_FORWARD : MODEL_GELU_FORWARD,
                                      MODULE_UP, layer->norm2);
    op.in[1] = layer->gate;
    op.out[0] = layer->pre;
    op.out[1] = layer->inner;
    append(pass, MODULE_UP, &op);
}

/* Goes from attention's result to the residual stream behind it. */
static void end_attention(const struct forward_pass *pass, const struct decoder_layer *layer)
{
    const struct model_config *config = pass->builder->config;
    bool after = model_config_norms_after(config), sums = model_config_norms_sums(config);
    if (after && !sums)
        product(pass, MODULE_OUTPUT, layer->attention, layer->output);
    else
        residual(pass, MODULE_OUTPUT, layer->attention, layer->input,
                 after ? layer->output : layer->middle, DECODER_DROPOUT_OUTPUT);
    if (after)
        norm(pass, MODULE_AFTER_OUTPUT, 1, layer->output, sums ? NO_INDEX : layer->input,
             layer->middle, layer->output_stats);
}

/* Appends the MLP's last product if a norm follows it. */
static void down(const struct forward_pass *pass, const struct decoder_layer *layer)
{
    const struct model_config *config = pass->builder->config;
    if (model_config_norms_sums(config))
        residual(pass, MODULE_DOWN, layer->inner, layer->middle, layer->down, DECODER_DROPOUT_DOWN);
    else if (model_config_norms_after(config))
        product(pass, MODULE_DOWN, layer->inner, layer->down);
}

/* Appends everything before the operator that makes the layer's output. `adds` is false if what
 * attention adds to the residual stream is not needed, of which backward reads only what an adapter
 * makes. */
static void layer_to_inner(const struct forward_pass *pass, bool adds, struct decoder_layer *layer)
{
    const struct model_config *config = pass->builder->config;
    layer_buffers(pass, adds, layer);
    if (model_config_norms_before(config))
        norm(pass, MODULE_NORM_1, 1, layer->input, NO_INDEX, layer->norm1, layer->norm1_stats);
    attention(pass, layer);
    if (adds)
        end_attention(pass, layer);
    else
        adapt(pass, MODULE_OUTPUT, layer->attention, false);
    if (model_config_second_norm(config))
        norm(pass, MODULE_NORM_2, 1, mlp_input(config, layer), NO_INDEX, layer->norm2,
             layer->norm2_stats);
    mlp(pass, layer);
    down(pass, layer);
}

/* Appends the operator that makes the layer's output. */
static void end_layer(const struct forward_pass *pass, const struct decoder_layer *layer,
                      uint32_t output)
{
    const struct decoder_experts experts = experts_of(pass);
    const struct model_config *config = pass->builder->config;
    if (config->experts)
        decoder_experts_combine(&experts, layer, output);
    else if (model_config_norms_after(config))
        norm(pass, MODULE_AFTER_DOWN, 1, layer->down,
             model_config_norms_sums(config) ? NO_INDEX : layer->middle, output, layer->down_stats);
    else
        residual(pass, MODULE_DOWN, layer->inner, layer->middle, output, DECODER_DROPOUT_DOWN);
}

/* A framework that fuses nothing calls the layer's module again, so that its last operator runs
 * too. Backward does not read what that makes, except the statistics of a norm. */
void decoder_recompute(struct iteration_builder *builder, const char *verb, uint32_t micro_batch,
                       uint32_t index, struct decoder_layer *layer)
{
    struct forward_pass pass = {builder, verb,  TRACE_BACKWARD, micro_batch,
                                index,   false, layer->adapted};
    bool unfused = builder->job->unfused, after = model_config_norms_after(builder->config);
    layer_to_inner(&pass, unfused || builder->config->branches == MODEL_SEQUENTIAL, layer);
    if (!unfused && !after)
        adapt(&pass, MODULE_DOWN, layer->inner, false);
    if (unfused || after)
        end_layer(&pass, layer, layer_activation(&pass, "output", "", builder->config->width));
}

/* Activations that no backward reads are not offloaded. */
static bool offloads(const struct iteration_builder *builder, uint32_t layer)
{
    return builder->job->choices.offload[layer] && iteration_builder_goes_back(builder, layer);
}

/* The input of a layer whose activations are offloaded. */
static void hold_input(struct iteration_builder *builder, uint32_t layer, uint32_t stream)
{
    if (layer < builder->config->layers && offloads(builder, layer))
        iteration_builder_hold(builder, stream);
}

static uint32_t layer_forward(struct iteration_builder *builder, uint32_t micro_batch,
                              uint32_t index, struct decoder_layer *layer)
{
    const struct model_job *job = builder->job;
    bool held = offloads(builder, index) && !job->choices.recompute[index];
    struct forward_pass pass = {builder, "forward", TRACE_FORWARD, micro_batch,
                                index,   held,      layer->adapted};
    layer_to_inner(&pass, true, layer);
    pass.held = false; /* the output is the next layer's */
    uint32_t output = layer_activation(&pass, "output", "", builder->config->width);
    hold_input(builder, index + 1, output);
    end_layer(&pass, layer, output);
    return output;
}

/* A norm outside of the layers, which makes `y`. Returns its statistics. */
static uint32_t outer_norm(struct iteration_builder *b, uint32_t micro_batch, const char *module,
                           uint32_t tensor, uint32_t x, uint32_t y, uint32_t dropout_site)
{
    g_autofree char *stats = g_strconcat(module, ".stats", NULL);
    uint64_t each = b->config->norm == MODEL_LAYER_NORM ? 2 : 1;
    struct model_operator op = model_operator_of(MODEL_NORM_FORWARD, -1, micro_batch);
    op.t[0] = tensor;
    op.t[1] = each == 2 ? op.t[0] + 1 : NO_INDEX;
    op.in[0] = x;
    op.out[0] = y;
    op.out[1] = iteration_builder_buffer(b, stats, each * b->rows * sizeof(float));
    op.inputs = b->config->width;
    op.dropout_site = dropout_site;
    iteration_builder_operator(b, g_strconcat("forward ", module, NULL), TRACE_FORWARD, &op);
    return op.out[1];
}

/* [N,H] outside of the layers. */
static uint32_t outer_buffer(struct iteration_builder *b, const char *name)
{
    return iteration_builder_buffer(b, name, b->rows * b->config->width * b->element);
}

/* Returns the first layer's input. */
static uint32_t embed(struct iteration_builder *b, struct decoder_activations *a)
{
    struct model_operator op = model_operator_of(MODEL_EMBED_FORWARD, -1, a->micro_batch);
    bool normalised = b->config->embedding_norm;
    uint32_t site = b->config->embedding_dropout > 0 ? 0 : NO_INDEX;
    for (uint32_t t = 0; t < model_config_tables(b->config); t++)
        op.t[t] = t;
    op.in[0] = a->tokens;
    op.out[0] = a->embeddings = outer_buffer(b, "embeddings");
    op.dropout_site = normalised ? NO_INDEX : site;
    if (!b->job->choices.host_embedding && !normalised)
        hold_input(b, 0, op.out[0]);
    iteration_builder_operator(b, g_strdup("forward embeddings"), TRACE_FORWARD, &op);
    if (!normalised)
        return op.out[0];
    const char *module = model_family_of(b->config)->first_norm;
    uint32_t stream = outer_buffer(b, module);
    hold_input(b, 0, stream);
    a->embedding_stats = outer_norm(b, a->micro_batch, module, b->layout.embedding_norm, op.out[0],
                                    stream, site);
    return stream;
}

/* The product before the final norm. */
static void transform(struct iteration_builder *b, struct decoder_activations *a)
{
    const char *module = model_family_of(b->config)->transform;
    g_autofree char *pre = g_strconcat(module, ".pre", NULL);
    struct model_operator op = model_operator_of(MODEL_GELU_FORWARD, -1, a->micro_batch);
    op.t[0] = b->layout.transform;
    op.t[1] = op.t[0] + 1;
    op.in[0] = a->output;
    op.out[0] = a->transform_pre = outer_buffer(b, pre);
    op.out[1] = a->transformed = outer_buffer(b, module);
    op.inputs = op.outputs = b->config->width;
    iteration_builder_operator(b, g_strconcat("forward ", module, NULL), TRACE_FORWARD, &op);
}

static void final_norm(struct iteration_builder *b, struct decoder_activations *a)
{
    const char *module = model_family_of(b->config)->final_norm;
    a->transformed = a->output;
    if (b->config->head_transform)
        transform(b, a);
    a->norm = outer_buffer(b, module);
    a->norm_stats = outer_norm(b, a->micro_batch, module, b->layout.final_norm, a->transformed,
                               a->norm, NO_INDEX);
}

static void classify(struct iteration_builder *b, struct decoder_activations *a)
{
    struct model_operator op = model_operator_of(MODEL_CLASSIFIER_FORWARD, -1, a->micro_batch);
    uint32_t classes = model_config_classes(b->config);
    op.t[0] = b->layout.classifier;
    op.t[1] = b->layout.classifier_bias;
    op.in[0] = a->norm;
    op.out[0] = a->logits =
        iteration_builder_buffer(b, "logits", b->rows * model_logits_row(classes) * b->element);
    op.inputs = b->config->width;
    op.outputs = classes;
    iteration_builder_operator(b, g_strconcat("forward ", model_head(b->config), NULL),
                               TRACE_FORWARD, &op);

    struct model_operator loss = model_operator_of(MODEL_LOSS, -1, a->micro_batch);
    loss.in[0] = a->logits;
    loss.in[1] = a->tokens;
    if (b->job->unfused)
        loss.workspace = iteration_builder_buffer(b, "loss.fp32",
                                                  3 * b->rows * classes * sizeof(float));
    iteration_builder_operator(b, g_strdup("forward loss"), TRACE_FORWARD, &loss);
    if (b->balance == NO_INDEX)
        return;
    struct model_operator balance = model_operator_of(MODEL_BALANCE_LOSS, -1, a->micro_batch);
    balance.in[0] = b->balance;
    iteration_builder_operator(b, g_strdup("forward balance loss"), TRACE_FORWARD, &balance);
}

void decoder_forward(struct iteration_builder *builder, struct decoder_activations *activations)
{
    struct decoder_activations *a = activations;
    uint64_t integers = builder->config->token_types ? 3 : 2;
    a->tokens = iteration_builder_buffer(builder, "tokens",
                                         integers * builder->rows * sizeof(uint32_t));
    uint32_t stream = embed(builder, a);
    if (builder->config->balance > 0)
        builder->balance = iteration_builder_buffer(
            builder, "balance", 2 * (uint64_t)builder->config->experts * sizeof(float));
    for (uint32_t layer = 0; layer < builder->config->layers; layer++) {
        a->layers[layer].input = stream;
        stream = layer_forward(builder, a->micro_batch, layer, &a->layers[layer]);
    }
    a->output = stream;
    final_norm(builder, a);
    classify(builder, a);
}
