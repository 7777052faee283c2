#include "models/pipeline.h"

#include "models/iteration_builder.h"

#include <string.h>

/* ---- schedules ---- */

static const char *const names[PIPELINE_SCHEDULES] = {"1f1b", "gpipe"};

const char *pipeline_schedule_name(enum pipeline_schedule schedule)
{
    return names[schedule];
}

bool pipeline_schedule_parse(const char *name, enum pipeline_schedule *schedule)
{
    for (int i = 0; i < PIPELINE_SCHEDULES; i++)
        if (strcmp(names[i], name) == 0) {
            *schedule = (enum pipeline_schedule)i;
            return true;
        }
    return false;
}

struct pipeline_pass *pipeline_passes(enum pipeline_schedule schedule, uint32_t stages,
                                      uint32_t stage, uint32_t micro_batches)
{
    struct pipeline_pass *passes = g_new(struct pipeline_pass, 2 * (size_t)micro_batches);
    uint32_t ahead = schedule == PIPELINE_GPIPE ? micro_batches
                                                : MIN(stages - stage, micro_batches);
    uint32_t forward = 0, backward = 0;
    for (uint32_t i = 0; i < 2 * micro_batches; i++) {
        bool goes_forward = forward < micro_batches && forward - backward < ahead;
        passes[i] = goes_forward ? (struct pipeline_pass){forward++, false}
                                 : (struct pipeline_pass){backward++, true};
    }
    return passes;
}

uint32_t pipeline_first_layer(uint32_t layers, uint32_t stages, uint32_t stage)
{
    return (uint32_t)((uint64_t)stage * layers / stages);
}

/* ---- what can be cut ---- */

static bool refuse(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);

static bool refuse(GError **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *why = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error_literal(error, MODEL_ERROR, MODEL_ERROR_CONFIG, why);
    return false;
}

bool pipeline_check(const struct model_config *config, const struct model_job *job, uint32_t stages,
                    GError **error)
{
    if (stages > config->layers)
        return refuse(error, "%u stages: the model has only %u layers", stages, config->layers);
    if (job->choices.micro_batches < stages)
        return refuse(error, "%u stages: a step needs as many micro-batches at least, and has %u",
                      stages, job->choices.micro_batches);
    if (config->tied)
        return refuse(error,
                      "stages: the model's classifier is its word embedding, which the first "
                      "and the last stage would share; that is not built yet");
    if (model_gradient_layout(job) != MODEL_GRADIENT_LIST || run_updates_early(&job->choices))
        return refuse(error, "stages: updates must come at the end of the step");
    return true;
}

/* ---- the whole ---- */

uint32_t pipeline_shared_numbers(const struct model_iteration *whole)
{
    return whole->job.choices.micro_batches + 1 + whole->trace->tensor_count;
}

const struct model_iteration *pipeline_whole(const struct model_iteration *iteration)
{
    return iteration->cut ? iteration->cut->whole : iteration;
}

tensor_id pipeline_tensor_in_whole(const struct model_iteration *iteration, tensor_id tensor)
{
    return iteration->cut ? iteration->cut->in_whole[tensor] : tensor;
}

void pipeline_cut_free(struct pipeline_cut *cut)
{
    if (!cut)
        return;
    g_free(cut->stage_of);
    g_free(cut->here);
    g_free(cut->in_whole);
    g_free(cut);
}

static uint32_t stage_of_layer(uint32_t layers, uint32_t stages, uint32_t layer)
{
    uint32_t stage = 0;
    while (layer >= pipeline_first_layer(layers, stages, stage + 1))
        stage++;
    return stage;
}

/* Returns the stage of an operator of forward or backward. */
static uint32_t stage_of(const struct model_iteration *whole, uint32_t stages,
                         const struct model_operator *op)
{
    if (op->layer >= 0)
        return stage_of_layer(whole->config->layers, stages, (uint32_t)op->layer);
    bool embeds = op->kind == MODEL_EMBED_FORWARD || op->kind == MODEL_EMBED_BACKWARD;
    return embeds ? 0 : stages - 1;
}

static struct pipeline_cut *cut_tensors(const struct model_iteration *whole, uint32_t stages,
                                        uint32_t stage)
{
    uint32_t count = whole->trace->tensor_count, own = 0;
    struct pipeline_cut *cut = g_new0(struct pipeline_cut, 1);
    *cut = (struct pipeline_cut){.whole = whole,
                                 .stages = stages,
                                 .stage = stage,
                                 .stage_of = g_new0(uint32_t, count),
                                 .here = g_new(uint32_t, count),
                                 .in_whole = g_new(uint32_t, count)};
    for (uint32_t m = 0; m < whole->forward_end; m++)
        for (int i = 0; i < 2; i++)
            if (whole->operators[m].t[i] != NO_INDEX)
                cut->stage_of[whole->operators[m].t[i]] = stage_of(whole, stages,
                                                                   &whole->operators[m]);
    for (tensor_id t = 0; t < count; t++) {
        bool is_own = cut->stage_of[t] == stage;
        cut->here[t] = is_own ? own : NO_INDEX;
        if (is_own)
            cut->in_whole[own++] = t;
    }
    return cut;
}

/* ---- cutting ---- */

/* The moments of a pass in the whole iteration. */
struct range {
    uint32_t first, end;
};

struct cutting {
    const struct model_iteration *whole;
    struct pipeline_cut *cut;
    struct range *forward, *backward; /* [micro_batches] */
    uint32_t *buffer_here;            /* [the whole's buffer_count]; NO_INDEX */
    uint8_t *held;                    /* [the whole's buffer_count] a chunk holds it; may be NULL */
    GArray *tensors, *buffers, *accesses, *traced, *operators; /* of the stage */
};

static struct range *new_ranges(uint32_t count)
{
    return g_new0(struct range, count);
}

static void find_passes(struct cutting *cutting)
{
    const struct model_iteration *whole = cutting->whole;
    uint32_t micro_batches = whole->job.choices.micro_batches;
    cutting->forward = new_ranges(micro_batches);
    cutting->backward = new_ranges(micro_batches);
    for (uint32_t m = 0; m < whole->trace->operator_count; m++) {
        const struct trace_operator *op = &whole->trace->operators[m];
        if (op->phase == TRACE_UPDATE_PHASE)
            continue;
        struct range *passes = op->phase == TRACE_FORWARD ? cutting->forward : cutting->backward;
        struct range *pass = &passes[op->micro_batch];
        if (!pass->end)
            pass->first = m;
        pass->end = m + 1;
    }
}

static struct range pass_range(const struct cutting *cutting, const struct pipeline_pass *pass)
{
    return pass->backward ? cutting->backward[pass->micro_batch]
                          : cutting->forward[pass->micro_batch];
}

static uint32_t stage_at(const struct cutting *cutting, uint32_t moment)
{
    return stage_of(cutting->whole, cutting->cut->stages, &cutting->whole->operators[moment]);
}

/* Returns the buffer that the pass takes into a stage: made in this pass before the stage, and used
 * in it. The micro-batch's tokens are the first and the last stage's own. */
static uint32_t passed_buffer(const struct cutting *cutting, const struct pipeline_pass *pass,
                              uint32_t stage)
{
    const struct model_iteration *whole = cutting->whole;
    struct range range = pass_range(cutting, pass);
    uint32_t tokens = whole->operators[cutting->forward[pass->micro_batch].first].in[0];
    uint32_t begin = range.first;
    while (stage_at(cutting, begin) != stage)
        begin++;
    for (uint32_t m = begin; m < range.end && stage_at(cutting, m) == stage; m++) {
        const struct model_operator *op = &whole->operators[m];
        for (size_t i = 0; i < MODEL_INPUTS + MODEL_OUTPUTS; i++) {
            uint32_t used = i < MODEL_INPUTS ? op->in[i] : op->out[i - MODEL_INPUTS];
            if (used != NO_INDEX && used != tokens &&
                whole->trace->buffers[used].first >= range.first &&
                whole->trace->buffers[used].first < begin)
                return used;
        }
    }
    g_assert_not_reached();
}

/* Stretches the life of the whole's buffer in this stage to the operator that is about to be
 * appended, and returns its index here. */
static uint32_t use_buffer(struct cutting *cutting, uint32_t buffer, enum trace_phase phase)
{
    if (buffer == NO_INDEX)
        return NO_INDEX;
    moment_id moment = cutting->traced->len;
    uint32_t *here = &cutting->buffer_here[buffer];
    if (*here == NO_INDEX) {
        struct trace_buffer copy = cutting->whole->trace->buffers[buffer];
        copy.name = g_strdup(copy.name);
        copy.first = moment;
        copy.saved = false;
        *here = cutting->buffers->len;
        g_array_append_val(cutting->buffers, copy);
    }
    struct trace_buffer *own = &g_array_index(cutting->buffers, struct trace_buffer, *here);
    if (own->first < moment) {
        const struct trace_operator *maker = &g_array_index(cutting->traced, struct trace_operator,
                                                            own->first);
        own->saved = maker->phase == TRACE_FORWARD && phase == TRACE_BACKWARD;
    }
    own->last = moment;
    return *here;
}

static void use_buffers(struct cutting *cutting, uint32_t *buffers, size_t count,
                        enum trace_phase phase)
{
    for (size_t i = 0; i < count; i++)
        buffers[i] = use_buffer(cutting, buffers[i], phase);
}

static void copy_accesses(struct cutting *cutting, const struct trace_operator *op)
{
    for (uint32_t a = 0; a < op->access_count; a++) {
        struct trace_access access = cutting->whole->trace->accesses[op->first_access + a];
        access.tensor = access.list == TRACE_ACTIVATION ? cutting->buffer_here[access.tensor]
                                                        : cutting->cut->here[access.tensor];
        g_array_append_val(cutting->accesses, access);
    }
}

/* Appends the whole's operator of a moment. */
static void copy_operator(struct cutting *cutting, uint32_t moment)
{
    const struct trace_operator *of_whole = &cutting->whole->trace->operators[moment];
    struct model_operator op = cutting->whole->operators[moment];
    struct trace_operator traced = *of_whole;
    for (int i = 0; i < 2; i++)
        if (op.t[i] != NO_INDEX)
            op.t[i] = cutting->cut->here[op.t[i]];
    use_buffers(cutting, op.in, G_N_ELEMENTS(op.in), traced.phase);
    use_buffers(cutting, op.out, G_N_ELEMENTS(op.out), traced.phase);
    use_buffers(cutting, op.gradient, G_N_ELEMENTS(op.gradient), traced.phase);
    use_buffers(cutting, &op.workspace, 1, traced.phase);
    use_buffers(cutting, &op.masked, 1, traced.phase);
    traced.name = g_strdup(traced.name);
    traced.first_access = cutting->accesses->len;
    copy_accesses(cutting, of_whole);
    g_array_append_val(cutting->traced, traced);
    g_array_append_val(cutting->operators, op);
}

/* Appends the operator that sends the whole's buffer to a stage, or receives it. */
static void pass_on(struct cutting *cutting, enum model_kind kind, const struct pipeline_pass *pass,
                    uint32_t buffer, uint32_t peer)
{
    const struct model_job *job = &cutting->whole->job;
    struct model_operator op = model_operator_of(kind, -1, pass->micro_batch);
    enum trace_phase phase = pass->backward ? TRACE_BACKWARD : TRACE_FORWARD;
    bool sends = kind == MODEL_SEND;
    uint32_t width = cutting->whole->config->width;
    uint64_t bytes = (uint64_t)job->choices.batch * job->sequence * width *
                     (job->precision == MODEL_BF16 ? 2 : 4);
    uint32_t here = use_buffer(cutting, buffer, phase);
    struct trace_operator traced = {
        .name = g_strdup_printf("%s %s %s stage %u", sends ? "send" : "receive",
                                pass->backward ? "gradient" : "activation", sends ? "to" : "from",
                                peer),
        .phase = (uint8_t)phase,
        .place = TRACE_ON_DEVICE,
        .layer = -1,
        .micro_batch = pass->micro_batch,
        .first_access = cutting->accesses->len,
        .bytes = bytes,
    };
    traced.exchange[TRACE_PASS] = sends ? (struct trace_exchange){bytes, 0}
                                        : (struct trace_exchange){0, bytes};
    if (cutting->held && cutting->held[buffer]) {
        struct trace_access access = {here, TRACE_ACTIVATION, sends ? TRACE_READ : TRACE_OVERWRITE,
                                      0};
        g_array_append_val(cutting->accesses, access);
        traced.access_count = 1;
    }
    op.peer = peer;
    op.inputs = width;
    *(sends ? &op.in[0] : &op.out[0]) = here;
    g_array_append_val(cutting->traced, traced);
    g_array_append_val(cutting->operators, op);
}

static void append_pass(struct cutting *cutting, const struct pipeline_pass *pass)
{
    uint32_t stage = cutting->cut->stage, stages = cutting->cut->stages;
    bool first = pass->backward ? stage + 1 == stages : stage == 0;
    bool last = pass->backward ? stage == 0 : stage + 1 == stages;
    uint32_t before = pass->backward ? stage + 1 : stage - 1;
    uint32_t after = pass->backward ? stage - 1 : stage + 1;
    struct range range = pass_range(cutting, pass);
    if (!first)
        pass_on(cutting, MODEL_RECEIVE, pass, passed_buffer(cutting, pass, stage), before);
    for (uint32_t m = range.first; m < range.end; m++)
        if (stage_at(cutting, m) == stage)
            copy_operator(cutting, m);
    if (!last)
        pass_on(cutting, MODEL_SEND, pass, passed_buffer(cutting, pass, after), after);
}

static void append_updates(struct cutting *cutting)
{
    const struct model_iteration *whole = cutting->whole;
    bool first = true;
    uint64_t shared = pipeline_shared_numbers(whole) * sizeof(double);
    for (uint32_t m = 0; m < whole->trace->operator_count; m++) {
        const struct model_operator *op = &whole->operators[m];
        if (op->kind != MODEL_UPDATE || cutting->cut->here[op->t[0]] == NO_INDEX)
            continue;
        copy_operator(cutting, m);
        struct trace_operator *copied = &g_array_index(cutting->traced, struct trace_operator,
                                                       cutting->traced->len - 1);
        uint64_t others = (cutting->cut->stages - 1) * shared;
        if (first)
            copied->exchange[TRACE_GATHER] = (struct trace_exchange){others, others};
        first = false;
    }
}

static void append_tensors(struct cutting *cutting)
{
    const struct trace *whole = cutting->whole->trace;
    for (tensor_id t = 0; t < whole->tensor_count; t++) {
        struct trace_tensor tensor = {g_strdup(whole->tensors[t].name), whole->tensors[t].elements};
        if (cutting->cut->here[t] != NO_INDEX)
            g_array_append_val(cutting->tensors, tensor);
        else
            g_free(tensor.name);
    }
}

/* ---- the stage's iteration ---- */

static struct run_choices *choices_here(const struct cutting *cutting)
{
    struct run_choices *choices = run_choices_copy(cutting->whole->choices);
    choices->tensor_count = cutting->tensors->len;
    for (uint32_t t = 0; t < choices->tensor_count; t++)
        choices->host_update[t] = choices->host_update[cutting->cut->in_whole[t]];
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

static struct cutting begin_cutting(const struct model_iteration *whole, uint32_t stages,
                                    uint32_t stage)
{
    uint32_t buffers = whole->trace->buffer_count;
    struct cutting cutting = {
        .whole = whole,
        .cut = cut_tensors(whole, stages, stage),
        .buffer_here = g_new(uint32_t, buffers),
        .held = trace_held_buffers(whole->trace),
        .tensors = g_array_new(FALSE, FALSE, sizeof(struct trace_tensor)),
        .buffers = g_array_new(FALSE, FALSE, sizeof(struct trace_buffer)),
        .accesses = g_array_new(FALSE, FALSE, sizeof(struct trace_access)),
        .traced = g_array_new(FALSE, FALSE, sizeof(struct trace_operator)),
        .operators = g_array_new(FALSE, FALSE, sizeof(struct model_operator)),
    };
    for (uint32_t b = 0; b < buffers; b++)
        cutting.buffer_here[b] = NO_INDEX;
    find_passes(&cutting);
    return cutting;
}

/* Frees what the iteration has not taken. */
static void end_cutting(struct cutting *cutting)
{
    g_free(cutting->forward);
    g_free(cutting->backward);
    g_free(cutting->buffer_here);
    g_free(cutting->held);
}

struct model_iteration *pipeline_stage(const struct model_iteration *whole, uint32_t stages,
                                       uint32_t stage, enum pipeline_schedule schedule)
{
    struct cutting cutting = begin_cutting(whole, stages, stage);
    uint32_t micro_batches = whole->job.choices.micro_batches;
    g_autofree struct pipeline_pass *passes = pipeline_passes(schedule, stages, stage,
                                                              micro_batches);
    struct model_iteration *iteration = g_new0(struct model_iteration, 1);
    append_tensors(&cutting);
    for (uint32_t i = 0; i < 2 * micro_batches; i++) {
        append_pass(&cutting, &passes[i]);
        if (i == 0)
            iteration->forward_end = cutting.traced->len;
    }
    append_updates(&cutting);
    iteration->config = whole->config;
    iteration->choices = choices_here(&cutting);
    iteration->job = whole->job;
    iteration->job.choices = *iteration->choices;
    iteration->cut = cutting.cut;
    iteration->operators = (struct model_operator *)(void *)g_array_free(cutting.operators, FALSE);
    iteration->trace = trace_here(&cutting);
    end_cutting(&cutting);
    return iteration;
}
