#include "models/iteration_builder.h"
#include "models/pipeline_cutting.h"
#include "traces/shard.h"

/* ---- messages ---- */

struct message {
    struct pipeline_pass pass;
    uint32_t peer;
    uint32_t channel; /* enum pipeline_channel */
    const char *what;
    uint32_t buffer;  /* here, that is sent or received; NO_INDEX */
    tensor_id tensor; /* here, whose parameter is sent; NO_INDEX */
    uint64_t bytes;
    bool held; /* a chunk holds the buffer */
};

static void append_message(struct cutting *cutting, enum model_kind kind,
                           const struct message *message)
{
    struct model_operator op = model_operator_of(kind, -1, message->pass.micro_batch);
    enum trace_phase phase = message->pass.backward ? TRACE_BACKWARD : TRACE_FORWARD;
    bool sends = kind == MODEL_SEND;
    struct trace_operator traced = {
        .name = g_strdup_printf("%s %s %s stage %u", sends ? "send" : "receive", message->what,
                                sends ? "to" : "from", message->peer),
        .phase = (uint8_t)phase,
        .place = TRACE_ON_DEVICE,
        .layer = -1,
        .micro_batch = message->pass.micro_batch,
        .first_access = cutting->accesses->len,
        .bytes = message->bytes,
    };
    traced.exchange[TRACE_PASS] = sends ? (struct trace_exchange){message->bytes, 0}
                                        : (struct trace_exchange){0, message->bytes};
    if (message->buffer != NO_INDEX)
        cutting_stretch(cutting, message->buffer, phase);
    if (message->held)
        cutting_add_access(cutting, message->buffer, TRACE_ACTIVATION,
                           sends ? TRACE_READ : TRACE_OVERWRITE);
    if (message->tensor != NO_INDEX)
        cutting_add_access(cutting, message->tensor,
                           model_shares_parameters(&cutting->whole->job) ? TRACE_GATHERED
                                                                         : TRACE_PARAM,
                           TRACE_READ);
    op.micro_batch = cutting_number_of(cutting, &message->pass);
    op.peer = message->peer;
    op.channel = message->channel;
    op.bytes = message->bytes;
    op.t[0] = message->tensor;
    *(sends ? &op.in[0] : &op.out[0]) = message->buffer;
    cutting_append_operator(cutting, &traced, &op);
}

/* Returns what crosses from a piece to the next one. The caller frees it with g_free. */
static char *name_crossing(const struct cutting *cutting, bool backward, uint32_t first)
{
    const char *what = backward ? "gradient" : "activation";
    return cutting->pieces == cutting->cut->stages
               ? g_strdup(what)
               : g_strdup_printf("%s between pieces %u and %u", what, first, first + 1);
}

void cutting_pass_on(struct cutting *cutting, enum model_kind kind,
                     const struct pipeline_pass *pass, uint32_t buffer, uint32_t to)
{
    const struct model_job *job = &cutting->whole->job;
    uint64_t element = job->precision == MODEL_BF16 ? 2 : 4;
    uint32_t from = pass->backward ? to + 1 : to - 1, stages = cutting->cut->stages;
    uint32_t first = MIN(from, to), channel = PIPELINE_STREAM;
    g_autofree char *what = name_crossing(cutting, pass->backward, first);
    if (cutting->pieces > stages)
        channel = PIPELINE_CROSSINGS + 2 * first + pass->backward;
    const struct message message = {
        .pass = *pass,
        .peer = (kind == MODEL_SEND ? to : from) % stages,
        .channel = channel,
        .what = what,
        .buffer = cutting_use_buffer(cutting, buffer,
                                     pass->backward ? TRACE_BACKWARD : TRACE_FORWARD),
        .tensor = NO_INDEX,
        .bytes = (uint64_t)job->choices.batch * job->sequence * cutting->whole->config->width *
                 element,
        .held = cutting->held && cutting->held[buffer]};
    append_message(cutting, kind, &message);
}

/* ---- tied weights ---- */

static bool is_last(const struct cutting *cutting)
{
    return cutting->cut->stage + 1 == cutting->cut->stages;
}

static uint64_t tied_elements(const struct cutting *cutting)
{
    return cutting->whole->trace->tensors[cutting->tied].elements;
}

/* Appends a buffer for something of a tensor of the whole. */
static uint32_t add_buffer_of(struct cutting *cutting, const char *prefix, tensor_id tensor,
                              uint64_t bytes)
{
    const struct trace_buffer buffer = {
        .name = g_strconcat(prefix, cutting->whole->trace->tensors[tensor].name, NULL),
        .bytes = (bytes + BUFFER_ALIGNMENT - 1) / BUFFER_ALIGNMENT * BUFFER_ALIGNMENT};
    return cutting_add_buffer(cutting, &buffer);
}

void cutting_pass_tied(struct cutting *cutting)
{
    const struct trace *whole = cutting->whole->trace;
    struct message message = {.channel = PIPELINE_WEIGHT,
                              .what = "tied weights",
                              .buffer = NO_INDEX,
                              .tensor = NO_INDEX,
                              .bytes = tied_elements(cutting) *
                                       whole->list_element_bytes[TRACE_PARAM]};
    if (cutting->cut->stage == 0) {
        message.peer = cutting->cut->stages - 1;
        message.tensor = cutting->cut->here[cutting->tied];
        append_message(cutting, MODEL_SEND, &message);
    } else if (is_last(cutting)) {
        message.buffer = cutting->copy = add_buffer_of(cutting, "copy of ", cutting->tied,
                                                       message.bytes);
        append_message(cutting, MODEL_RECEIVE, &message);
    }
}

static struct message gradient_message(const struct cutting *cutting, uint32_t micro_batch,
                                       uint32_t buffer)
{
    return (struct message){.pass = {.micro_batch = micro_batch, .backward = true},
                            .peer = is_last(cutting) ? 0 : cutting->cut->stages - 1,
                            .channel = PIPELINE_GRADIENT,
                            .what = "gradient of tied weights",
                            .buffer = buffer,
                            .tensor = NO_INDEX,
                            .bytes = tied_elements(cutting) * sizeof(float)};
}

void cutting_use_copy(struct cutting *cutting, enum trace_phase phase, struct model_operator *op)
{
    bool backward = op->kind == MODEL_CLASSIFIER_BACKWARD;
    cutting_stretch(cutting, cutting->copy, phase);
    op->in[backward ? 2 : 1] = cutting->copy;
    if (!backward || op->frozen[0])
        return;
    op->accumulate = false;
    if (op->gradient[0] == NO_INDEX)
        op->gradient[0] = add_buffer_of(cutting, "gradient of ", cutting->tied,
                                        tied_elements(cutting) * sizeof(float));
}

void cutting_send_tied_gradient(struct cutting *cutting, const struct model_operator *classifier)
{
    const struct message message = gradient_message(cutting, classifier->micro_batch,
                                                    classifier->gradient[0]);
    append_message(cutting, MODEL_SEND, &message);
}

void cutting_receive_tied_gradient(struct cutting *cutting, const struct model_operator *reduction)
{
    uint32_t buffer = cutting_use_buffer(cutting, reduction->in[0], TRACE_BACKWARD);
    const struct message message = gradient_message(cutting, reduction->micro_batch, buffer);
    append_message(cutting, MODEL_RECEIVE, &message);
}

void cutting_add_tied_gradient(struct cutting *cutting, uint32_t micro_batch)
{
    uint64_t elements = tied_elements(cutting), bytes = elements * sizeof(float);
    uint32_t buffer = add_buffer_of(cutting, "gradient of ", cutting->tied, bytes);
    const struct message message = gradient_message(cutting, micro_batch, buffer);
    append_message(cutting, MODEL_RECEIVE, &message);

    struct model_operator op = model_operator_of(MODEL_ADD, -1, micro_batch);
    struct trace_operator traced = {
        .name = g_strdup("add gradient of tied weights"),
        .phase = TRACE_BACKWARD,
        .place = TRACE_ON_DEVICE,
        .layer = -1,
        .micro_batch = micro_batch,
        .first_access = cutting->accesses->len,
        .flops = micro_batch > 0 ? elements : 0,
        .bytes = (micro_batch > 0 ? 3 : 2) * bytes,
    };
    cutting_stretch(cutting, buffer, TRACE_BACKWARD);
    op.accumulate = micro_batch > 0;
    op.t[0] = cutting->cut->here[cutting->tied];
    op.in[0] = buffer;
    cutting_add_access(cutting, op.t[0], TRACE_GRAD,
                       op.accumulate ? TRACE_UPDATE : TRACE_OVERWRITE);
    cutting_append_operator(cutting, &traced, &op);
}

/* ---- the newest parameters ---- */

bool cutting_has_newest(const struct cutting *cutting)
{
    const struct model_job *job = &cutting->whole->job;
    return cutting->cut->ahead > 0 && (job->precision == MODEL_BF16 || model_ranks(job) > 1);
}

/* Appends the operator that makes a tensor's newest parameter from the master, or from the masters
 * that the ranks share. */
static void append_newest(struct cutting *cutting, const struct pipeline_pass *pass,
                          tensor_id tensor, int32_t layer)
{
    const struct model_iteration *whole = cutting->whole;
    tensor_id in_whole = cutting->cut->in_whole[tensor];
    const struct trace_tensor *of_whole = &whole->trace->tensors[in_whole];
    uint64_t bytes = of_whole->elements * whole->trace->list_element_bytes[TRACE_PARAM];
    struct shard own = shard_of(of_whole->elements, model_ranks(&whole->job), 0);
    struct model_operator op = model_operator_of(MODEL_NEWEST, layer, pass->micro_batch);
    struct trace_operator traced = {
        .name = g_strdup_printf("newest %s", of_whole->name),
        .phase = TRACE_FORWARD,
        .place = TRACE_ON_DEVICE,
        .layer = layer,
        .micro_batch = pass->micro_batch,
        .first_access = cutting->accesses->len,
        .bytes = own.count * whole->trace->list_element_bytes[TRACE_MASTER] + bytes,
    };
    op.micro_batch = cutting_number_of(cutting, pass);
    op.t[0] = tensor;
    op.out[0] = cutting->newest[tensor] = add_buffer_of(cutting, "newest ", in_whole, bytes);
    cutting_add_access(cutting, tensor, TRACE_MASTER, TRACE_READ);
    cutting_append_operator(cutting, &traced, &op);
}

/* Returns whether a tensor of the stage is trained. */
static bool changes(const struct cutting *cutting, tensor_id tensor)
{
    return tensor != NO_INDEX && !cutting->whole->choices->frozen[cutting->cut->in_whole[tensor]];
}

void cutting_use_newest(struct cutting *cutting, const struct pipeline_pass *pass,
                        struct model_operator *op)
{
    for (int i = 0; i < MODEL_TENSORS; i++)
        if (changes(cutting, op->t[i]) && cutting->newest[op->t[i]] == NO_INDEX)
            append_newest(cutting, pass, op->t[i], op->layer);
    for (int i = 0; i < MODEL_TENSORS; i++)
        if (changes(cutting, op->t[i]))
            cutting_stretch(cutting, op->newest[i] = cutting->newest[op->t[i]], TRACE_FORWARD);
}

void cutting_begin_newest(struct cutting *cutting)
{
    bool shares = model_shares_parameters(&cutting->whole->job);
    for (tensor_id t = 0; shares && t < cutting->whole->trace->tensor_count; t++)
        cutting->newest[t] = NO_INDEX;
}

void cutting_end_newest(struct cutting *cutting, struct model_operator *update)
{
    uint32_t buffer = cutting->newest[update->t[0]];
    if (buffer == NO_INDEX || model_shares_parameters(&cutting->whole->job))
        return;
    update->newest[0] = buffer;
    cutting_stretch(cutting, buffer, TRACE_UPDATE_PHASE);
}
