#include "models/gpt2.h"

/* ---- tensors ---- */

uint32_t gpt2_layer_tensor(uint32_t layer, uint32_t which)
{
    return GPT2_FIRST_LAYER + layer * GPT2_LAYER_TENSORS + which;
}

uint32_t gpt2_final_norm(const struct model_config *config)
{
    return gpt2_layer_tensor(config->layers, 0);
}

uint32_t gpt2_classifier(const struct model_config *config)
{
    return config->tied ? GPT2_WTE : gpt2_final_norm(config) + 2;
}

const char *gpt2_head(const struct model_config *config)
{
    return config->labels ? "score" : "lm_head";
}

/* A weight of inputs x outputs and its bias; a norm's weight has one input. */
static void layer_tensors(struct iteration_builder *builder, uint32_t layer, const char *module,
                          uint64_t inputs, uint64_t outputs)
{
    iteration_builder_tensor(builder, g_strdup_printf("h.%u.%s.weight", layer, module),
                             inputs * outputs);
    iteration_builder_tensor(builder, g_strdup_printf("h.%u.%s.bias", layer, module), outputs);
}

void gpt2_tensors(struct iteration_builder *builder)
{
    const struct model_config *config = builder->config;
    uint64_t h = config->width, f = config->inner;
    iteration_builder_tensor(builder, g_strdup("wte.weight"), config->vocabulary * h);
    iteration_builder_tensor(builder, g_strdup("wpe.weight"), config->positions * h);
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        layer_tensors(builder, layer, "ln_1", 1, h);
        layer_tensors(builder, layer, "attn.c_attn", h, 3 * h);
        layer_tensors(builder, layer, "attn.c_proj", h, h);
        layer_tensors(builder, layer, "ln_2", 1, h);
        layer_tensors(builder, layer, "mlp.c_fc", h, f);
        layer_tensors(builder, layer, "mlp.c_proj", f, h);
    }
    iteration_builder_tensor(builder, g_strdup("ln_f.weight"), h);
    iteration_builder_tensor(builder, g_strdup("ln_f.bias"), h);
    if (!config->tied)
        iteration_builder_tensor(builder, g_strconcat(gpt2_head(config), ".weight", NULL),
                                 model_config_classes(config) * h);
}

/* ---- forward ---- */

/* The state while one layer's forward pass is described. */
struct forward_pass {
    struct iteration_builder *builder;
    const char *verb; /* "forward", "recompute" or "recompute again" */
    enum trace_phase phase;
    uint32_t micro_batch;
    uint32_t layer;
    bool held; /* chunks hold the buffers that are as large as the layer's input */
};

uint32_t gpt2_dropout_site(const struct iteration_builder *builder, uint32_t layer, uint32_t which)
{
    const struct model_config *config = builder->config;
    double probability = which == GPT2_DROPOUT_ATTENTION ? config->attention_dropout
                                                         : config->residual_dropout;
    return probability > 0 ? 3 * layer + which : NO_INDEX;
}

static uint32_t layer_buffer(const struct forward_pass *pass, const char *name, uint64_t bytes)
{
    char *full = g_strdup_printf("h.%u.%s", pass->layer, name);
    uint32_t buffer = iteration_builder_buffer(pass->builder, full, bytes);
    g_free(full);
    return buffer;
}

/* [N, columns] of the precision's element. */
static uint32_t layer_activation(const struct forward_pass *pass, const char *name,
                                 uint64_t columns)
{
    const struct iteration_builder *b = pass->builder;
    uint32_t buffer = layer_buffer(pass, name, b->rows * columns * b->element);
    if (pass->held)
        iteration_builder_hold(pass->builder, buffer);
    return buffer;
}

uint32_t gpt2_scores_workspace(struct iteration_builder *builder)
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
    if (!b->job->unfused)
        return layer_buffer(pass, "attn.lse", b->rows * b->config->heads * sizeof(float));
    uint64_t element = b->config->attention_dropout > 0 ? 2 * b->element + 1 : b->element;
    uint32_t buffer = layer_buffer(pass, "attn.probabilities",
                                   iteration_builder_scores(b) * element);
    if (pass->held)
        iteration_builder_hold(pass->builder, buffer);
    return buffer;
}

static void append(const struct forward_pass *pass, const char *module,
                   const struct model_operator *op)
{
    iteration_builder_operator(pass->builder,
                               g_strdup_printf("%s h.%u.%s", pass->verb, pass->layer, module),
                               pass->phase, op);
}

static struct model_operator layer_operator(const struct forward_pass *pass, enum model_kind kind)
{
    return model_operator_of(kind, (int32_t)pass->layer, pass->micro_batch);
}

static void norm(const struct forward_pass *pass, const char *module, tensor_id tensor, uint32_t x,
                 uint32_t y, uint32_t stats)
{
    struct model_operator op = layer_operator(pass, MODEL_NORM_FORWARD);
    op.t[0] = gpt2_layer_tensor(pass->layer, tensor);
    op.t[1] = op.t[0] + 1;
    op.in[0] = x;
    op.out[0] = y;
    op.out[1] = stats;
    op.inputs = pass->builder->config->width;
    append(pass, module, &op);
}

static struct model_operator linear(const struct forward_pass *pass, enum model_kind kind,
                                    uint32_t tensor, uint32_t x, uint32_t inputs, uint32_t outputs)
{
    struct model_operator op = layer_operator(pass, kind);
    op.t[0] = gpt2_layer_tensor(pass->layer, tensor);
    op.t[1] = op.t[0] + 1;
    op.in[0] = x;
    op.inputs = inputs;
    op.outputs = outputs;
    return op;
}

static void residual(const struct forward_pass *pass, const char *module, tensor_id tensor,
                     uint32_t x, uint32_t inputs, uint32_t stream, uint32_t y, uint32_t site)
{
    uint32_t width = pass->builder->config->width;
    struct model_operator op = linear(pass, MODEL_RESIDUAL_FORWARD, tensor, x, inputs, width);
    op.in[1] = stream;
    op.out[0] = y;
    op.dropout_site = gpt2_dropout_site(pass->builder, pass->layer, site);
    append(pass, module, &op);
}

static void layer_buffers(const struct forward_pass *pass, struct gpt2_layer *layer)
{
    const struct iteration_builder *b = pass->builder;
    uint64_t h = b->config->width, f = b->config->inner;
    layer->norm1 = layer_activation(pass, "ln_1", h);
    layer->norm1_stats = layer_buffer(pass, "ln_1.stats", 2 * b->rows * sizeof(float));
    layer->qkv = layer_activation(pass, "attn.qkv", 3 * h);
    layer->attention = layer_activation(pass, "attn", h);
    layer->lse = saved_scores(pass);
    layer->middle = layer_activation(pass, "middle", h);
    layer->norm2 = layer_activation(pass, "ln_2", h);
    layer->norm2_stats = layer_buffer(pass, "ln_2.stats", 2 * b->rows * sizeof(float));
    layer->pre = layer_activation(pass, "mlp.pre", f);
    layer->inner = layer_activation(pass, "mlp.inner", f);
}

static void attention(const struct forward_pass *pass, const struct gpt2_layer *layer)
{
    uint32_t h = pass->builder->config->width;
    struct model_operator project = linear(pass, MODEL_LINEAR_FORWARD, GPT2_C_ATTN, layer->norm1, h,
                                           3 * h);
    project.out[0] = layer->qkv;
    append(pass, "attn.c_attn", &project);

    struct model_operator attend = layer_operator(pass, MODEL_ATTENTION_FORWARD);
    attend.in[0] = layer->qkv;
    attend.out[0] = layer->attention;
    attend.out[1] = layer->lse;
    attend.workspace = gpt2_scores_workspace(pass->builder);
    attend.dropout_site = gpt2_dropout_site(pass->builder, pass->layer, GPT2_DROPOUT_ATTENTION);
    append(pass, "attn", &attend);
}

/* Appends everything that the layer's backward reads, which is all operators except the last
 * product. */
static void layer_to_inner(const struct forward_pass *pass, struct gpt2_layer *layer)
{
    const struct model_config *config = pass->builder->config;
    layer_buffers(pass, layer);
    norm(pass, "ln_1", GPT2_LN_1, layer->input, layer->norm1, layer->norm1_stats);
    attention(pass, layer);
    residual(pass, "attn.c_proj", GPT2_ATTN_C_PROJ, layer->attention, config->width, layer->input,
             layer->middle, GPT2_DROPOUT_ATTN_C_PROJ);
    norm(pass, "ln_2", GPT2_LN_2, layer->middle, layer->norm2, layer->norm2_stats);
    struct model_operator op = linear(pass, MODEL_GELU_FORWARD, GPT2_C_FC, layer->norm2,
                                      config->width, config->inner);
    op.out[0] = layer->pre;
    op.out[1] = layer->inner;
    append(pass, "mlp.c_fc", &op);
}

static void last_product(const struct forward_pass *pass, const struct gpt2_layer *layer,
                         uint32_t output)
{
    residual(pass, "mlp.c_proj", GPT2_MLP_C_PROJ, layer->inner, pass->builder->config->inner,
             layer->middle, output, GPT2_DROPOUT_MLP_C_PROJ);
}

/* A framework that fuses nothing calls the layer's module again, so that its last product runs too,
 * although backward does not read it. */
void gpt2_recompute(struct iteration_builder *builder, const char *verb, uint32_t micro_batch,
                    uint32_t index, struct gpt2_layer *layer)
{
    struct forward_pass pass = {builder, verb, TRACE_BACKWARD, micro_batch, index, false};
    layer_to_inner(&pass, layer);
    if (builder->job->unfused)
        last_product(&pass, layer, layer_activation(&pass, "output", builder->config->width));
}

/* The input of a layer whose activations are offloaded. */
static void hold_input(struct iteration_builder *builder, uint32_t layer, uint32_t stream)
{
    if (layer < builder->config->layers && builder->job->choices.offload[layer])
        iteration_builder_hold(builder, stream);
}

static uint32_t layer_forward(struct iteration_builder *builder, uint32_t micro_batch,
                              uint32_t index, struct gpt2_layer *layer)
{
    const struct model_job *job = builder->job;
    bool held = job->choices.offload[index] && !job->choices.recompute[index];
    struct forward_pass pass = {builder, "forward", TRACE_FORWARD, micro_batch, index, held};
    layer_to_inner(&pass, layer);
    pass.held = false; /* the output is the next layer's */
    uint32_t output = layer_activation(&pass, "output", builder->config->width);
    hold_input(builder, index + 1, output);
    last_product(&pass, layer, output);
    return output;
}

static uint32_t embed(struct iteration_builder *b, uint32_t micro_batch, uint32_t tokens)
{
    struct model_operator op = model_operator_of(MODEL_EMBED_FORWARD, -1, micro_batch);
    op.t[0] = GPT2_WTE;
    op.t[1] = GPT2_WPE;
    op.in[0] = tokens;
    op.out[0] = iteration_builder_buffer(b, "embeddings", b->rows * b->config->width * b->element);
    op.dropout_site = b->config->embedding_dropout > 0 ? 0 : NO_INDEX;
    if (!b->job->choices.host_embedding)
        hold_input(b, 0, op.out[0]);
    iteration_builder_operator(b, g_strdup("forward embeddings"), TRACE_FORWARD, &op);
    return op.out[0];
}

static void final_norm(struct iteration_builder *b, struct gpt2_activations *a)
{
    uint64_t h = b->config->width;
    struct model_operator op = model_operator_of(MODEL_NORM_FORWARD, -1, a->micro_batch);
    op.t[0] = gpt2_final_norm(b->config);
    op.t[1] = op.t[0] + 1;
    op.in[0] = a->output;
    op.out[0] = a->norm = iteration_builder_buffer(b, "ln_f", b->rows * h * b->element);
    op.out[1] = a->norm_stats = iteration_builder_buffer(b, "ln_f.stats",
                                                         2 * b->rows * sizeof(float));
    op.inputs = b->config->width;
    iteration_builder_operator(b, g_strdup("forward ln_f"), TRACE_FORWARD, &op);
}

static void classify(struct iteration_builder *b, struct gpt2_activations *a)
{
    struct model_operator op = model_operator_of(MODEL_CLASSIFIER_FORWARD, -1, a->micro_batch);
    uint32_t classes = model_config_classes(b->config);
    op.t[0] = gpt2_classifier(b->config);
    op.in[0] = a->norm;
    op.out[0] = a->logits =
        iteration_builder_buffer(b, "logits", b->rows * model_logits_row(classes) * b->element);
    op.inputs = b->config->width;
    op.outputs = classes;
    iteration_builder_operator(b, g_strconcat("forward ", gpt2_head(b->config), NULL),
                               TRACE_FORWARD, &op);

    struct model_operator loss = model_operator_of(MODEL_LOSS, -1, a->micro_batch);
    loss.in[0] = a->logits;
    loss.in[1] = a->tokens;
    if (b->job->unfused)
        loss.workspace = iteration_builder_buffer(b, "loss.fp32",
                                                  3 * b->rows * classes * sizeof(float));
    iteration_builder_operator(b, g_strdup("forward loss"), TRACE_FORWARD, &loss);
}

void gpt2_forward(struct iteration_builder *builder, struct gpt2_activations *activations)
{
    struct gpt2_activations *a = activations;
    a->tokens = iteration_builder_buffer(builder, "tokens", 2 * builder->rows * sizeof(uint32_t));
    uint32_t stream = embed(builder, a->micro_batch, a->tokens);
    for (uint32_t layer = 0; layer < builder->config->layers; layer++) {
        a->layers[layer].input = stream;
        stream = layer_forward(builder, a->micro_batch, layer, &a->layers[layer]);
    }
    a->output = stream;
    final_norm(builder, a);
    classify(builder, a);
}
