/* Backward of what is outside of the layers: the head and the embedding. */
#include "models/decoder.h"

/* ---- the head ---- */

/* Returns whether the classifier's gradient waits for a later operator: the second backward's
 * updates, or the reduction of the embedding's gradient, with which tied weights share one. */
static bool classifier_waits(const struct iteration_builder *b, const struct model_operator *op)
{
    return b->job->choices.second_backward ||
           (iteration_builder_reduces(b) && b->config->tied && !op->frozen[0]);
}

uint32_t decoder_classifier_backward(struct iteration_builder *b,
                                     const struct decoder_activations *a)
{
    const char *head = model_head(b->config);
    struct model_operator op = decoder_backward_operator(
        b, ONLY_TURN, MODEL_CLASSIFIER_BACKWARD, -1, a->micro_batch, b->layout.classifier, 1);
    g_autofree char *dnorm = g_strconcat("d", model_family_of(b->config)->final_norm, NULL);
    if (b->config->classifier_bias)
        decoder_backward_tensor(b, ONLY_TURN, b->layout.classifier_bias, 1, &op);
    op.in[0] = a->logits;
    op.in[1] = a->norm;
    if (b->lowest < b->layout.head)
        op.out[0] = decoder_gradient_buffer(b, dnorm, b->config->width);
    op.inputs = b->config->width;
    op.outputs = model_config_classes(b->config);
    op.workspace = decoder_weight_workspace(b, &op);
    decoder_append(b, ONLY_TURN, head, &op);
    if (!classifier_waits(b, &op) && decoder_trains(&op))
        decoder_consume_gradients(b, &op, head);
    else if (!b->job->choices.second_backward)
        decoder_consume_biases(b, &op, head);
    return op.out[0];
}

/* The operands of a norm's backward outside of the layers. */
struct outer_norm {
    const char *module;
    uint32_t tensor;
    uint32_t dy, x, stats;
    const char *dx; /* the buffer of x's gradient */
    uint32_t dropout_site;
};

/* Returns the gradient of x, if a tensor before the norm is trained. */
static uint32_t outer_norm(struct iteration_builder *b, uint32_t micro_batch,
                           enum decoder_turn turn, const struct outer_norm *norm)
{
    struct model_operator op =
        decoder_backward_operator(b, turn, MODEL_NORM_BACKWARD, -1, micro_batch, norm->tensor,
                                  b->config->norm == MODEL_LAYER_NORM ? 2 : 1);
    op.in[0] = norm->dy;
    op.in[1] = norm->x;
    op.in[2] = norm->stats;
    op.dropout_site = norm->dropout_site;
    if (b->lowest < norm->tensor)
        op.out[0] = decoder_gradient_buffer(b, norm->dx, b->config->width);
    op.inputs = b->config->width;
    decoder_discard_of_norm(b, &op);
    decoder_append(b, turn, norm->module, &op);
    bool waits = turn == ONLY_TURN && b->job->choices.second_backward;
    if (decoder_trains(&op) && !waits)
        decoder_consume_gradients(b, &op, norm->module);
    return op.out[0];
}

/* Goes from the final norm back through the head's product. Returns the gradient of the residual
 * stream, if it is wanted. */
static uint32_t transform(struct iteration_builder *b, const struct decoder_activations *a,
                          enum decoder_turn turn, uint32_t dy)
{
    const char *module = model_family_of(b->config)->transform;
    struct model_operator op = decoder_backward_operator(b, turn, MODEL_GELU_BACKWARD, -1,
                                                         a->micro_batch, b->layout.transform, 2);
    op.in[0] = dy;
    op.in[1] = a->output;
    op.in[2] = a->transform_pre;
    op.inputs = op.outputs = b->config->width;
    if (b->lowest < b->layout.layers_end)
        op.out[0] = decoder_gradient_buffer(b, "dresidual", b->config->width);
    decoder_discard(b, &op, 1, op.outputs);
    op.workspace = decoder_weight_workspace(b, &op);
    decoder_append(b, turn, module, &op);
    if (decoder_trains(&op))
        decoder_consume_gradients(b, &op, module);
    return op.out[0];
}

uint32_t decoder_head_backward(struct iteration_builder *b, const struct decoder_activations *a,
                               enum decoder_turn turn, uint32_t dnorm)
{
    const struct model_family *family = model_family_of(b->config);
    bool transforms = b->config->head_transform;
    g_autofree char *dtransform = g_strconcat("d", transforms ? family->transform : "", NULL);
    const struct outer_norm norm = {.module = family->final_norm,
                                    .tensor = b->layout.final_norm,
                                    .dy = dnorm,
                                    .x = a->transformed,
                                    .stats = a->norm_stats,
                                    .dx = transforms ? dtransform : "dresidual",
                                    .dropout_site = NO_INDEX};
    uint32_t dx = outer_norm(b, a->micro_batch, turn, &norm);
    return transforms && dx != NO_INDEX ? transform(b, a, turn, dx) : dx;
}

/* ---- the embedding ---- */

/* Goes from the first layer's input back to the sum of the tables' rows. */
static uint32_t embedding_norm(struct iteration_builder *b, const struct decoder_activations *a,
                               uint32_t stream)
{
    const struct outer_norm norm = {.module = model_family_of(b->config)->first_norm,
                                    .tensor = b->layout.embedding_norm,
                                    .dy = stream,
                                    .x = a->embeddings,
                                    .stats = a->embedding_stats,
                                    .dx = "dembeddings",
                                    .dropout_site = b->config->embedding_dropout > 0 ? 0
                                                                                     : NO_INDEX};
    return outer_norm(b, a->micro_batch, ONLY_TURN, &norm);
}

/* Goes from the sum of the tables' rows to the tables. */
static void tables(struct iteration_builder *b, const struct decoder_activations *a, uint32_t dx)
{
    static const char module[] = "embeddings";
    bool apart = iteration_builder_reduces(b), normalised = b->config->embedding_norm;
    uint32_t of_classifier = NO_INDEX;
    if (apart && b->config->tied && !iteration_builder_freezes(b, 0)) {
        of_classifier = iteration_builder_gradient(b, 0);
        iteration_builder_drop_gradient(b, 0);
    }
    struct model_operator op = decoder_backward_operator(
        b, ONLY_TURN, MODEL_EMBED_BACKWARD, -1, a->micro_batch, 0, model_config_tables(b->config));
    op.in[0] = dx;
    op.in[1] = a->tokens;
    op.dropout_site = b->config->embedding_dropout > 0 && !normalised ? 0 : NO_INDEX;
    if (!b->job->choices.host_embedding)
        op.workspace = iteration_builder_buffer(b, "token order", b->rows * sizeof(uint64_t));
    decoder_append(b, ONLY_TURN, module, &op);
    if (apart)
        decoder_reduce(b, &op, module, of_classifier);
    else if (!b->job->choices.second_backward)
        decoder_consume_gradients(b, &op, module);
}

void decoder_embedding_backward(struct iteration_builder *b, const struct decoder_activations *a,
                                uint32_t stream)
{
    uint32_t dx = b->config->embedding_norm ? embedding_norm(b, a, stream) : stream;
    if (dx != NO_INDEX)
        tables(b, a, dx);
}

void decoder_update_ends(struct iteration_builder *b)
{
    for (tensor_id t = 0; t < b->layout.count; t++) {
        bool at_an_end = t < b->layout.first_layer || t >= b->layout.head;
        if (at_an_end && !iteration_builder_freezes(b, t))
            decoder_update_tensor(b, t);
    }
}
