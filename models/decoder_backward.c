#include "models/decoder.h"

/* ---- updates ---- */

static int32_t layer_of(const struct model_layout *layout, tensor_id tensor)
{
    bool in_layer = tensor >= layout->first_layer && tensor < layout->final_norm;
    return in_layer ? (int32_t)((tensor - layout->first_layer) / layout->layer_tensors) : -1;
}

void decoder_update_tensor(struct iteration_builder *builder, tensor_id tensor)
{
    struct model_operator op = model_operator_of(MODEL_UPDATE, layer_of(&builder->layout, tensor),
                                                 0);
    uint32_t blocks = iteration_builder_blocks(builder, tensor);
    op.t[0] = tensor;
    if (builder->gradient == MODEL_GRADIENT_BUFFER)
        op.gradient[0] = iteration_builder_gradient(builder, tensor);
    const char *name = g_array_index(builder->tensors, struct trace_tensor, tensor).name;
    builder->progress[tensor] = BUILDER_UPDATED;
    for (op.block = 0; op.block < blocks; op.block++) {
        op.more = op.block + 1 < blocks;
        iteration_builder_operator(builder,
                                   blocks == 1 ? g_strdup_printf("update %s", name)
                                               : g_strdup_printf("update %s[%u]", name, op.block),
                                   TRACE_UPDATE_PHASE, &op);
    }
}

/* Appends the updates on one side that follow the completion of the gradients of `after`; NO_INDEX
 * stands for the end of backward. */
static void add_updates(struct iteration_builder *builder, bool on_host, const tensor_id after[2])
{
    const struct run_choices *choices = &builder->job->choices;
    for (tensor_id tensor = 0; tensor < builder->tensors->len; tensor++) {
        tensor_id follows = choices->update_after[tensor];
        if (choices->host_update[tensor] == on_host &&
            builder->progress[tensor] == BUILDER_COMPLETE &&
            (follows == after[0] || follows == after[1]))
            decoder_update_tensor(builder, tensor);
    }
}

/* The host's updates come first, so that the host is already at work when the device begins with
 * its own updates. */
void decoder_update(struct iteration_builder *builder)
{
    static const tensor_id end[2] = {NO_INDEX, NO_INDEX};
    add_updates(builder, true, end);
    add_updates(builder, false, end);
}

/* ---- backward ---- */

/* Backward runs once, or twice: first for the norm, then for the updates. */
enum turn { ONLY_TURN, FIRST_TURN, SECOND_TURN };

/* The state while one layer's backward pass is described. */
struct backward_pass {
    struct iteration_builder *builder;
    enum turn turn;
    uint32_t micro_batch;
    uint32_t layer;
    uint32_t stream; /* buffer: gradient of the residual stream */
};

static uint32_t gradient_buffer(struct iteration_builder *b, const char *name, uint64_t columns)
{
    return iteration_builder_buffer(b, name, b->rows * columns * b->element);
}

static uint32_t layer_gradient(const struct backward_pass *pass, const char *name, uint64_t columns)
{
    g_autofree char *full = decoder_part(pass->builder, pass->layer, name);
    return gradient_buffer(pass->builder, full, columns);
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
static uint32_t weight_workspace(struct iteration_builder *b, const struct model_operator *op)
{
    if (b->gradient == MODEL_GRADIENT_LIST)
        return NO_INDEX;
    return iteration_builder_buffer(b, "workspace",
                                    (uint64_t)op->inputs * op->outputs * sizeof(float));
}

/* Returns whether a backward operator computes the last part of its gradients; tied weights wait
 * for the embedding. */
static bool is_last(const struct iteration_builder *b, enum model_kind kind, uint32_t micro_batch)
{
    return micro_batch == model_rank_micro_batches(b->job) - 1 &&
           !(kind == MODEL_CLASSIFIER_BACKWARD && b->config->tied);
}

/* A tensor's gradient is complete after the last micro-batch, and with several ranks after its
 * reduction. */
static struct model_operator backward_operator(struct iteration_builder *b, enum turn turn,
                                               enum model_kind kind, int32_t layer,
                                               uint32_t micro_batch, uint32_t tensor,
                                               uint32_t tensors)
{
    struct model_operator op = model_operator_of(kind, layer, micro_batch);
    bool complete = model_ranks(b->job) == 1 && is_last(b, kind, micro_batch);
    op.accumulate = micro_batch > 0 && !iteration_builder_reduces(b);
    for (uint32_t i = 0; i < tensors; i++) {
        op.t[i] = tensor + i;
        op.gradient[i] = iteration_builder_gradient(b, tensor + i);
        op.norms[i] = complete && turn != SECOND_TURN;
        op.finishes[i] = complete && turn != FIRST_TURN;
    }
    return op;
}

/* Appends the updates that follow an operator that completes gradients. */
static void update_early(struct iteration_builder *b, const struct model_operator *op)
{
    tensor_id completed[2];
    int count = 0;
    for (int i = 0; i < 2; i++)
        if (op->finishes[i])
            b->progress[completed[count++] = op->t[i]] = BUILDER_COMPLETE;
    if (!count)
        return;
    completed[1] = completed[count - 1];
    add_updates(b, true, completed);
    add_updates(b, false, completed);
}

/* Appends the reduction of the gradients of a backward operator. `of_classifier` is the buffer of
 * the classifier's gradient of tied weights, or NO_INDEX. */
static void reduce(struct iteration_builder *b, const struct model_operator *op, const char *module,
                   uint32_t of_classifier)
{
    struct model_operator reduction = model_operator_of(MODEL_REDUCE, op->layer, op->micro_batch);
    bool last = op->micro_batch == model_rank_micro_batches(b->job) - 1;
    reduction.accumulate = op->micro_batch > 0;
    reduction.in[0] = of_classifier;
    reduction.in[1] = b->reduced[0];
    reduction.in[2] = b->reduced[1];
    reduction.rows = op->kind == MODEL_EMBED_BACKWARD;
    for (int i = 0; i < 2; i++) {
        reduction.t[i] = op->t[i];
        reduction.gradient[i] = b->reduced[i] = op->gradient[i];
        reduction.norms[i] = reduction.finishes[i] = last && op->t[i] != NO_INDEX;
        if (op->t[i] != NO_INDEX)
            iteration_builder_drop_gradient(b, op->t[i]);
    }
    iteration_builder_operator(b, g_strdup_printf("reduce %s", module), TRACE_BACKWARD, &reduction);
    update_early(b, &reduction);
}

static uint64_t bucket_limit(const struct iteration_builder *b, uint64_t element)
{
    return b->job->choices.stage == 0 ? MODEL_DDP_BUCKET_BYTES
                                      : MODEL_ZERO_BUCKET_ELEMENTS * element;
}

static void reduce_bucket(struct iteration_builder *b, const struct model_operator *behind)
{
    struct model_operator op = model_operator_of(MODEL_REDUCE_BUCKET, behind->layer,
                                                 behind->micro_batch);
    guint number = b->buckets->len;
    op.bucket = iteration_builder_take_bucket(b, &op.bucket_count);
    for (uint32_t i = 0; i < op.bucket_count; i++)
        b->progress[op.bucket[i]] = BUILDER_COMPLETE;
    iteration_builder_operator(b, g_strdup_printf("reduce bucket %u", number), TRACE_BACKWARD, &op);
    const tensor_id first[2] = {op.bucket[0], op.bucket[0]};
    add_updates(b, true, first);
    add_updates(b, false, first);
}

/* Adds what a backward operator completes to the bucket, and reduces that if it is full, or if
 * backward ends with the embedding. */
static void fill_bucket(struct iteration_builder *b, const struct model_operator *op)
{
    uint64_t element = b->gradient == MODEL_GRADIENT_LIST ? sizeof(float) : b->element;
    for (int i = 0; i < 2; i++) {
        if (op->t[i] == NO_INDEX)
            continue;
        g_array_append_val(b->bucket, op->t[i]);
        b->bucket_bytes += g_array_index(b->tensors, struct trace_tensor, op->t[i]).elements *
                           element;
    }
    if (b->bucket_bytes >= bucket_limit(b, element) || op->kind == MODEL_EMBED_BACKWARD)
        reduce_bucket(b, op);
}

/* Gradients in buffers are consumed as they are finished, or dropped when they have been measured.
 * Those of several ranks are reduced. */
static void consume_gradients(struct iteration_builder *b, const struct model_operator *op,
                              const char *module)
{
    if (iteration_builder_reduces(b)) {
        reduce(b, op, module, NO_INDEX);
        return;
    }
    if (b->sums == MODEL_SUMS_BUCKETS) {
        if (is_last(b, op->kind, op->micro_batch))
            fill_bucket(b, op);
        return;
    }
    if (b->gradient != MODEL_GRADIENT_BUFFER)
        update_early(b, op);
    for (int i = 0; i < 2; i++) {
        if (op->gradient[i] == NO_INDEX)
            continue;
        if (op->finishes[i])
            decoder_update_tensor(b, op->t[i]);
        else if (op->norms[i])
            iteration_builder_drop_gradient(b, op->t[i]);
    }
}

static const char *verb_of(enum turn turn)
{
    return turn == SECOND_TURN ? "backward again" : "backward";
}

static void append_operator(struct iteration_builder *b, enum turn turn, const char *module,
                            const struct model_operator *op)
{
    iteration_builder_operator(b, g_strdup_printf("%s %s", verb_of(turn), module), TRACE_BACKWARD,
                               op);
}

static struct model_operator layer_operator(const struct backward_pass *pass, enum model_kind kind,
                                            enum model_module module)
{
    struct model_operator place = model_operator_of(kind, (int32_t)pass->layer, pass->micro_batch);
    decoder_set_module(pass->builder, module, &place);
    struct model_operator op = backward_operator(pass->builder, pass->turn, kind, place.layer,
                                                 pass->micro_batch, place.t[0],
                                                 place.t[1] == NO_INDEX ? 1 : 2);
    op.inputs = place.inputs;
    op.outputs = place.outputs;
    return op;
}

static void append_part(const struct backward_pass *pass, const char *part,
                        const struct model_operator *op)
{
    g_autofree char *name = decoder_part(pass->builder, pass->layer, part);
    append_operator(pass->builder, pass->turn, name, op);
    if (op->t[0] != NO_INDEX)
        consume_gradients(pass->builder, op, name);
}

static void append(const struct backward_pass *pass, enum model_module module,
                   const struct model_operator *op)
{
    append_part(pass, model_family_of(pass->builder->config)->modules[module], op);
}

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

/* Goes from the sum back through its norm, if there is one, to the residual stream. */
static void end_sum(const struct backward_pass *pass, const struct sum *sum, uint32_t x,
                    uint32_t stats)
{
    if (sum->of == MODULES)
        return;
    struct model_operator op = layer_operator(pass, MODEL_NORM_BACKWARD, sum->of);
    op.add = true;
    op.in[0] = sum->buffer;
    op.in[1] = x;
    op.in[2] = stats;
    op.out[0] = pass->stream;
    append(pass, sum->of, &op);
}

/* Returns the gradient of x, which a product made and a norm normalised in parts. */
static uint32_t norm(const struct backward_pass *pass, enum model_module module,
                     enum model_module product, uint32_t parts, uint32_t dy, uint32_t x,
                     uint32_t stats)
{
    struct model_operator op = layer_operator(pass, MODEL_NORM_BACKWARD, module);
    op.in[0] = dy;
    op.in[1] = x;
    op.in[2] = stats;
    op.out[0] = module_gradient(pass, product, pass->builder->layout.outputs[product]);
    op.parts = parts;
    append(pass, module, &op);
    return op.out[0];
}

/* Goes from the residual stream back into the branch that was added to it. Returns the gradient of
 * x, a buffer that is named `dx`. */
static uint32_t residual(const struct backward_pass *pass, enum model_module module, uint32_t x,
                         uint32_t site, const char *dx)
{
    struct iteration_builder *b = pass->builder;
    struct model_operator op = layer_operator(pass, MODEL_RESIDUAL_BACKWARD, module);
    op.in[0] = pass->stream;
    op.in[1] = x;
    op.out[0] = layer_gradient(pass, dx, op.inputs);
    op.workspace = weight_workspace(b, &op);
    op.dropout_site = decoder_dropout_site(b, pass->layer, site);
    if (op.dropout_site != NO_INDEX)
        op.masked = layer_gradient(pass, "masked", b->config->width);
    append(pass, module, &op);
    return op.out[0];
}

static void linear(const struct backward_pass *pass, enum model_module module, uint32_t dy,
                   uint32_t x, struct sum *sum)
{
    struct model_operator op = layer_operator(pass, MODEL_LINEAR_BACKWARD, module);
    op.in[0] = dy;
    op.in[1] = x;
    add_term(pass, sum, &op);
    op.workspace = weight_workspace(pass->builder, &op);
    append(pass, module, &op);
}

/* A product whose result was normalised and added to the residual stream. Returns the gradient of
 * x, a buffer that is named `dx`. */
static uint32_t normalised(const struct backward_pass *pass, enum model_module module,
                           enum model_module after, uint32_t x, uint32_t product, uint32_t stats,
                           const char *dx)
{
    uint32_t dproduct = norm(pass, after, module, 1, pass->stream, product, stats);
    struct model_operator op = layer_operator(pass, MODEL_LINEAR_BACKWARD, module);
    op.in[0] = dproduct;
    op.in[1] = x;
    op.out[0] = layer_gradient(pass, dx, op.inputs);
    op.workspace = weight_workspace(pass->builder, &op);
    append(pass, module, &op);
    return op.out[0];
}

/* The product behind the activation. Of a gated MLP it also makes the gradient of the gate, from
 * which the gate's product goes on. */
static void inside(const struct backward_pass *pass, const struct decoder_layer *layer,
                   uint32_t dinner, struct sum *sum)
{
    const struct model_config *config = pass->builder->config;
    enum model_kind kind = config->gated ? MODEL_GATED_BACKWARD : MODEL_GELU_BACKWARD;
    struct model_operator op = layer_operator(pass, kind, MODULE_UP);
    op.in[0] = dinner;
    op.in[1] = layer->norm2;
    op.in[2] = layer->pre;
    op.in[3] = layer->gate;
    add_term(pass, sum, &op);
    if (config->gated)
        op.out[1] = part_gradient(pass, model_family_of(config)->mlp, ".dgate", op.outputs);
    op.workspace = weight_workspace(pass->builder, &op);
    append(pass, MODULE_UP, &op);
    if (layer->gate != NO_INDEX)
        linear(pass, MODULE_GATE, op.out[1], layer->norm2, sum);
}

/* Goes from the residual stream to the MLP's inside, of which it returns the gradient. */
static uint32_t begin_mlp(const struct backward_pass *pass, const struct decoder_layer *layer)
{
    const struct model_config *config = pass->builder->config;
    g_autofree char *name = g_strconcat(model_family_of(config)->mlp, ".dinner", NULL);
    if (model_config_norms_after(config))
        return normalised(pass, MODULE_DOWN, MODULE_AFTER_DOWN, layer->inner, layer->down,
                          layer->down_stats, name);
    return residual(pass, MODULE_DOWN, layer->inner, DECODER_DROPOUT_DOWN, name);
}

/* Goes from the residual stream to attention's result, of which it returns the gradient. */
static uint32_t begin_attention(const struct backward_pass *pass, const struct decoder_layer *layer)
{
    const struct model_config *config = pass->builder->config;
    g_autofree char *name = g_strconcat("d", model_family_of(config)->attention, NULL);
    if (model_config_norms_after(config))
        return normalised(pass, MODULE_OUTPUT, MODULE_AFTER_OUTPUT, layer->attention, layer->output,
                          layer->output_stats, name);
    return residual(pass, MODULE_OUTPUT, layer->attention, DECODER_DROPOUT_OUTPUT, name);
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
    linear(pass, MODULE_VALUE, gradients[2], layer->norm1, sum);
    if (config->query_norms)
        gradients[1] = norm(pass, MODULE_KEY_NORM, MODULE_KEY,
                            heads ? model_config_key_heads(config) : 1, gradients[1], layer->key,
                            layer->key_norm_stats);
    linear(pass, MODULE_KEY, gradients[1], layer->norm1, sum);
    if (config->query_norms)
        gradients[0] = norm(pass, MODULE_QUERY_NORM, MODULE_QUERY, heads ? config->heads : 1,
                            gradients[0], layer->query, layer->query_norm_stats);
    linear(pass, MODULE_QUERY, gradients[0], layer->norm1, sum);
}

static void attention(const struct backward_pass *pass, const struct decoder_layer *layer,
                      uint32_t dattention, struct sum *sum)
{
    if (pass->builder->config->separate)
        grouped(pass, layer, dattention, sum);
    else
        linear(pass, MODULE_QKV, attend(pass, layer, dattention), layer->norm1, sum);
}

/* Where attention and MLP are parallel, both read the stream's gradient before their norms add to
 * it. */
static void layer_backward(const struct backward_pass *pass, const struct decoder_layer *layer)
{
    enum model_branches branches = pass->builder->config->branches;
    bool one_norm = branches == MODEL_PARALLEL_ONE_NORM;
    struct sum of_mlp = sum_of(pass, one_norm ? MODULE_NORM_1 : MODULE_NORM_2);
    inside(pass, layer, begin_mlp(pass, layer), &of_mlp);
    if (branches == MODEL_SEQUENTIAL)
        end_sum(pass, &of_mlp, layer->middle, layer->norm2_stats);
    struct sum sum = one_norm ? of_mlp : sum_of(pass, MODULE_NORM_1);
    attention(pass, layer, begin_attention(pass, layer), &sum);
    if (branches == MODEL_PARALLEL)
        end_sum(pass, &of_mlp, layer->input, layer->norm2_stats);
    end_sum(pass, &sum, layer->input, layer->norm1_stats);
}

/* The classifier and the embedding have one backward pass. If the layers have two, these updates
 * follow the first. */
static uint32_t classifier(struct iteration_builder *b, const struct decoder_activations *a)
{
    struct model_operator op = backward_operator(b, ONLY_TURN, MODEL_CLASSIFIER_BACKWARD, -1,
                                                 a->micro_batch, b->layout.classifier,
                                                 b->config->classifier_bias ? 2 : 1);
    op.in[0] = a->logits;
    op.in[1] = a->norm;
    g_autofree char *dnorm = g_strconcat("d", model_family_of(b->config)->final_norm, NULL);
    op.out[0] = gradient_buffer(b, dnorm, b->config->width);
    op.inputs = b->config->width;
    op.outputs = model_config_classes(b->config);
    op.workspace = weight_workspace(b, &op);
    bool waits = b->job->choices.second_backward ||
                 (iteration_builder_reduces(b) && b->config->tied);
    append_operator(b, ONLY_TURN, model_head(b->config), &op);
    if (!waits)
        consume_gradients(b, &op, model_head(b->config));
    return op.out[0];
}

static uint32_t final_norm(struct iteration_builder *b, const struct decoder_activations *a,
                           enum turn turn, uint32_t dy)
{
    struct model_operator op = backward_operator(b, turn, MODEL_NORM_BACKWARD, -1, a->micro_batch,
                                                 b->layout.final_norm,
                                                 b->config->norm == MODEL_LAYER_NORM ? 2 : 1);
    op.in[0] = dy;
    op.in[1] = a->output;
    op.in[2] = a->norm_stats;
    op.out[0] = gradient_buffer(b, "dresidual", b->config->width);
    op.inputs = b->config->width;
    append_operator(b, turn, model_family_of(b->config)->final_norm, &op);
    consume_gradients(b, &op, model_family_of(b->config)->final_norm);
    return op.out[0];
}

static void embed(struct iteration_builder *b, const struct decoder_activations *a, uint32_t stream)
{
    static const char module[] = "embeddings";
    bool apart = iteration_builder_reduces(b);
    uint32_t of_classifier = NO_INDEX;
    if (apart && b->config->tied) {
        of_classifier = iteration_builder_gradient(b, 0);
        iteration_builder_drop_gradient(b, 0);
    }
    struct model_operator op = backward_operator(b, ONLY_TURN, MODEL_EMBED_BACKWARD, -1,
                                                 a->micro_batch, 0, b->layout.first_layer);
    op.in[0] = stream;
    op.in[1] = a->tokens;
    op.dropout_site = b->config->embedding_dropout > 0 ? 0 : NO_INDEX;
    if (!b->job->choices.host_embedding)
        op.workspace = iteration_builder_buffer(b, "token order", b->rows * sizeof(uint64_t));
    append_operator(b, ONLY_TURN, module, &op);
    if (apart)
        reduce(b, &op, module, of_classifier);
    else if (!b->job->choices.second_backward)
        consume_gradients(b, &op, module);
}

static void update_classifier_and_embedding(struct iteration_builder *b)
{
    for (tensor_id t = 0; t < b->layout.first_layer; t++)
        decoder_update_tensor(b, t);
    for (tensor_id t = b->layout.classifier; !b->config->tied && t < b->layout.count; t++)
        decoder_update_tensor(b, t);
}

/* Appends backward of the final norm and the layers. Returns the gradient of the layers' input. */
static uint32_t layers(struct iteration_builder *b, const struct decoder_activations *a,
                       enum turn turn, uint32_t dnorm)
{
    const char *verb = turn == SECOND_TURN ? "recompute again" : "recompute";
    uint32_t stream = final_norm(b, a, turn, dnorm);
    for (uint32_t layer = b->config->layers; layer-- > 0;) {
        struct backward_pass pass = {b, turn, a->micro_batch, layer, stream};
        if (b->job->choices.recompute[layer])
            decoder_recompute(b, verb, a->micro_batch, layer, &a->layers[layer]);
        layer_backward(&pass, &a->layers[layer]);
    }
    return stream;
}

void decoder_backward(struct iteration_builder *builder,
                      const struct decoder_activations *activations)
{
    bool twice = builder->job->choices.second_backward;
    builder->reduced[0] = builder->reduced[1] = NO_INDEX;
    uint32_t dnorm = classifier(builder, activations);
    uint32_t stream = layers(builder, activations, twice ? FIRST_TURN : ONLY_TURN, dnorm);
    embed(builder, activations, stream);
    if (!twice)
        return;
    update_classifier_and_embedding(builder);
    layers(builder, activations, SECOND_TURN, dnorm);
}
