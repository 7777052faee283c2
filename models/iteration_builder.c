#include "models/iteration_builder.h"

#include "models/expert_rows.h"
#include "models/operator_cost.h"

#include <string.h>

static void append(struct iteration_builder *builder, tensor_id tensor, enum trace_list list,
                   enum trace_mode mode)
{
    struct trace_access access = {tensor, (uint8_t)list, (uint8_t)mode, 0};
    g_array_append_val(builder->accesses, access);
}

static void update_state(struct iteration_builder *builder, const struct model_operator *op,
                         enum trace_list list)
{
    struct trace_access access = {op->t[0], (uint8_t)list, TRACE_UPDATE, (uint16_t)op->block};
    g_array_append_val(builder->accesses, access);
}

/* The weight of a linear layer or a norm is needed for the gradient of its input, if anybody wants
 * that; biases and embedding tables are not. */
static bool backward_reads(const struct model_operator *op, int which)
{
    if (op->kind == MODEL_ADAPTER_BACKWARD)
        return which == 1 || op->out[0] != NO_INDEX;
    return which == 0 && op->kind != MODEL_EMBED_BACKWARD && op->out[0] != NO_INDEX;
}

/* Tied weights: the classifier's backward has written their gradient by then. */
static bool adds_to_gradient(const struct iteration_builder *builder,
                             const struct model_operator *op, int which)
{
    return op->accumulate ||
           (op->kind == MODEL_EMBED_BACKWARD && which == 0 && builder->config->tied);
}

/* Returns the list from which forward and backward read parameters. */
static enum trace_list read_list(const struct iteration_builder *builder)
{
    return model_shares_parameters(builder->job) ? TRACE_GATHERED : TRACE_PARAM;
}

static void backward_access(struct iteration_builder *builder, const struct model_operator *op,
                            int which)
{
    tensor_id tensor = op->t[which];
    bool reads = backward_reads(op, which);
    if (op->frozen[which]) {
        if (reads)
            append(builder, tensor, read_list(builder), TRACE_READ);
        return;
    }
    bool adds = adds_to_gradient(builder, op, which);
    if (builder->gradient == MODEL_GRADIENT_OVER_PARAM && !iteration_builder_reduces(builder)) {
        append(builder, tensor, TRACE_PARAM, reads || adds ? TRACE_UPDATE : TRACE_OVERWRITE);
        return;
    }
    if (reads)
        append(builder, tensor, read_list(builder), TRACE_READ);
    if (builder->gradient == MODEL_GRADIENT_LIST && !iteration_builder_reduces(builder))
        append(builder, tensor, TRACE_GRAD, adds ? TRACE_UPDATE : TRACE_OVERWRITE);
}

/* A parameter that is rounded from its master needs no old bytes. The first update of a cut tensor
 * overwrites it, and the others keep what it wrote. */
static void update_accesses(struct iteration_builder *builder, const struct model_operator *op)
{
    tensor_id tensor = op->t[0];
    bool list = builder->gradient == MODEL_GRADIENT_LIST;
    bool fresh = iteration_builder_rounds(builder) && op->block == 0;
    append(builder, tensor, TRACE_PARAM, fresh ? TRACE_OVERWRITE : TRACE_UPDATE);
    if (list)
        append(builder, tensor, TRACE_GRAD, TRACE_READ);
    if (model_has_masters(builder->job))
        update_state(builder, op, TRACE_MASTER);
    update_state(builder, op, TRACE_EXP_AVG);
    update_state(builder, op, TRACE_EXP_AVG_SQ);
    if (model_shares_parameters(builder->job))
        append(builder, tensor, TRACE_GATHERED, TRACE_UPDATE);
}

/* Returns the list of gradients that ranks have whole, or that a reduction without a list writes.
 */
static enum trace_list gradient_list(const struct iteration_builder *builder)
{
    return builder->gradient == MODEL_GRADIENT_LIST ? TRACE_GRAD : TRACE_PARAM;
}

static void operator_accesses(struct iteration_builder *builder, const struct model_operator *op)
{
    for (uint32_t i = 0; i < op->bucket_count; i++)
        append(builder, op->bucket[i], gradient_list(builder), TRACE_UPDATE);
    for (int which = 0; which < MODEL_TENSORS; which++) {
        if (op->t[which] == NO_INDEX)
            continue;
        if (op->kind == MODEL_UPDATE)
            update_accesses(builder, op);
        else if (op->kind == MODEL_REDUCE)
            append(builder, op->t[which], gradient_list(builder),
                   op->accumulate ? TRACE_UPDATE : TRACE_OVERWRITE);
        else if (model_operator_is_forward(op))
            append(builder, op->t[which], read_list(builder), TRACE_READ);
        else
            backward_access(builder, op, which);
    }
}

static void free_tensor(gpointer tensor)
{
    g_free(((struct trace_tensor *)tensor)->name);
}

static void free_buffer(gpointer buffer)
{
    g_free(((struct trace_buffer *)buffer)->name);
}

static void free_later(gpointer later)
{
    g_free(((struct builder_later *)later)->module);
}

static void free_operator(gpointer traced)
{
    g_free(((struct trace_operator *)traced)->name);
}

/* Returns which tensors' completions updates follow; the caller frees it. */
static bool *leaders(const struct run_choices *choices)
{
    bool *leads = g_new0(bool, choices->tensor_count);
    for (tensor_id t = 0; t < choices->tensor_count; t++)
        if (choices->update_after[t] != NO_INDEX)
            leads[choices->update_after[t]] = true;
    return leads;
}

void iteration_builder_init(struct iteration_builder *builder, const struct model_config *config,
                            const struct model_job *job)
{
    *builder = (struct iteration_builder){
        .config = config,
        .job = job,
        .layout = model_layout_of(config),
        .gradient = model_gradient_layout(job),
        .sums = model_sums(job),
        .bucket = g_array_new(FALSE, FALSE, sizeof(tensor_id)),
        .later = g_array_new(FALSE, FALSE, sizeof(struct builder_later)),
        .buckets = g_ptr_array_new_with_free_func(g_free),
        .rows = (uint64_t)job->choices.batch * job->sequence,
        .element = job->precision == MODEL_BF16 ? 2 : 4,
        .tensors = g_array_new(FALSE, FALSE, sizeof(struct trace_tensor)),
        .buffers = g_array_new(FALSE, FALSE, sizeof(struct trace_buffer)),
        .held = g_array_new(FALSE, TRUE, sizeof(uint8_t)),
        .accesses = g_array_new(FALSE, FALSE, sizeof(struct trace_access)),
        .operators = g_array_new(FALSE, FALSE, sizeof(struct trace_operator)),
        .model_operators = g_array_new(FALSE, FALSE, sizeof(struct model_operator)),
        .gradients = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
        .progress = g_new0(uint8_t, job->choices.tensor_count),
        .leads = leaders(&job->choices),
        .balance = NO_INDEX,
        .routed = g_new(uint64_t, (size_t)config->layers * config->experts),
    };
    for (uint32_t layer = 0; config->experts && layer < config->layers; layer++)
        expert_rows(config, layer, builder->rows,
                    builder->routed + (size_t)layer * config->experts);
    while (job->choices.frozen[builder->lowest])
        builder->lowest++;
    g_array_set_clear_func(builder->tensors, free_tensor);
    g_array_set_clear_func(builder->buffers, free_buffer);
    g_array_set_clear_func(builder->operators, free_operator);
    g_array_set_clear_func(builder->later, free_later);
}

void iteration_builder_clear(struct iteration_builder *builder)
{
    g_array_unref(builder->tensors);
    g_array_unref(builder->buffers);
    g_array_unref(builder->held);
    g_array_unref(builder->accesses);
    g_array_unref(builder->operators);
    g_array_unref(builder->model_operators);
    g_array_unref(builder->gradients);
    g_array_unref(builder->bucket);
    g_array_unref(builder->later);
    g_ptr_array_unref(builder->buckets);
    g_free(builder->progress);
    g_free(builder->leads);
    g_free(builder->routed);
}

uint32_t iteration_builder_tensor(struct iteration_builder *builder, char *name, uint64_t elements)
{
    struct trace_tensor tensor = {.name = name, .elements = elements};
    uint32_t none = NO_INDEX;
    g_array_append_val(builder->tensors, tensor);
    g_array_append_val(builder->gradients, none);
    return builder->tensors->len - 1;
}

uint32_t iteration_builder_blocks(const struct iteration_builder *builder, tensor_id tensor)
{
    return trace_blocks_of(g_array_index(builder->tensors, struct trace_tensor, tensor).elements,
                           builder->job->choices.state_block);
}

uint64_t iteration_builder_updated(const struct iteration_builder *builder,
                                   const struct model_operator *op)
{
    uint64_t all = g_array_index(builder->tensors, struct trace_tensor, op->t[0]).elements;
    if (iteration_builder_blocks(builder, op->t[0]) == 1)
        return all;
    return MIN(builder->job->choices.state_block,
               all - op->block * builder->job->choices.state_block);
}

uint32_t iteration_builder_buffer(struct iteration_builder *builder, const char *name,
                                  uint64_t bytes)
{
    struct trace_buffer buffer = {
        .name = g_strdup(name),
        .bytes = (bytes + BUFFER_ALIGNMENT - 1) / BUFFER_ALIGNMENT * BUFFER_ALIGNMENT,
        .first = NO_INDEX,
    };
    g_array_append_val(builder->buffers, buffer);
    g_array_set_size(builder->held, builder->buffers->len);
    return builder->buffers->len - 1;
}

uint32_t iteration_builder_gradient(struct iteration_builder *builder, tensor_id tensor)
{
    bool reduces = iteration_builder_reduces(builder);
    bool narrow = !reduces || builder->sums == MODEL_SUMS_NARROW;
    uint64_t element = narrow ? builder->element : sizeof(float);
    if (builder->gradient != MODEL_GRADIENT_BUFFER && !reduces)
        return NO_INDEX;
    const struct trace_tensor *of = &g_array_index(builder->tensors, struct trace_tensor, tensor);
    uint32_t *buffer = &g_array_index(builder->gradients, uint32_t, tensor);
    if (*buffer == NO_INDEX) {
        char *name = g_strconcat("gradient of ", of->name, NULL);
        *buffer = iteration_builder_buffer(builder, name, of->elements * element);
        g_free(name);
    }
    return *buffer;
}

const tensor_id *iteration_builder_take_bucket(struct iteration_builder *builder, uint32_t *count)
{
    GArray *bucket = builder->bucket;
    tensor_id *tensors = g_memdup2(bucket->data, bucket->len * sizeof(tensor_id));
    *count = bucket->len;
    g_ptr_array_add(builder->buckets, tensors);
    g_array_set_size(bucket, 0);
    builder->bucket_bytes = 0;
    return tensors;
}

void iteration_builder_drop_gradient(struct iteration_builder *builder, tensor_id tensor)
{
    g_array_index(builder->gradients, uint32_t, tensor) = NO_INDEX;
}

bool iteration_builder_goes_back(const struct iteration_builder *builder, uint32_t layer)
{
    const struct model_layout *layout = &builder->layout;
    return builder->lowest < layout->first_layer + (layer + 1) * layout->layer_tensors;
}

void iteration_builder_hold(struct iteration_builder *builder, uint32_t buffer)
{
    g_array_index(builder->held, uint8_t, buffer) = 1;
}

struct model_operator model_operator_of(enum model_kind kind, int32_t layer, uint32_t micro_batch)
{
    return (struct model_operator){
        .kind = (uint8_t)kind,
        .layer = layer,
        .micro_batch = micro_batch,
        .t = {NO_INDEX, NO_INDEX, NO_INDEX},
        .newest = {NO_INDEX, NO_INDEX, NO_INDEX},
        .in = {NO_INDEX, NO_INDEX, NO_INDEX, NO_INDEX, NO_INDEX, NO_INDEX},
        .out = {NO_INDEX, NO_INDEX, NO_INDEX},
        .gradient = {NO_INDEX, NO_INDEX, NO_INDEX},
        .workspace = NO_INDEX,
        .masked = NO_INDEX,
        .dropout_site = NO_INDEX,
        .expert = NO_INDEX,
    };
}

uint64_t iteration_builder_scores(const struct iteration_builder *builder)
{
    return builder->rows * builder->job->sequence * builder->config->heads;
}

static bool on_host(const struct model_job *job, const struct model_operator *op)
{
    switch (op->kind) {
    case MODEL_EMBED_FORWARD:
    case MODEL_EMBED_BACKWARD:
        return job->choices.host_embedding;
    case MODEL_UPDATE:
        return job->choices.host_update[op->t[0]];
    default:
        return false;
    }
}

/* Stretches a buffer's life to the operator that is about to be appended. A buffer that this
 * operator makes costs `flops` to compute again. A buffer that forward makes and backward reads is
 * saved. */
static void use_buffer(struct iteration_builder *builder, uint32_t index, enum trace_phase phase,
                       uint64_t flops)
{
    if (index == NO_INDEX)
        return;
    struct trace_buffer *buffer = &g_array_index(builder->buffers, struct trace_buffer, index);
    moment_id moment = builder->operators->len;
    if (buffer->first == NO_INDEX) {
        buffer->first = moment;
        buffer->recompute_flops = flops;
    }
    const struct trace_operator *maker = buffer->first < moment
                                             ? &g_array_index(builder->operators,
                                                              struct trace_operator, buffer->first)
                                             : NULL;
    buffer->saved = maker && maker->phase == TRACE_FORWARD && phase == TRACE_BACKWARD;
    buffer->last = moment;
}

static void use_buffers(struct iteration_builder *builder, const struct model_operator *op,
                        const struct trace_operator *traced)
{
    uint64_t flops = model_operator_is_forward(op) ? traced->flops : 0;
    for (size_t i = 0; i < G_N_ELEMENTS(op->in); i++)
        use_buffer(builder, op->in[i], traced->phase, 0);
    for (size_t i = 0; i < G_N_ELEMENTS(op->out); i++)
        use_buffer(builder, op->out[i], traced->phase, flops);
    for (size_t i = 0; i < G_N_ELEMENTS(op->gradient); i++)
        use_buffer(builder, op->gradient[i], traced->phase, 0);
    use_buffer(builder, op->workspace, traced->phase, 0);
    use_buffer(builder, op->masked, traced->phase, 0);
}

static void access_held(struct iteration_builder *builder, uint32_t buffer, enum trace_mode mode)
{
    struct trace_access access = {buffer, TRACE_ACTIVATION, (uint8_t)mode, 0};
    if (buffer != NO_INDEX && g_array_index(builder->held, uint8_t, buffer))
        g_array_append_val(builder->accesses, access);
}

/* A saved buffer is written once, completely, by one operator, or by those of the experts, of which
 * the first one begins with a buffer that holds nothing. */
static enum trace_mode write_mode(const struct iteration_builder *builder, uint32_t buffer)
{
    bool begun = buffer != NO_INDEX &&
                 g_array_index(builder->buffers, struct trace_buffer, buffer).first != NO_INDEX;
    return begun ? TRACE_UPDATE : TRACE_OVERWRITE;
}

static void access_buffers(struct iteration_builder *builder, const struct model_operator *op)
{
    for (size_t i = 0; i < G_N_ELEMENTS(op->in); i++)
        access_held(builder, op->in[i], TRACE_READ);
    for (size_t i = 0; i < G_N_ELEMENTS(op->out); i++)
        access_held(builder, op->out[i], write_mode(builder, op->out[i]));
}

/* An embedding on the host sends its output over the link, and receives its output's gradient; an
 * update receives a gradient that is in a buffer. */
static void cross_link(const struct iteration_builder *builder, const struct model_operator *op,
                       struct trace_operator *traced)
{
    uint64_t bytes = builder->rows * builder->config->width * builder->element;
    if (op->gradient[0] != NO_INDEX)
        traced->d2h_bytes = builder->element * iteration_builder_updated(builder, op);
    if (op->kind == MODEL_EMBED_FORWARD)
        traced->h2d_bytes = bytes;
    else if (op->kind == MODEL_EMBED_BACKWARD)
        traced->d2h_bytes = bytes;
}

/* Tied weights are the classifier's, too. */
static bool is_of_embedding(const struct iteration_builder *builder,
                            const struct model_operator *op)
{
    bool classifies = op->kind == MODEL_CLASSIFIER_FORWARD || op->kind == MODEL_CLASSIFIER_BACKWARD;
    return op->kind == MODEL_EMBED_BACKWARD || op->rows ||
           (!classifies && op->t[0] < builder->layout.first_layer);
}

void iteration_builder_operator(struct iteration_builder *builder, char *name,
                                enum trace_phase phase, const struct model_operator *op)
{
    struct trace_operator traced = {
        .name = name,
        .phase = (uint8_t)phase,
        .place = on_host(builder->job, op) ? TRACE_ON_HOST : TRACE_ON_DEVICE,
        .layer = op->layer,
        .micro_batch = op->micro_batch,
        .first_access = builder->accesses->len,
        .flops = operator_flops(builder, op),
    };
    operator_accesses(builder, op);
    traced.bytes = operator_bytes(builder, op, traced.first_access);
    access_buffers(builder, op);
    traced.access_count = builder->accesses->len - traced.first_access;
    if (traced.place == TRACE_ON_HOST)
        cross_link(builder, op, &traced);
    use_buffers(builder, op, &traced);
    g_array_append_val(builder->operators, traced);
    struct model_operator placed = *op;
    placed.embeds = is_of_embedding(builder, op);
    g_array_append_val(builder->model_operators, placed);
}

static gpointer take(GArray *array, uint32_t *count)
{
    gsize length;
    gpointer data = g_array_steal(array, &length);
    *count = (uint32_t)length;
    return data;
}

struct model_operator *iteration_builder_finish(struct iteration_builder *builder,
                                                struct trace *trace)
{
    uint32_t count;
    trace->tensors = take(builder->tensors, &trace->tensor_count);
    trace->buffers = take(builder->buffers, &trace->buffer_count);
    trace->accesses = take(builder->accesses, &trace->access_count);
    trace->operators = take(builder->operators, &trace->operator_count);
    return take(builder->model_operators, &count);
}
