/* What becomes of gradients: reductions among ranks, and updates. */
#include "models/decoder.h"

/* ---- updates ---- */

static int32_t layer_of(const struct model_layout *layout, tensor_id tensor)
{
    bool in_layer = tensor >= layout->first_layer && tensor < layout->layers_end;
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
 * stands for the end of backward. They begin with tensor `first` and end with the one before it. */
static void add_updates(struct iteration_builder *builder, bool on_host, tensor_id first,
                        const tensor_id after[MODEL_TENSORS])
{
    const struct run_choices *choices = &builder->job->choices;
    for (guint i = 0; i < builder->tensors->len; i++) {
        tensor_id tensor = (first + i) % builder->tensors->len;
        tensor_id follows = choices->update_after[tensor];
        bool now = false;
        for (int k = 0; k < MODEL_TENSORS; k++)
            now |= follows == after[k];
        if (now && choices->host_update[tensor] == on_host &&
            builder->progress[tensor] == BUILDER_COMPLETE)
            decoder_update_tensor(builder, tensor);
    }
}

/* The host's updates come first, so that the host is already at work when the device begins with
 * its own updates. */
void decoder_update(struct iteration_builder *builder)
{
    static const tensor_id end[MODEL_TENSORS] = {NO_INDEX, NO_INDEX, NO_INDEX};
    add_updates(builder, true, builder->job->choices.first_update, end);
    add_updates(builder, false, 0, end);
}

/* ---- gradients ---- */

bool decoder_completes(const struct iteration_builder *b, enum model_kind kind, tensor_id tensor,
                       uint32_t micro_batch)
{
    return micro_batch == model_rank_micro_batches(b->job) - 1 &&
           !(kind == MODEL_CLASSIFIER_BACKWARD && b->config->tied &&
             tensor == b->layout.classifier);
}

/* Appends the updates that follow an operator that completes gradients. */
static void update_early(struct iteration_builder *b, const struct model_operator *op)
{
    tensor_id completed[MODEL_TENSORS];
    int count = 0;
    bool leads = false;
    for (int i = 0; i < MODEL_TENSORS; i++)
        if (op->finishes[i]) {
            b->progress[completed[count++] = op->t[i]] = BUILDER_COMPLETE;
            leads |= b->leads[op->t[i]];
        }
    if (!leads)
        return;
    for (int i = count; i < MODEL_TENSORS; i++)
        completed[i] = completed[0];
    add_updates(b, true, 0, completed);
    add_updates(b, false, 0, completed);
}

static bool trains(const struct model_operator *op, int i)
{
    return op->t[i] != NO_INDEX && !op->frozen[i];
}

void decoder_reduce(struct iteration_builder *b, const struct model_operator *op,
                    const char *module, uint32_t of_classifier)
{
    struct model_operator reduction = model_operator_of(MODEL_REDUCE, op->layer, op->micro_batch);
    bool last = op->micro_batch == model_rank_micro_batches(b->job) - 1;
    reduction.accumulate = op->micro_batch > 0;
    reduction.in[0] = of_classifier;
    for (size_t i = 0; i < G_N_ELEMENTS(b->reduced); i++)
        reduction.in[1 + i] = b->reduced[i];
    b->reduced[MODEL_TENSORS] = of_classifier;
    reduction.rows = op->kind == MODEL_EMBED_BACKWARD;
    for (int i = 0; i < MODEL_TENSORS; i++) {
        bool trained = trains(op, i);
        b->reduced[i] = trained ? op->gradient[i] : NO_INDEX;
        if (!trained)
            continue;
        reduction.t[i] = op->t[i];
        reduction.gradient[i] = op->gradient[i];
        reduction.norms[i] = reduction.finishes[i] = last;
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

static void reduce_bucket(struct iteration_builder *b, int32_t layer, uint32_t micro_batch)
{
    struct model_operator op = model_operator_of(MODEL_REDUCE_BUCKET, layer, micro_batch);
    guint number = b->buckets->len;
    op.bucket = iteration_builder_take_bucket(b, &op.bucket_count);
    for (uint32_t i = 0; i < op.bucket_count; i++)
        b->progress[op.bucket[i]] = BUILDER_COMPLETE;
    iteration_builder_operator(b, g_strdup_printf("reduce bucket %u", number), TRACE_BACKWARD, &op);
    if (!b->leads[op.bucket[0]])
        return;
    const tensor_id first[MODEL_TENSORS] = {op.bucket[0], op.bucket[0], op.bucket[0]};
    add_updates(b, true, 0, first);
    add_updates(b, false, 0, first);
}

/* Adds what a backward operator completes to the bucket, and reduces that if it is full. */
static void fill_bucket(struct iteration_builder *b, const struct model_operator *op)
{
    uint64_t element = b->gradient == MODEL_GRADIENT_LIST ? sizeof(float) : b->element;
    for (int i = 0; i < MODEL_TENSORS; i++) {
        if (!trains(op, i) || !decoder_completes(b, op->kind, op->t[i], op->micro_batch))
            continue;
        g_array_append_val(b->bucket, op->t[i]);
        b->bucket_bytes += g_array_index(b->tensors, struct trace_tensor, op->t[i]).elements *
                           element;
    }
    if (b->bucket_bytes >= bucket_limit(b, element))
        reduce_bucket(b, op->layer, op->micro_batch);
}

void decoder_end_bucket(struct iteration_builder *b, uint32_t micro_batch)
{
    if (b->bucket->len)
        reduce_bucket(b, -1, micro_batch);
}

void decoder_consume_gradients(struct iteration_builder *b, const struct model_operator *op,
                               const char *module)
{
    if (iteration_builder_reduces(b)) {
        decoder_reduce(b, op, module, NO_INDEX);
        return;
    }
    if (b->sums == MODEL_SUMS_BUCKETS) {
        fill_bucket(b, op);
        return;
    }
    if (b->gradient != MODEL_GRADIENT_BUFFER)
        update_early(b, op);
    for (int i = 0; i < MODEL_TENSORS; i++) {
        if (op->gradient[i] == NO_INDEX)
            continue;
        if (op->finishes[i])
            decoder_update_tensor(b, op->t[i]);
        else if (op->norms[i])
            iteration_builder_drop_gradient(b, op->t[i]);
    }
}

void decoder_consume_biases(struct iteration_builder *b, const struct model_operator *op,
                            const char *module)
{
    struct model_operator biases = *op;
    int count = 0;
    for (int i = 0; i < MODEL_TENSORS; i++) {
        biases.t[i] = biases.gradient[i] = NO_INDEX;
        biases.frozen[i] = biases.norms[i] = biases.finishes[i] = false;
    }
    for (int i = 1; i < MODEL_TENSORS; i++) {
        if (!trains(op, i))
            continue;
        biases.t[count] = op->t[i];
        biases.gradient[count] = op->gradient[i];
        biases.norms[count] = op->norms[i];
        biases.finishes[count++] = op->finishes[i];
    }
    if (count)
        decoder_consume_gradients(b, &biases, module);
}
