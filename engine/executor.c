#include "engine/executor.h"

#include "base/fault.h"
#include "chunks/residency/address_map.h"
#include "models/pipeline.h"

#include <math.h>
#include <string.h>

static struct device *device_of(const struct executor *x)
{
    return x->mover->device;
}

static uint64_t rows(const struct executor *x)
{
    return (uint64_t)x->iteration->job.choices.batch * x->iteration->job.sequence;
}

/* ---- operands ---- */

static uint64_t tensor_address(const struct executor *x, const struct trace_access *access,
                               bool on_host)
{
    const struct layout_place *place = layout_place_of(x->plan->layout, access);
    uint64_t chunk = on_host ? residency_host_address(x->residency, place->chunk)
                             : residency_address(x->residency, place->chunk);
    g_assert(chunk != NO_ADDRESS);
    return chunk + place->offset;
}

/* The first forward pass of a pipeline that never drains is that of micro-batch `ahead`. */
static uint64_t buffer_address(const struct executor *x, uint32_t buffer)
{
    const struct layout *layout = x->plan->layout;
    if (buffer == NO_INDEX)
        return NO_ADDRESS;
    if (x->step.filling != NO_INDEX)
        buffer = pipeline_kept_buffer(x->iteration->cut, buffer, x->iteration->cut->ahead,
                                      x->step.filling);
    if (!layout->buffer_count || layout->places[TRACE_ACTIVATION][buffer].chunk == NO_INDEX)
        return activations_address(x->activations, buffer);
    return residency_address(x->residency, layout->places[TRACE_ACTIVATION][buffer].chunk);
}

static uint64_t staging_address(const struct executor *x, moment_id moment)
{
    return x->plan->staging_address + x->staging.offset[x->staging.place[moment]];
}

/* Returns the first element that an update of a block updates; 0 for other operators. */
static uint64_t first_of(const struct executor *x, const struct model_operator *op)
{
    return op->block * x->iteration->trace->state_block;
}

/* Returns where the operator finds its gradient, which is a buffer; of an update, its block's part.
 */
static uint64_t gradient_buffer(const struct executor *x, const struct model_operator *op, int i)
{
    uint64_t address = buffer_address(x, op->gradient[i]);
    uint64_t width = x->iteration->trace->list_element_bytes[TRACE_PARAM];
    return address == NO_ADDRESS ? address : address + first_of(x, op) * width;
}

/* Returns the list of gradients that are in no buffers. */
static enum trace_list gradient_list(const struct executor *x)
{
    return model_gradient_layout(&x->iteration->job) == MODEL_GRADIENT_LIST ? TRACE_GRAD
                                                                            : TRACE_PARAM;
}

/* Returns where the operator finds or leaves the gradient, which of a frozen tensor is scratch, or
 * nowhere. An update on the host finds a gradient
 * that is a buffer in its staging place. */
static uint64_t gradient_address(const struct executor *x, moment_id moment, int i,
                                 const struct operation_tensor *tensor)
{
    const struct model_operator *op = &x->iteration->operators[moment];
    if (op->frozen[i])
        return buffer_address(x, op->gradient[i]);
    switch (model_gradient_layout(&x->iteration->job)) {
    case MODEL_GRADIENT_LIST:
    case MODEL_GRADIENT_OVER_PARAM:
        return x->iteration->operators[moment].gradient[i] != NO_INDEX
                   ? buffer_address(x, x->iteration->operators[moment].gradient[i])
                   : tensor->address[gradient_list(x)];
    case MODEL_GRADIENT_BUFFER:
        return x->iteration->trace->operators[moment].place == TRACE_ON_HOST
                   ? staging_address(x, moment)
                   : gradient_buffer(x, &x->iteration->operators[moment], i);
    }
    g_assert_not_reached();
}

/* An update ends the gathered copies of its tensor, and uses none. */
static bool is_operand(const struct trace_access *access)
{
    return access->list < TRACE_GATHERED ||
           (access->list == TRACE_GATHERED && access->mode == TRACE_READ);
}

/* Narrows the whole tensors that an update of a block finds to the block. The states are the
 * block's already. */
static void narrow(const struct executor *x, moment_id moment, struct operation_tensor *tensor)
{
    const struct trace *trace = x->iteration->trace;
    const struct model_operator *op = &x->iteration->operators[moment];
    tensor->elements = trace_block_elements(trace, TRACE_EXP_AVG, op->t[0], op->block);
    for (int list = TRACE_PARAM; list <= TRACE_GRAD; list++)
        if (tensor->address[list] != NO_ADDRESS)
            tensor->address[list] += first_of(x, op) * trace->list_element_bytes[list];
}

static double *norm_of(const struct executor *x, tensor_id tensor)
{
    return &x->norms[pipeline_tensor_in_whole(x->iteration, tensor)];
}

static void resolve_tensors(struct executor *x, moment_id moment, struct operation *operation)
{
    const struct trace *trace = x->iteration->trace;
    const struct trace_operator *at = &trace->operators[moment];
    const struct model_operator *op = operation->op;
    bool on_host = at->place == TRACE_ON_HOST;
    for (int i = 0; i < MODEL_TENSORS; i++) {
        struct operation_tensor *tensor = &operation->tensor[i];
        for (int list = 0; list < TRACE_LISTS; list++)
            tensor->address[list] = NO_ADDRESS;
        for (uint32_t a = 0; a < at->access_count; a++) {
            const struct trace_access *access = &trace->accesses[at->first_access + a];
            if (is_operand(access) && access->tensor == op->t[i])
                tensor->address[access->list] = tensor_address(x, access, on_host);
        }
        if (op->t[i] != NO_INDEX)
            tensor->elements = trace->tensors[op->t[i]].elements;
        if (op->kind == MODEL_UPDATE && i == 0 && trace_is_cut(trace, op->t[0]))
            narrow(x, moment, tensor);
        tensor->gradient = gradient_address(x, moment, i, tensor);
        if (op->t[i] == NO_INDEX)
            continue;
        tensor->norm = op->norms[i] ? norm_of(x, op->t[i]) : NULL;
    }
}

/* Every access of the operator is that of a tensor's whole gradient, in the bucket's order. */
static void resolve_bucket(struct executor *x, moment_id moment, struct operation *operation)
{
    const struct trace *trace = x->iteration->trace;
    const struct trace_access *accesses = trace->accesses + trace->operators[moment].first_access;
    uint32_t count = operation->op->bucket_count;
    if (!count)
        return;
    struct operation_tensor *bucket = g_new0(struct operation_tensor, count);
    for (uint32_t i = 0; i < count; i++) {
        bucket[i].gradient = tensor_address(x, &accesses[i], false);
        bucket[i].elements = trace->tensors[accesses[i].tensor].elements;
        bucket[i].norm = norm_of(x, accesses[i].tensor);
    }
    operation->bucket = bucket;
    g_ptr_array_add(x->resolved, bucket);
}

static void resolve_buffers(const struct executor *x, struct operation *operation)
{
    const struct model_operator *op = operation->op;
    for (int i = 0; i < MODEL_INPUTS; i++)
        operation->in[i] = buffer_address(x, op->in[i]);
    for (int i = 0; i < MODEL_OUTPUTS; i++)
        operation->out[i] = buffer_address(x, op->out[i]);
    for (int i = 0; i < MODEL_TENSORS; i++)
        operation->newest[i] = buffer_address(x, op->newest[i]);
    operation->workspace = buffer_address(x, op->workspace);
    operation->masked = buffer_address(x, op->masked);
}

/* On the host an embedding has one staged buffer, which is its output or the gradient of its
 * output. An update may have its gradient as a staged buffer: see gradient_address. */
static void stage_buffers(const struct executor *x, moment_id moment, struct operation *operation)
{
    for (int i = 0; i < MODEL_INPUTS; i++)
        operation->in[i] = NO_ADDRESS;
    for (int i = 0; i < MODEL_OUTPUTS; i++)
        operation->out[i] = NO_ADDRESS;
    for (int i = 0; i < MODEL_TENSORS; i++)
        operation->newest[i] = NO_ADDRESS;
    operation->workspace = operation->masked = NO_ADDRESS;
    if (operation->op->kind == MODEL_EMBED_FORWARD)
        operation->out[0] = staging_address(x, moment);
    else if (operation->op->kind == MODEL_EMBED_BACKWARD)
        operation->in[0] = staging_address(x, moment);
}

/* Returns the number of an operator's micro-batch among the rank's: those of the next step come
 * after this one's. An evaluation has one. */
static uint32_t number_of(const struct executor *x, const struct model_operator *op)
{
    if (!x->step.training)
        return 0;
    return x->step.filling != NO_INDEX ? x->step.filling : op->micro_batch;
}

static bool has_loss(const struct model_operator *op)
{
    return op->kind == MODEL_LOSS || op->kind == MODEL_BALANCE_LOSS;
}

static struct operation describe(struct executor *x, moment_id moment, bool on_host)
{
    const struct model_operator *op = &x->iteration->operators[moment];
    uint32_t number = number_of(x, op);
    struct operation operation = {
        .op = op,
        .moment = moment,
        .name = x->iteration->trace->operators[moment].name,
        .config = x->iteration->config,
        .job = &x->iteration->job,
        .tokens = x->step.tokens + 2 * rows(x) * number,
        .seed = x->step.seed,
        .pass = x->step.first_pass + executor_micro_batch(x, number),
        .training = x->step.training,
        .loss = has_loss(op) ? &x->losses[executor_micro_batch(x, number)] : NULL,
        .divisor = x->step.divisor,
        .adamw = x->adamw,
        .gradient_scale = x->step.clip > 0 ? x->gradient_scale : NULL,
    };
    resolve_tensors(x, moment, &operation);
    resolve_bucket(x, moment, &operation);
    if (on_host)
        stage_buffers(x, moment, &operation);
    else
        resolve_buffers(x, &operation);
    return operation;
}

/* ---- between operators ---- */

/* Sends the micro-batch's tokens to the device with the first operator that reads them: the
 * embedding or, in the last stage of a pipeline, the loss. */
static void send_tokens(struct executor *x, const struct model_operator *op,
                        const struct mover_after *after)
{
    struct device *device = device_of(x);
    uint32_t tokens = op->kind == MODEL_LOSS ? op->in[1] : op->in[0];
    device->ops->send(device, buffer_address(x, tokens), 2 * rows(x) * sizeof(uint32_t),
                      x->step.tokens + 2 * rows(x) * number_of(x, op), after);
}

/* Gives every rank the losses of all, and whether one of them wants to stop. Every forward pass has
 * ended. */
static void share_losses(struct executor *x)
{
    struct ranks *ranks = x->ranks;
    uint32_t each = model_rank_micro_batches(&x->iteration->job), block = each + 1;
    g_autofree double *blocks = g_new0(double, (size_t)ranks->count *block);
    double *own = blocks + (size_t)ranks->rank * block;
    executor_wait(x);
    own[each] = x->step.stop;
    for (uint32_t i = 0; i < each; i++)
        own[i] = x->losses[executor_micro_batch(x, i)];
    ranks_begin(ranks, ranks_issue(ranks));
    ranks_share(ranks, block * sizeof *blocks, blocks);
    ranks_end(ranks);
    x->stop = false;
    for (uint32_t r = 0; r < ranks->count; r++) {
        x->stop |= blocks[(size_t)r * block + each] != 0;
        for (uint32_t i = 0; i < each; i++)
            x->losses[r + i * ranks->count] = blocks[(size_t)r * block + i];
    }
}

/* What a stage shows the others, in doubles: losses, a wish to stop, squares of norms. */
struct stage_numbers {
    const struct model_iteration *whole;
    uint32_t losses, numbers; /* how many losses, and numbers in all */
};

static struct stage_numbers stage_numbers_of(const struct executor *x)
{
    const struct model_iteration *whole = pipeline_whole(x->iteration);
    return (struct stage_numbers){whole, whole->job.choices.micro_batches,
                                  pipeline_shared_numbers(whole)};
}

static void show_own(const struct executor *x, const struct stage_numbers *shown, double *own)
{
    const struct pipeline_cut *cut = x->iteration->cut;
    if (cut->stage + 1 == cut->stages)
        memcpy(own, x->losses, shown->losses * sizeof *own);
    own[shown->losses] = x->step.stop;
    for (tensor_id t = 0; t < shown->whole->trace->tensor_count; t++)
        if (cut->stage_of[t] == cut->stage)
            own[shown->losses + 1 + t] = x->norms[t];
}

/* Gives every stage the losses, the norms of all gradients, and whether one wants to stop. Every
 * backward pass has ended. */
static void share_among_stages(struct executor *x)
{
    const struct pipeline_cut *cut = x->iteration->cut;
    const struct stage_numbers shown = stage_numbers_of(x);
    g_autofree double *blocks = g_new0(double, (size_t)cut->stages *shown.numbers);
    executor_wait(x);
    show_own(x, &shown, blocks + (size_t)cut->stage * shown.numbers);
    ranks_begin(x->stages, ranks_issue(x->stages));
    ranks_share(x->stages, shown.numbers * sizeof *blocks, blocks);
    ranks_end(x->stages);
    memcpy(x->losses, blocks + (size_t)(cut->stages - 1) * shown.numbers,
           shown.losses * sizeof *blocks);
    x->stop = false;
    for (uint32_t s = 0; s < cut->stages; s++)
        x->stop |= blocks[(size_t)s * shown.numbers + shown.losses] != 0;
    for (tensor_id t = 0; t < shown.whole->trace->tensor_count; t++)
        x->norms[t] = blocks[(size_t)cut->stage_of[t] * shown.numbers + shown.losses + 1 + t];
}

/* Must be called before the first update. The device waits for the norm, so that later work can be
 * queued without waiting. */
static void begin_update(struct executor *x)
{
    struct device *device = device_of(x);
    if (x->ranks)
        share_losses(x);
    if (x->stages)
        share_among_stages(x);
    if (x->step.clip > 0)
        x->clipped = device->ops->clip(device, x->norms,
                                       pipeline_whole(x->iteration)->trace->tensor_count,
                                       x->step.clip, x->gradient_scale, &x->computed);
    x->adamw = adamw_step_of(&x->step.adamw, x->step.update);
    x->updating = true;
}

/* ---- running ---- */

/* Lets backward begin with a gradient that is not finite, if that fault strikes: the loss leaves
 * its gradient where the logits were. */
static void spoil_gradient(struct executor *x, const struct model_operator *op,
                           const struct mover_after *done)
{
    static const uint32_t nan = 0x7fc07fc0; /* also as two halves */
    struct device *device = device_of(x);
    if (op->kind == MODEL_LOSS && x->step.training && fault_strikes(FAULT_GRADIENT))
        device->ops->send(device, buffer_address(x, op->in[0]), sizeof nan, &nan, done);
}

/* A collector records the ranges of the calling thread. Unless it has the device's times, the
 * thread therefore waits for every operator. Waiting lets the device idle, and an idle device
 * computes at a higher clock than one that trains. */
static mover_ticket run_on_device(struct executor *x, uint32_t moment,
                                  const struct mover_after *after)
{
    struct device *device = device_of(x);
    struct operation operation = describe(x, moment, false);
    bool waits = annotate_waits(x->annotate);
    if (waits)
        device->ops->wait(device, after);
    annotate_operator_begin(x->annotate, moment);
    bool reduces = model_kind_reduces(operation.op->kind);
    enum mover_queue queue = reduces ? MOVER_NETWORK : MOVER_COMPUTE;
    struct mover_after done = {.queue = {0}};
    done.queue[queue] = (reduces ? device->ops->reduce : device->ops->compute)(device, &operation,
                                                                               after);
    if (waits)
        device->ops->wait(device, &done);
    annotate_operator_end(x->annotate);
    spoil_gradient(x, operation.op, &done);
    if (operation.op->kind != MODEL_UPDATE)
        x->computed.queue[queue] = done.queue[queue];
    if (!reduces)
        x->mover->computed = done.queue[queue];
    return done.queue[queue];
}

/* Brings the gradient of the embedding's output, or of an update's tensor, to the host before the
 * operator runs. */
static struct mover_after bring_down(struct executor *x, uint32_t moment,
                                     const struct mover_after *after, mover_ticket *received)
{
    const struct model_operator *op = &x->iteration->operators[moment];
    uint64_t bytes = x->iteration->trace->operators[moment].d2h_bytes;
    struct mover_after arrived = *after;
    if (bytes) {
        uint64_t from = op->kind == MODEL_UPDATE ? gradient_buffer(x, op, 0)
                                                 : buffer_address(x, op->in[0]);
        *received = chunk_mover_copy_activations(x->mover, MOVER_D2H, from,
                                                 staging_address(x, moment), bytes, after);
        arrived.queue[MOVER_D2H] = *received;
    }
    return arrived;
}

/* Sends the output to the device after the operator. The returned ticket covers the copy. */
static mover_ticket send_up(struct executor *x, moment_id moment, mover_ticket computed,
                            const struct mover_after *after)
{
    struct device *device = device_of(x);
    const struct model_operator *op = &x->iteration->operators[moment];
    uint64_t bytes = x->iteration->trace->operators[moment].h2d_bytes;
    struct mover_after ready = *after;
    if (!bytes)
        return computed;
    ready.queue[MOVER_HOST] = computed;
    struct mover_after sent = {.queue = {0}};
    sent.queue[MOVER_H2D] = chunk_mover_copy_activations(x->mover, MOVER_H2D,
                                                         buffer_address(x, op->out[0]),
                                                         staging_address(x, moment), bytes, &ready);
    return device->ops->join_on_host(device, &sent);
}

static mover_ticket run_on_host(struct executor *x, uint32_t moment,
                                const struct mover_after *after, mover_ticket *received)
{
    struct device *device = device_of(x);
    struct operation operation = describe(x, moment, true);
    const struct mover_after bound = chunk_mover_bind(x->mover, after);
    struct mover_after ready = bring_down(x, moment, &bound, received);
    if (operation.op->kind == MODEL_UPDATE)
        ready.queue[MOVER_COMPUTE] = MAX(ready.queue[MOVER_COMPUTE], x->clipped);
    bool waits = annotate_waits(x->annotate);
    if (waits) {
        device->ops->wait(device, &ready);
        annotate_operator_begin(x->annotate, moment);
    }
    struct mover_after done = {.queue = {0}};
    done.queue[MOVER_HOST] = device->ops->compute_on_host(device, &operation, &ready);
    if (waits) {
        device->ops->wait(device, &done);
        annotate_operator_end(x->annotate);
    }
    /* An update that ended behind its iteration would not be recorded as part of any. */
    if (operation.op->kind == MODEL_EMBED_BACKWARD || x->annotate)
        x->computed.queue[MOVER_HOST] = done.queue[MOVER_HOST];
    return send_up(x, moment, done.queue[MOVER_HOST], &ready);
}

/* Notes which weights a micro-batch reads, and checks that its forward and its backward read the
 * version that the rule says. */
static void note_version(struct executor *x, const struct model_operator *op)
{
    uint32_t number = number_of(x, op);
    bool next = number >= model_rank_micro_batches(&x->iteration->job);
    bool reads = op->kind < MODEL_REDUCE && x->step.training;
    for (int i = 0; reads && i < MODEL_TENSORS; i++) {
        if (op->t[i] == NO_INDEX)
            continue;
        uint64_t version = next ? tensor_use_newest(x->use, op->t[i])
                                : tensor_use_version(x->use, op->t[i]);
        if (op->kind <= MODEL_LOSS)
            x->versions[number] = version;
        if (version != x->versions[number] ||
            version != (next ? x->step.next_version : x->step.version))
            g_error("micro-batch %u reads version %" G_GUINT64_FORMAT
                    " of the weights in update %" G_GUINT64_FORMAT,
                    number, version, x->step.update);
    }
}

static bool begin(struct executor *x, moment_id moment, const struct mover_after *after)
{
    const struct model_operator *op = &x->iteration->operators[moment];
    char *why = NULL;
    activations_claim(x->activations, moment);
    if (!usage_start(x->mover->usage, moment, x->iteration->trace->operators[moment].name,
                     activations_extent(x->activations), activations_live_bytes(x->activations),
                     &x->error))
        return false;
    if (!tensor_use_begin(x->use, op, &why))
        g_error("moment %u (%s): %s", moment, x->iteration->trace->operators[moment].name, why);
    note_version(x, op);
    bool first_reads = !x->iteration->cut || x->iteration->cut->stage == 0;
    if (op->kind == (first_reads ? MODEL_EMBED_FORWARD : MODEL_LOSS))
        send_tokens(x, op, after);
    if (op->kind == MODEL_UPDATE && !x->updating)
        begin_update(x);
    return true;
}

static void end(struct executor *x, moment_id moment)
{
    const struct model_operator *op = &x->iteration->operators[moment];
    bool delay = x->iteration->job.delay;
    tensor_use_end(x->use, op);
    if (op->kind == MODEL_UPDATE && !op->more)
        tensor_use_set_version(x->use, op->t[0], x->step.update - delay, x->step.update);
    if (op->kind == MODEL_LOSS)
        tensor_use_end_forward(x->use);
    activations_release(x->activations, moment);
}

/* An evaluation takes one micro-batch through the stage's parts, and leaves out the others that a
 * step takes through the first of them in between. Filling a pipeline sends no tied weights: the
 * step that follows does. */
static bool is_left_out(const struct executor *x, moment_id moment)
{
    const struct model_operator *op = &x->iteration->operators[moment];
    bool in_parts = x->iteration->cut && x->iteration->cut->parts > 1;
    if (in_parts && !x->step.training)
        return op->micro_batch > 0;
    return x->step.filling != NO_INDEX && op->kind == MODEL_SEND && op->channel == PIPELINE_WEIGHT;
}

mover_ticket executor_run(void *executor, moment_id moment, const struct mover_after *after,
                          mover_ticket *received)
{
    struct executor *x = executor;
    if (x->error || is_left_out(x, moment) || !begin(x, moment, after))
        return 0;
    bool on_host = x->iteration->trace->operators[moment].place == TRACE_ON_HOST;
    mover_ticket ticket = on_host ? run_on_host(x, moment, after, received)
                                  : run_on_device(x, moment, after);
    end(x, moment);
    return ticket;
}

uint32_t executor_micro_batch(const struct executor *x, uint32_t of_rank)
{
    return x->ranks ? x->ranks->rank + of_rank * x->ranks->count : of_rank;
}

double executor_gradient_norm(const struct executor *x)
{
    double sum = 0;
    for (uint32_t t = 0; t < pipeline_whole(x->iteration)->trace->tensor_count; t++)
        sum += x->norms[t];
    return sqrt(sum);
}

void executor_wait(const struct executor *x)
{
    struct device *device = device_of(x);
    device->ops->wait(device, &x->computed);
}
