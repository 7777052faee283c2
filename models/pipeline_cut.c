#include "models/pipeline_cutting.h"
#include "models/rank_traffic.h"

#include <string.h>

/* ---- tensors ---- */

/* Returns the pieces of all layers. The caller frees them with g_free. */
static uint32_t *pieces_of_layers(const struct pipeline_shape *shape, uint32_t layers)
{
    uint32_t *piece_of = g_new(uint32_t, layers);
    for (uint32_t p = 0; p < shape->stages * shape->parts; p++)
        for (uint32_t l = pipeline_first_layer(shape, layers, p),
                      end = pipeline_first_layer(shape, layers, p + 1);
             l < end; l++)
            piece_of[l] = p;
    return piece_of;
}

/* Returns the piece of an operator of forward or backward. */
static uint32_t piece_of(const uint32_t *of_layer, uint32_t pieces, const struct model_operator *op)
{
    if (op->layer >= 0)
        return of_layer[op->layer];
    return op->embeds ? 0 : pieces - 1;
}

static uint32_t count_layers(const struct pipeline_shape *shape, uint32_t layers, uint32_t stage)
{
    uint32_t count = 0;
    for (uint32_t p = stage; p < shape->stages * shape->parts; p += shape->stages)
        count += pipeline_first_layer(shape, layers, p + 1) -
                 pipeline_first_layer(shape, layers, p);
    return count;
}

/* Returns whether the operator is in the stage of its tensors: forward is, and all of a layer are.
 * An expert without rows has no forward. */
static bool is_at_home(const struct model_iteration *whole, uint32_t moment)
{
    return moment < whole->forward_end || whole->operators[moment].layer >= 0;
}

/* A tensor is in the first stage whose operators use it: tied weights are the embedding's. */
static struct pipeline_cut *cut_tensors(const struct model_iteration *whole,
                                        const struct pipeline_shape *shape,
                                        const uint32_t *of_layer, uint32_t stage)
{
    uint32_t count = whole->trace->tensor_count, own = 0;
    uint32_t layers = whole->config->layers, pieces = shape->stages * shape->parts;
    struct pipeline_cut *cut = g_new0(struct pipeline_cut, 1);
    *cut = (struct pipeline_cut){.whole = whole,
                                 .stages = shape->stages,
                                 .stage = stage,
                                 .parts = shape->parts,
                                 .first_layer = pipeline_first_layer(shape, layers, stage),
                                 .layer_count = count_layers(shape, layers, stage),
                                 .stage_of = g_new0(uint32_t, count),
                                 .here = g_new(uint32_t, count),
                                 .in_whole = g_new(uint32_t, count)};
    for (uint32_t m = whole->trace->operator_count; m-- > 0;)
        for (int i = 0; i < MODEL_TENSORS; i++)
            if (whole->operators[m].t[i] != NO_INDEX && is_at_home(whole, m))
                cut->stage_of[whole->operators[m].t[i]] =
                    piece_of(of_layer, pieces, &whole->operators[m]) % shape->stages;
    for (tensor_id t = 0; t < count; t++) {
        bool is_own = cut->stage_of[t] == stage;
        cut->here[t] = is_own ? own : NO_INDEX;
        if (is_own)
            cut->in_whole[own++] = t;
    }
    return cut;
}

/* ---- cutting ---- */

static void find_passes(struct cutting *cutting)
{
    const struct model_iteration *whole = cutting->whole;
    uint32_t micro_batches = model_rank_micro_batches(&whole->job);
    cutting->forward = g_new0(struct range, micro_batches);
    cutting->backward = g_new0(struct range, micro_batches);
    cutting->weights = g_new0(struct range, micro_batches);
    for (uint32_t m = 0; m < whole->trace->operator_count; m++) {
        const struct trace_operator *op = &whole->trace->operators[m];
        if (op->phase == TRACE_UPDATE_PHASE)
            continue;
        struct range *pass = op->phase == TRACE_FORWARD ? &cutting->forward[op->micro_batch]
                                                        : &cutting->backward[op->micro_batch];
        if (whole->operators[m].kind == MODEL_WEIGHT_BACKWARD ||
            cutting->weights[op->micro_batch].end)
            pass = &cutting->weights[op->micro_batch];
        if (!pass->end)
            pass->first = m;
        pass->end = m + 1;
    }
}

static struct range pass_range(const struct cutting *cutting, const struct pipeline_pass *pass)
{
    if (pass->weights)
        return cutting->weights[pass->micro_batch];
    return pass->backward ? cutting->backward[pass->micro_batch]
                          : cutting->forward[pass->micro_batch];
}

static uint32_t piece_at(const struct cutting *cutting, uint32_t moment)
{
    return piece_of(cutting->of_layer, cutting->pieces, &cutting->whole->operators[moment]);
}

/* Returns the buffer that the pass takes into a piece: made in this pass before the piece, and used
 * in it. The micro-batch's tokens are the first and the last stage's own. */
static uint32_t passed_buffer(const struct cutting *cutting, const struct pipeline_pass *pass,
                              uint32_t piece)
{
    const struct model_iteration *whole = cutting->whole;
    struct range range = pass_range(cutting, pass);
    uint32_t tokens = whole->operators[cutting->forward[pass->micro_batch].first].in[0];
    uint32_t begin = range.first;
    while (piece_at(cutting, begin) != piece)
        begin++;
    for (uint32_t m = begin; m < range.end && piece_at(cutting, m) == piece; m++) {
        const struct model_operator *op = &whole->operators[m];
        for (size_t i = 0; op->kind != MODEL_REDUCE && i < MODEL_INPUTS + MODEL_OUTPUTS; i++) {
            uint32_t used = i < MODEL_INPUTS ? op->in[i] : op->out[i - MODEL_INPUTS];
            if (used != NO_INDEX && used != tokens &&
                whole->trace->buffers[used].first >= range.first &&
                whole->trace->buffers[used].first < begin)
                return used;
        }
    }
    g_assert_not_reached();
}

uint32_t cutting_add_buffer(struct cutting *cutting, const struct trace_buffer *buffer)
{
    struct trace_buffer added = *buffer;
    added.first = added.last = cutting->traced->len;
    added.saved = false;
    g_array_append_val(cutting->buffers, added);
    return cutting->buffers->len - 1;
}

void cutting_stretch(struct cutting *cutting, uint32_t here, enum trace_phase phase)
{
    struct trace_buffer *buffer = &g_array_index(cutting->buffers, struct trace_buffer, here);
    moment_id moment = cutting->traced->len;
    if (buffer->first < moment) {
        const struct trace_operator *maker = &g_array_index(cutting->traced, struct trace_operator,
                                                            buffer->first);
        buffer->saved = maker->phase == TRACE_FORWARD && phase == TRACE_BACKWARD;
    }
    buffer->last = moment;
}

/* Returns where the index here of the whole's buffer is. Micro-batches of one slot have it in
 * common. */
static uint32_t *place_here(const struct cutting *cutting, uint32_t buffer)
{
    const struct pipeline_cut *cut = cutting->cut;
    uint32_t kept = cut->slots ? cutting->kept[buffer % cutting->each] : 0;
    if (!kept)
        return &cutting->buffer_here[buffer];
    uint32_t slot = pipeline_slot(cut, buffer / cutting->each);
    return &cut->kept_here[(size_t)slot * cut->kept + kept - 1];
}

uint32_t cutting_use_buffer(struct cutting *cutting, uint32_t buffer, enum trace_phase phase)
{
    if (buffer == NO_INDEX)
        return NO_INDEX;
    uint32_t *here = place_here(cutting, buffer);
    if (*here == NO_INDEX) {
        struct trace_buffer copy = cutting->whole->trace->buffers[buffer];
        copy.name = g_strdup(copy.name);
        *here = cutting_add_buffer(cutting, &copy);
    }
    cutting_stretch(cutting, *here, phase);
    return *here;
}

static void use_buffers(struct cutting *cutting, uint32_t *buffers, size_t count,
                        enum trace_phase phase)
{
    for (size_t i = 0; i < count; i++)
        buffers[i] = cutting_use_buffer(cutting, buffers[i], phase);
}

/* Leaves out accesses to a tensor that another stage has. The next step's micro-batches read the
 * weights that parameters become in this step's update: now the masters, or buffers. Frozen ones
 * become nothing else. */
static void copy_accesses(struct cutting *cutting, const struct trace_operator *op, bool next)
{
    bool in_buffers = next && cutting_has_newest(cutting);
    for (uint32_t a = 0; a < op->access_count; a++) {
        struct trace_access access = cutting->whole->trace->accesses[op->first_access + a];
        bool newest = next && (access.list == TRACE_PARAM || access.list == TRACE_GATHERED) &&
                      !cutting->whole->choices->frozen[access.tensor];
        access.tensor = access.list == TRACE_ACTIVATION ? cutting->buffer_here[access.tensor]
                                                        : cutting->cut->here[access.tensor];
        if (newest)
            access.list = TRACE_MASTER;
        if (access.tensor != NO_INDEX && !(in_buffers && access.list == TRACE_MASTER))
            g_array_append_val(cutting->accesses, access);
    }
}

void cutting_add_access(struct cutting *cutting, uint32_t tensor, enum trace_list list,
                        enum trace_mode mode)
{
    struct trace_access access = {tensor, (uint8_t)list, (uint8_t)mode, 0};
    g_array_append_val(cutting->accesses, access);
}

void cutting_append_operator(struct cutting *cutting, struct trace_operator *traced,
                             const struct model_operator *op)
{
    traced->access_count = cutting->accesses->len - traced->first_access;
    g_array_append_vals(cutting->traced, traced, 1);
    g_array_append_vals(cutting->operators, op, 1);
}

uint32_t cutting_number_of(const struct cutting *cutting, const struct pipeline_pass *pass)
{
    return pass->micro_batch + (pass->next ? model_rank_micro_batches(&cutting->whole->job) : 0);
}

/* ---- operators ---- */

static bool has_ranks(const struct cutting *cutting)
{
    return model_ranks(&cutting->whole->job) > 1;
}

/* Lets an operator name the buffers of this stage's last reduction, which may be under way until
 * the operator begins. A forward pass waits for it. Call it when the operator comes next. */
static void name_reduced(struct cutting *cutting, struct model_operator *op)
{
    for (size_t i = 0; i < G_N_ELEMENTS(cutting->reduced); i++) {
        op->in[1 + i] = cutting->reduced[i];
        if (cutting->reduced[i] != NO_INDEX)
            cutting_stretch(cutting, cutting->reduced[i], TRACE_BACKWARD);
    }
}

static void forget_reduced(uint32_t reduced[MODEL_TENSORS + 1])
{
    for (int i = 0; i <= MODEL_TENSORS; i++)
        reduced[i] = NO_INDEX;
}

static void follow_reduction(struct cutting *cutting, struct model_operator *reduction)
{
    uint32_t of_classifier = reduction->in[0];
    name_reduced(cutting, reduction);
    for (int i = 0; i < MODEL_TENSORS; i++)
        cutting->reduced[i] = reduction->gradient[i];
    cutting->reduced[MODEL_TENSORS] = of_classifier;
}

static bool trains_tied(const struct cutting *cutting)
{
    return cutting->tied != NO_INDEX && !cutting->whole->choices->frozen[cutting->tied];
}

/* Appends the whole's operator of a moment. `pass` is NULL for an update. */
static void copy_operator(struct cutting *cutting, uint32_t moment,
                          const struct pipeline_pass *pass)
{
    const struct trace_operator *of_whole = &cutting->whole->trace->operators[moment];
    struct model_operator op = cutting->whole->operators[moment];
    struct trace_operator traced = *of_whole;
    bool borrows = op.t[0] != NO_INDEX && cutting->cut->here[op.t[0]] == NO_INDEX;
    bool reduces = op.kind == MODEL_REDUCE;
    if (op.kind == MODEL_EMBED_BACKWARD && trains_tied(cutting) && !has_ranks(cutting))
        cutting_add_tied_gradient(cutting, op.micro_batch);
    if (reduces && op.in[0] != NO_INDEX)
        cutting_receive_tied_gradient(cutting, &op);
    if (reduces)
        forget_reduced(op.in + 1);
    for (int i = 0; i < MODEL_TENSORS; i++)
        if (op.t[i] != NO_INDEX)
            op.t[i] = cutting->cut->here[op.t[i]];
    if (pass && pass->next && cutting_has_newest(cutting))
        cutting_use_newest(cutting, pass, &op);
    if (op.kind == MODEL_UPDATE && traced.place == TRACE_ON_DEVICE && has_ranks(cutting))
        cutting_end_newest(cutting, &op);
    use_buffers(cutting, op.in, G_N_ELEMENTS(op.in), traced.phase);
    use_buffers(cutting, op.out, G_N_ELEMENTS(op.out), traced.phase);
    use_buffers(cutting, op.gradient, G_N_ELEMENTS(op.gradient), traced.phase);
    use_buffers(cutting, &op.workspace, 1, traced.phase);
    use_buffers(cutting, &op.masked, 1, traced.phase);
    if (borrows)
        cutting_use_copy(cutting, traced.phase, &op);
    if (reduces)
        follow_reduction(cutting, &op);
    traced.name = g_strdup(traced.name);
    traced.first_access = cutting->accesses->len;
    copy_accesses(cutting, of_whole, pass && pass->next);
    if (pass)
        op.micro_batch = cutting_number_of(cutting, pass);
    cutting_append_operator(cutting, &traced, &op);
    if (op.kind == MODEL_CLASSIFIER_BACKWARD && borrows && trains_tied(cutting))
        cutting_send_tied_gradient(cutting, &op);
}

/* ---- passes ---- */

/* Appends the operator that receives what the pass takes into the piece. The gradient of the
 * residual stream is one buffer for the whole backward: each part of a stage has a copy of its own,
 * which does not live while other stages pass the micro-batch on. */
static void receive_passed(struct cutting *cutting, const struct pipeline_pass *pass,
                           uint32_t piece)
{
    uint32_t buffer = passed_buffer(cutting, pass, piece);
    if (pass->backward && cutting->cut->parts > 1)
        cutting->buffer_here[buffer] = NO_INDEX;
    cutting_pass_on(cutting, MODEL_RECEIVE, pass, buffer, piece);
}

static struct model_operator *last_operator(const struct cutting *cutting)
{
    return &g_array_index(cutting->operators, struct model_operator, cutting->operators->len - 1);
}

/* Frozen tensors have no reductions, so operators may have followed the last one. They must not get
 * its buffers, which the message therefore names. */
static void send_on(struct cutting *cutting, const struct pipeline_pass *pass, uint32_t buffer,
                    uint32_t after)
{
    struct model_operator names = *last_operator(cutting);
    bool follows = names.kind != MODEL_REDUCE;
    if (follows)
        name_reduced(cutting, &names);
    cutting_pass_on(cutting, MODEL_SEND, pass, buffer, after);
    for (size_t i = 0; follows && i < G_N_ELEMENTS(cutting->reduced); i++)
        last_operator(cutting)->in[1 + i] = names.in[1 + i];
}

static void append_pass(struct cutting *cutting, const struct pipeline_pass *pass)
{
    uint32_t piece = pass->part * cutting->cut->stages + cutting->cut->stage;
    uint32_t last = cutting->pieces - 1;
    bool begins = piece == (pass->backward ? last : 0) || pass->weights;
    bool ends = piece == (pass->backward ? 0 : last) || pass->weights;
    uint32_t after = pass->backward ? piece - 1 : piece + 1;
    struct range range = pass_range(cutting, pass);
    if (!pass->backward)
        forget_reduced(cutting->reduced);
    if (pass->next)
        cutting_begin_newest(cutting);
    if (!begins)
        receive_passed(cutting, pass, piece);
    for (uint32_t m = range.first; m < range.end; m++)
        if (piece_at(cutting, m) == piece)
            copy_operator(cutting, m, pass);
    if (!ends)
        send_on(cutting, pass, passed_buffer(cutting, pass, after), after);
}

static void append_updates(struct cutting *cutting)
{
    const struct model_iteration *whole = cutting->whole;
    for (uint32_t m = 0; m < whole->trace->operator_count; m++) {
        const struct model_operator *op = &whole->operators[m];
        if (op->kind == MODEL_UPDATE && cutting->cut->here[op->t[0]] != NO_INDEX)
            copy_operator(cutting, m, NULL);
    }
}

static void append_tensors(struct cutting *cutting)
{
    const struct trace *whole = cutting->whole->trace;
    for (tensor_id t = 0; t < whole->tensor_count; t++) {
        struct trace_tensor tensor = {.name = g_strdup(whole->tensors[t].name),
                                      .elements = whole->tensors[t].elements,
                                      .absent = whole->tensors[t].absent};
        if (cutting->cut->here[t] != NO_INDEX)
            g_array_append_val(cutting->tensors, tensor);
        else
            g_free(tensor.name);
    }
}

/* ---- what is kept until backward ---- */

/* Notes which of the first micro-batch's buffers the stage uses in a phase. */
static void mark_used(const struct cutting *cutting, struct range range, uint8_t phase,
                      uint8_t *used)
{
    for (uint32_t m = range.first; m < range.end; m++) {
        const struct model_operator *op = &cutting->whole->operators[m];
        if (piece_at(cutting, m) % cutting->cut->stages != cutting->cut->stage)
            continue;
        for (int i = 0; i < MODEL_INPUTS; i++)
            if (op->in[i] != NO_INDEX)
                used[op->in[i]] |= phase;
        for (int i = 0; i < MODEL_OUTPUTS; i++)
            if (op->out[i] != NO_INDEX)
                used[op->out[i]] |= phase;
    }
}

/* Finds the buffers that forward leaves for backward. The whole has each micro-batch's buffers
 * behind the other's, in the same order. */
static void find_kept(struct cutting *cutting, uint32_t ahead)
{
    enum { IN_FORWARD = 1, IN_BACKWARD = 2 };
    struct pipeline_cut *cut = cutting->cut;
    uint32_t micro_batches = model_rank_micro_batches(&cutting->whole->job);
    cut->ahead = ahead;
    if (!ahead)
        return;
    cutting->each = cutting->whole->trace->buffer_count / micro_batches;
    g_assert(cutting->each * micro_batches == cutting->whole->trace->buffer_count);
    cutting->kept = g_new0(uint32_t, cutting->each);
    g_autofree uint8_t *used = g_new0(uint8_t, cutting->each);
    mark_used(cutting, cutting->forward[0], IN_FORWARD, used);
    mark_used(cutting, cutting->backward[0], IN_BACKWARD, used);
    for (uint32_t b = 0; b < cutting->each; b++)
        if (used[b] == (IN_FORWARD | IN_BACKWARD))
            cutting->kept[b] = ++cut->kept;
    for (uint32_t m = 0; m < micro_batches; m++)
        cut->slots = MAX(cut->slots, pipeline_slot(cut, m) + 1);
    cut->kept_here = g_new(uint32_t, (size_t)cut->slots * cut->kept);
    for (uint32_t i = 0; i < cut->slots * cut->kept; i++)
        cut->kept_here[i] = NO_INDEX;
}

/* From one step to the next there is always a micro-batch in every slot, or soon. */
static void keep_always(const struct cutting *cutting)
{
    const struct pipeline_cut *cut = cutting->cut;
    for (uint32_t i = 0; i < cut->slots * cut->kept; i++) {
        struct trace_buffer *buffer = &g_array_index(cutting->buffers, struct trace_buffer,
                                                     cut->kept_here[i]);
        buffer->first = 0;
        buffer->last = cutting->traced->len - 1;
        buffer->saved = true;
    }
}

/* ---- the stage's iteration ---- */

static struct run_choices *choices_here(const struct cutting *cutting)
{
    struct run_choices *choices = run_choices_copy(cutting->whole->choices);
    choices->tensor_count = cutting->tensors->len;
    choices->first_update = 0; /* stages update in the order of the model */
    for (uint32_t t = 0; t < choices->tensor_count; t++)
        choices->host_update[t] = choices->host_update[cutting->cut->in_whole[t]];
    for (uint32_t t = 0; t < choices->tensor_count; t++)
        choices->frozen[t] = choices->frozen[cutting->cut->in_whole[t]];
    return choices;
}

static gpointer take(GArray *array, uint32_t *count)
{
    *count = array->len;
    return g_array_free(array, FALSE);
}

static struct trace *trace_here(const struct cutting *cutting)
{
    const struct trace *whole = cutting->whole->trace;
    struct trace *trace = g_new0(struct trace, 1);
    trace->model = g_strdup(whole->model);
    trace->precision = g_strdup(whole->precision);
    trace->batch = whole->batch;
    trace->sequence = whole->sequence;
    trace->micro_batches = whole->micro_batches;
    trace->ranks = whole->ranks;
    trace->shared_parameters = whole->shared_parameters;
    trace->stages = cutting->cut->stages;
    trace->stage = cutting->cut->stage;
    memcpy(trace->list_element_bytes, whole->list_element_bytes, sizeof trace->list_element_bytes);
    trace->tensors = take(cutting->tensors, &trace->tensor_count);
    trace->operators = take(cutting->traced, &trace->operator_count);
    trace->accesses = take(cutting->accesses, &trace->access_count);
    trace->buffers = take(cutting->buffers, &trace->buffer_count);
    for (tensor_id t = 0; t < trace->tensor_count; t++)
        if (trace_blocks_of(trace->tensors[t].elements, whole->state_block) > 1)
            trace->state_block = whole->state_block;
    trace_sum_buffers(trace);
    return trace;
}

/* Returns the tensor of the classifier. */
static tensor_id classifier_of(const struct model_iteration *whole)
{
    uint32_t m = 0;
    while (whole->operators[m].kind != MODEL_CLASSIFIER_FORWARD)
        m++;
    return whole->operators[m].t[0];
}

static struct cutting begin_cutting(const struct model_iteration *whole,
                                    const struct pipeline_shape *shape, uint32_t stage)
{
    uint32_t buffers = whole->trace->buffer_count;
    uint32_t *of_layer = pieces_of_layers(shape, whole->config->layers);
    struct cutting cutting = {
        .whole = whole,
        .pieces = shape->stages * shape->parts,
        .of_layer = of_layer,
        .cut = cut_tensors(whole, shape, of_layer, stage),
        .buffer_here = g_new(uint32_t, buffers),
        .held = trace_held_buffers(whole->trace),
        .tied = whole->config->tied ? classifier_of(whole) : NO_INDEX,
        .copy = NO_INDEX,
        .reduced = {NO_INDEX, NO_INDEX, NO_INDEX, NO_INDEX},
        .newest = g_new(uint32_t, whole->trace->tensor_count),
        .tensors = g_array_new(FALSE, FALSE, sizeof(struct trace_tensor)),
        .buffers = g_array_new(FALSE, FALSE, sizeof(struct trace_buffer)),
        .accesses = g_array_new(FALSE, FALSE, sizeof(struct trace_access)),
        .traced = g_array_new(FALSE, FALSE, sizeof(struct trace_operator)),
        .operators = g_array_new(FALSE, FALSE, sizeof(struct model_operator)),
    };
    for (uint32_t b = 0; b < buffers; b++)
        cutting.buffer_here[b] = NO_INDEX;
    for (tensor_id t = 0; t < whole->trace->tensor_count; t++)
        cutting.newest[t] = NO_INDEX;
    find_passes(&cutting);
    return cutting;
}

/* Frees what the iteration has not taken. */
static void end_cutting(struct cutting *cutting)
{
    g_free(cutting->of_layer);
    g_free(cutting->forward);
    g_free(cutting->backward);
    g_free(cutting->weights);
    g_free(cutting->buffer_here);
    g_free(cutting->held);
    g_free(cutting->kept);
    g_free(cutting->newest);
}

struct model_iteration *pipeline_stage(const struct model_iteration *whole,
                                       const struct pipeline_shape *shape, uint32_t stage)
{
    struct cutting cutting = begin_cutting(whole, shape, stage);
    uint32_t micro_batches = model_rank_micro_batches(&whole->job), count;
    g_autofree struct pipeline_pass *passes = pipeline_stage_passes(shape, stage, micro_batches,
                                                                    &count);
    struct model_iteration *iteration = g_new0(struct model_iteration, 1);
    find_kept(&cutting, pipeline_ahead(shape->schedule, shape->stages, stage));
    append_tensors(&cutting);
    if (cutting.tied != NO_INDEX)
        cutting_pass_tied(&cutting);
    for (uint32_t i = 0; i < count; i++) {
        append_pass(&cutting, &passes[i]);
        if (!iteration->forward_end && passes[i].part + 1 == shape->parts)
            iteration->forward_end = cutting.traced->len;
    }
    append_updates(&cutting);
    keep_always(&cutting);
    iteration->config = whole->config;
    iteration->choices = choices_here(&cutting);
    iteration->job = whole->job;
    iteration->job.choices = *iteration->choices;
    iteration->cut = cutting.cut;
    iteration->operators = (struct model_operator *)(void *)g_array_free(cutting.operators, FALSE);
    iteration->trace = trace_here(&cutting);
    rank_traffic_set(iteration, 0);
    end_cutting(&cutting);
    return iteration;
}
