#include "engine/engine.h"

#include "engine/bf16.h"
#include "engine/chunk_mover.h"
#include "engine/executor.h"
#include "engine/nvme_chunks.h"
#include "engine/rotary.h"
#include "engine/shards.h"
#include "models/pipeline.h"

#include <math.h>
#include <time.h>

struct engine {
    struct device *device;
    struct accesses *accesses;
    struct usage *usage;
    struct chunk_mover mover;
    struct residency *residency;
    struct executor executor;
    struct plan_figures outside; /* loading, evaluation, saving */
    bool started, stepped;
};

/* Turns `count` elements of the precision, at the start of `values`, into fp32 in place. */
static void widen(enum model_precision precision, uint64_t count, float *values)
{
    const uint16_t *halves = (const uint16_t *)values;
    /* Starts at the end, so that each element is read before it is overwritten. */
    for (uint64_t i = count; precision == MODEL_BF16 && i-- > 0;) {
        uint16_t half;
        memcpy(&half, halves + i, sizeof half);
        values[i] = bf16_widen(half);
    }
}

struct engine *engine_open(const struct engine_options *options, GError **error)
{
    const struct plan *plan = options->plan;
    const struct trace *trace = options->iteration->trace;
    g_autoptr(GArray) cuts = pool_cuts(plan);
    const struct device_options device = {
        .ranks = options->ranks,
        .stages = options->stages,
        .arena_bytes = plan->arena_bytes,
        .host_pool_bytes = plan->host_pool_bytes,
        .host_cuts = (const uint64_t *)(const void *)cuts->data,
        .host_cut_count = cuts->len,
        .h2d_rate = options->h2d_rate,
        .d2h_rate = options->d2h_rate,
        .threads = options->threads,
        .storage = {options->nvme, plan->nvme_bytes, options->nvme_block_bytes,
                    options->nvme_depth},
        .table_bytes = rotary_bytes(options->iteration->config, options->iteration->job.sequence),
        .annotate = options->annotate};
    struct device *opened = options->device->open(&device, error);
    if (!opened)
        return NULL;

    struct engine *engine = g_new0(struct engine, 1);
    engine->device = opened;
    engine->accesses = accesses_new(trace, plan->layout, options->places->extent);
    engine->usage = usage_new(plan->layout->chunk_count, plan->arena_bytes);
    engine->mover = (struct chunk_mover){.device = opened,
                                         .usage = engine->usage,
                                         .figures = &engine->outside,
                                         .ranks = options->ranks,
                                         .trace = trace,
                                         .annotate = options->annotate,
                                         .run = executor_run,
                                         .executor = &engine->executor};
    engine->mover.nvme = nvme_chunks_new(plan, &engine->mover);
    engine->residency = residency_new(plan, engine->accesses, trace, &chunk_mover_ops,
                                      &engine->mover);
    engine->executor = (struct executor){
        .ranks = options->ranks,
        .stages = options->stages,
        .iteration = options->iteration,
        .plan = plan,
        .staging = staging_of(trace),
        .residency = engine->residency,
        .mover = &engine->mover,
        .activations = activations_new(options->iteration, options->places, plan->arena_bytes),
        .use = tensor_use_new(trace->tensor_count),
        .versions = g_new0(uint64_t, model_rank_micro_batches(&options->iteration->job) +
                                         pipeline_ahead_of(options->iteration)),
        .annotate = options->annotate,
        .resolved = g_ptr_array_new_with_free_func(g_free),
        .norms = opened->ops->scalars(opened,
                                      pipeline_whole(options->iteration)->trace->tensor_count),
        .gradient_scale = opened->ops->scalars(opened, 1),
        .losses = opened->ops->scalars(opened, options->iteration->job.choices.micro_batches),
    };
    return engine;
}

bool engine_join(struct engine *engine, GError **error)
{
    const struct device_ops *ops = engine->device->ops;
    return !engine->executor.ranks || !ops->join || ops->join(engine->device, error);
}

void engine_close(struct engine *engine)
{
    if (!engine)
        return;
    engine->device->ops->close(engine->device);
    residency_free(engine->residency);
    usage_free(engine->usage);
    nvme_chunks_free(engine->mover.nvme);
    activations_free(engine->executor.activations);
    staging_clear(&engine->executor.staging);
    tensor_use_free(engine->executor.use);
    g_free(engine->executor.versions);
    g_ptr_array_unref(engine->executor.resolved);
    g_clear_error(&engine->executor.error);
    accesses_free(engine->accesses);
    g_free(engine);
}

/* Device-homed chunks were written directly to their addresses on the device. */
void engine_start(struct engine *engine)
{
    const struct plan *plan = engine->executor.plan;
    nvme_chunks_begin(engine->mover.nvme);
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++)
        if (plan_is_homed(plan, c))
            usage_occupy(engine->usage, c, plan->initial_address[c],
                         plan->layout->chunks[c].slot_bytes);
    residency_load(engine->residency);
    engine->device->ops->drain(engine->device);
    engine->started = true;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool take_error(struct engine *engine, GError **error)
{
    if (!engine->executor.error)
        return engine->device->ops->check(engine->device, error);
    g_propagate_error(error, g_steal_pointer(&engine->executor.error));
    return false;
}

static bool run_moments(struct engine *engine, uint32_t end, GError **error)
{
    for (moment_id moment = 0; moment < end && !engine->executor.error; moment++)
        residency_step(engine->residency, moment);
    executor_wait(&engine->executor);
    return take_error(engine, error);
}

/* Returns which version of the weights a step reads: the newest, or with a delay the one before.
 * The first step has only one. */
static uint64_t version_of(const struct engine *engine, uint64_t step)
{
    bool delay = engine->executor.iteration->job.delay;
    return step > 0 && delay ? step - 1 : step;
}

static void begin_step(struct engine *engine, const struct engine_step *step)
{
    const struct model_iteration *iteration = engine->executor.iteration;
    uint32_t micro_batches = iteration->job.choices.micro_batches;
    engine->executor.step = (struct executor_step){
        .tokens = step->tokens,
        .seed = step->seed,
        .first_pass = (uint32_t)(step->step * micro_batches),
        .training = true,
        .stop = step->stop,
        .adamw = {.learning_rate = step->learning_rate,
                  .beta1 = step->beta1,
                  .beta2 = step->beta2,
                  .epsilon = step->epsilon,
                  .weight_decay = step->weight_decay,
                  .gradient_scale = 1},
        .update = step->step + 1,
        .version = version_of(engine, step->step),
        .next_version = version_of(engine, step->step + 1),
        .filling = NO_INDEX,
        .divisor = (double)MAX(step->targets, 1),
        .clip = step->clip,
    };
    engine->executor.updating = false;
    g_ptr_array_set_size(engine->executor.resolved, 0);
    uint32_t own = model_rank_micro_batches(&iteration->job);
    for (uint32_t i = 0; engine->stepped && i < pipeline_ahead_of(iteration); i++)
        engine->executor.versions[i] = engine->executor.versions[own + i];
    for (tensor_id t = 0; t < iteration->trace->tensor_count; t++)
        if (!engine->stepped || iteration->choices->frozen[t]) /* these have every version */
            tensor_use_set_version(engine->executor.use, t, engine->executor.step.version,
                                   step->step);
    usage_reset_peaks(engine->usage);
}

static double mean_loss(const struct engine *engine)
{
    uint32_t micro_batches = engine->executor.iteration->job.choices.micro_batches;
    double sum = 0;
    for (uint32_t m = 0; m < micro_batches; m++)
        sum += engine->executor.losses[m];
    return sum / engine->executor.step.divisor;
}

/* Returns those with whom this process trains, ranks or stages; NULL if it trains alone. */
static struct ranks *peers_of(const struct engine *engine)
{
    const struct executor *x = &engine->executor;
    return x->stages ? ranks_all(x->stages) : x->ranks;
}

/* Before the first update. */
static bool knows_norm(const struct model_job *job)
{
    bool in_buffers = model_gradient_layout(job) == MODEL_GRADIENT_BUFFER;
    return in_buffers ? job->choices.second_backward : !run_updates_early(&job->choices);
}

static void rewind_iteration(struct engine *engine)
{
    activations_reset(engine->executor.activations);
    residency_rewind(engine->residency);
}

/* Runs the forward passes of the step that a pipeline that never drains would have run before:
 * those behind which the step's first one comes. That one's operators run again and again, each
 * time for another micro-batch, with its kept buffers. */
static bool fill_pipeline(struct engine *engine, GError **error)
{
    struct executor *x = &engine->executor;
    uint32_t ahead = pipeline_ahead_of(x->iteration);
    bool ok = true;
    for (uint32_t i = 0; ok && i < ahead; i++) {
        x->step.filling = i;
        residency_flush(engine->residency);
        ok = run_moments(engine, x->iteration->forward_end, error);
        rewind_iteration(engine);
    }
    x->step.filling = NO_INDEX;
    usage_reset_peaks(engine->usage);
    return ok;
}

bool engine_step(struct engine *engine, const struct engine_step *step,
                 struct engine_result *result, GError **error)
{
    const struct device_ops *ops = engine->device->ops;
    double start = seconds_now(), stalled = ops->stall_seconds(engine->device);
    g_assert(engine->started);
    g_assert(step->clip <= 0 || knows_norm(&engine->executor.iteration->job));
    nvme_chunks_let_go(engine->mover.nvme);
    *result = (struct engine_result){0};
    begin_step(engine, step);
    if (!engine->stepped && !fill_pipeline(engine, error))
        return false;
    engine->stepped = true;
    struct ranks *ranks = peers_of(engine);
    if (ranks) /* an evaluation that ended may still gather what this step begins with */
        ops->drain(engine->device);
    uint64_t sent = ranks ? ranks->sent_bytes : 0, received = ranks ? ranks->received_bytes : 0;
    engine->mover.figures = &result->figures;
    annotate_iteration_begin(engine->executor.annotate, step->step);
    bool done = run_moments(engine, engine->executor.iteration->trace->operator_count, error);
    if (ranks) { /* what the step exchanges is counted in it */
        ops->drain(engine->device);
        result->figures.sent_bytes = ranks->sent_bytes - sent;
        result->figures.received_bytes = ranks->received_bytes - received;
        result->stop = engine->executor.stop;
    }
    annotate_iteration_end(engine->executor.annotate);
    engine->mover.figures = &engine->outside;

    struct usage_peaks peaks = usage_peaks(engine->usage);
    result->loss = mean_loss(engine);
    result->gradient_norm = executor_gradient_norm(&engine->executor);
    result->version = engine->executor.versions[0];
    result->figures.peak_device_bytes = peaks.bytes;
    result->figures.peak_live_device_bytes = peaks.live_bytes;
    result->figures.peak_host_bytes = engine->executor.plan->host_pool_bytes;
    result->figures.peak_nvme_bytes = engine->executor.plan->nvme_bytes;
    result->figures.stall_seconds = ops->stall_seconds(engine->device) - stalled;
    result->figures.iteration_seconds = seconds_now() - start;
    return done;
}

char *engine_divergence(const struct engine *engine)
{
    const struct executor *x = &engine->executor;
    return divergence_describe(pipeline_whole(x->iteration), x->losses, x->norms);
}

/* Runs a forward pass of the first micro-batch, and keeps its activations. */
static bool forward(struct engine *engine, const uint32_t *tokens, uint64_t targets, GError **error)
{
    g_assert(engine->started);
    nvme_chunks_let_go(engine->mover.nvme);
    residency_flush(engine->residency);
    engine->executor.step = (struct executor_step){.tokens = tokens,
                                                   .training = false,
                                                   .filling = NO_INDEX,
                                                   .divisor = (double)MAX(targets, 1)};
    return run_moments(engine, engine->executor.iteration->forward_end, error);
}

/* With several stages, gives all of them what the last has. */
static void take_from_last(struct engine *engine, uint64_t bytes, void *values)
{
    struct ranks *stages = engine->executor.stages;
    if (!stages)
        return;
    g_autofree struct ranks_part *parts = g_new0(struct ranks_part, stages->count);
    parts[stages->count - 1].bytes = bytes;
    ranks_begin(stages, ranks_issue(stages));
    ranks_gather(stages, parts, values);
    ranks_end(stages);
}

static bool has_classifier(const struct engine *engine)
{
    const struct pipeline_cut *cut = engine->executor.iteration->cut;
    return !cut || cut->stage + 1 == cut->stages;
}

bool engine_forward(struct engine *engine, const uint32_t *tokens, uint64_t targets, double *loss,
                    GError **error)
{
    if (!forward(engine, tokens, targets, error))
        return false;
    *loss = engine->executor.losses[executor_micro_batch(&engine->executor, 0)];
    take_from_last(engine, sizeof *loss, loss);
    rewind_iteration(engine);
    return true;
}

static void read_logits(struct engine *engine, uint32_t row, float *logits)
{
    const struct model_iteration *iteration = engine->executor.iteration;
    const struct model_operator *loss = &iteration->operators[iteration->forward_end - 1];
    if (loss->kind == MODEL_BALANCE_LOSS)
        loss--;
    uint64_t element = iteration->job.precision == MODEL_BF16 ? 2 : 4;
    uint32_t V = iteration->config->vocabulary;
    uint64_t address = activations_address(engine->executor.activations, loss->in[0]);
    g_assert(loss->kind == MODEL_LOSS);
    engine->device->ops->read(engine->device, DEVICE_ARENA,
                              address + (uint64_t)row * model_logits_row(V) * element, V * element,
                              logits);
    widen(iteration->job.precision, V, logits);
}

bool engine_logits(struct engine *engine, const uint32_t *tokens, uint32_t first_row, uint32_t rows,
                   float *logits, GError **error)
{
    uint64_t V = engine->executor.iteration->config->vocabulary;
    if (!forward(engine, tokens, 0, error))
        return false;
    for (uint32_t r = 0; r < rows && has_classifier(engine); r++)
        read_logits(engine, first_row + r, logits + r * V);
    take_from_last(engine, rows * V * sizeof *logits, logits);
    rewind_iteration(engine);
    return true;
}

void engine_flush(struct engine *engine)
{
    engine->device->ops->drain(engine->device);
    residency_flush(engine->residency);
    engine->device->ops->drain(engine->device);
}

struct device *engine_device(const struct engine *engine)
{
    return engine->device;
}

struct plan_figures engine_outside(const struct engine *engine)
{
    return engine->outside;
}

bool engine_counts_agree(const struct engine *engine)
{
    return chunk_mover_agrees(&engine->mover);
}

/* ---- what lies in chunks, to and from outside ---- */

struct place {
    enum device_memory memory;
    uint64_t address;
};

/* Before the start everything lies at home; afterwards flushed host-homed chunks do. Those at home
 * in NVMe come to the host pool. Lowers *count to the elements that lie there, if the rest is in
 * other blocks. */
static struct place locate(const struct engine *engine, tensor_id tensor, enum trace_list list,
                           uint64_t first, bool writes, uint64_t *count)
{
    const struct plan *plan = engine->executor.plan;
    const struct trace *trace = engine->executor.iteration->trace;
    uint32_t block = 0;
    if (trace_blocks(trace, list, tensor) > 1) {
        block = (uint32_t)(first / trace->state_block);
        first %= trace->state_block;
        *count = MIN(*count, trace->state_block - first);
    }
    const struct layout_place *at =
        &plan->layout->places[list][layout_place_index(plan->layout, list, tensor, block)];
    uint64_t offset = at->offset + first * trace->list_element_bytes[list];
    if (plan_in_nvme(plan, at->chunk)) {
        uint64_t address = nvme_chunks_hold(engine->mover.nvme, at->chunk, writes);
        return (struct place){DEVICE_HOST_POOL, address + offset};
    }
    if (plan->host_address[at->chunk] != NO_ADDRESS)
        return (struct place){DEVICE_HOST_POOL, plan->host_address[at->chunk] + offset};
    return (struct place){DEVICE_ARENA, residency_address(engine->residency, at->chunk) + offset};
}

/* Whether this rank has only its shard of the list's tensors. */
static bool is_shared(const struct engine *engine, enum trace_list list)
{
    return engine->executor.ranks && !trace_list_is_whole(engine->executor.iteration->trace, list);
}

/* Returns where an element lies in this rank's part of the list. */
static uint64_t index_of(const struct engine *engine, tensor_id tensor, enum trace_list list,
                         uint64_t element)
{
    const struct trace *trace = engine->executor.iteration->trace;
    if (!is_shared(engine, list))
        return element;
    return element -
           shard_of(trace->tensors[tensor].elements, trace->ranks, engine->executor.ranks->rank)
               .first;
}

static void read_here(struct engine *engine, tensor_id tensor, enum trace_list list, uint64_t first,
                      uint64_t count, void *to)
{
    uint64_t element = engine->executor.iteration->trace->list_element_bytes[list];
    uint64_t index = index_of(engine, tensor, list, first);
    for (uint64_t done = 0, part; done < count; done += part) {
        part = count - done;
        struct place place = locate(engine, tensor, list, index + done, false, &part);
        engine->device->ops->read(engine->device, place.memory, place.address, part * element,
                                  (uint8_t *)to + done * element);
    }
}

/* Returns the index in this stage of a tensor of the whole model; NO_INDEX if it is another's. */
static tensor_id here(const struct engine *engine, tensor_id tensor)
{
    const struct pipeline_cut *cut = engine->executor.iteration->cut;
    return cut ? cut->here[tensor] : tensor;
}

static void read_own(void *self, const struct shard_request *request, void *to)
{
    read_here(self, here(self, request->tensor), (enum trace_list)request->list, request->first,
              request->count, to);
}

/* The ranks of a stage hold their shards of its tensors; of a list that they do not share, the
 * first is asked. */
static struct shard_request part_of(void *self, const struct shard_request *request, uint32_t rank)
{
    const struct engine *engine = self;
    const struct model_iteration *iteration = engine->executor.iteration;
    uint32_t width = model_ranks(&iteration->job), of_stage = rank % width;
    struct shard_request part = *request;
    bool elsewhere = iteration->cut && iteration->cut->stage_of[request->tensor] != rank / width;
    bool shared = is_shared(engine, (enum trace_list)request->list);
    if (elsewhere || (!shared && of_stage > 0))
        part.count = 0;
    else if (shared)
        part = shard_request_of(pipeline_whole(iteration)->trace, request, of_stage);
    return part;
}

static struct shard_store common_store(struct engine *engine)
{
    return (struct shard_store){
        .ranks = peers_of(engine),
        .element_bytes = engine->executor.iteration->trace->list_element_bytes,
        .part_of = part_of,
        .read_own = read_own,
        .self = engine};
}

static void read_at(struct engine *engine, tensor_id tensor, enum trace_list list, uint64_t first,
                    uint64_t count, void *to)
{
    const struct shard_request request = {tensor, list, first, count};
    const struct shard_store store = common_store(engine);
    if (engine->executor.stages || is_shared(engine, list))
        shard_store_read(&store, &request, to);
    else
        read_here(engine, tensor, list, first, count, to);
}

/* Writes what this rank has of the elements. */
static void write_at(struct engine *engine, tensor_id tensor, enum trace_list list, uint64_t first,
                     uint64_t count, const void *from)
{
    const struct trace *trace = engine->executor.iteration->trace;
    uint64_t element = trace->list_element_bytes[list];
    struct shard_request own = {tensor, list, first, count};
    if (is_shared(engine, list))
        own = shard_request_of(trace, &own, engine->executor.ranks->rank);
    if (!own.count)
        return;
    uint64_t index = index_of(engine, tensor, list, own.first);
    const uint8_t *values = (const uint8_t *)from + (own.first - first) * element;
    for (uint64_t done = 0, part; done < own.count; done += part) {
        part = own.count - done;
        struct place place = locate(engine, tensor, list, index + done, true, &part);
        engine->device->ops->write(engine->device, place.memory, place.address, part * element,
                                   values + done * element);
    }
}

void engine_share_begin(struct engine *engine)
{
    struct ranks *ranks = peers_of(engine);
    if (ranks)
        ranks_begin(ranks, ranks_issue(ranks));
}

bool engine_share_end(struct engine *engine, GError **error)
{
    const struct shard_store store = common_store(engine);
    if (!store.ranks)
        return true;
    shard_store_end(&store);
    ranks_end(store.ranks);
    return engine->device->ops->check(engine->device, error);
}

static bool is_split(const struct engine *engine, enum trace_list list)
{
    return list == TRACE_MASTER && engine->executor.iteration->job.choices.split_masters;
}

static void read_split(struct engine *engine, tensor_id tensor, uint64_t first, uint64_t count,
                       float *values)
{
    g_autofree uint16_t *halves = g_new(uint16_t, 2 * count);
    uint16_t *rests = halves + count;
    read_at(engine, tensor, TRACE_PARAM, first, count, halves);
    read_at(engine, tensor, TRACE_MASTER, first, count, rests);
#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < count; i++)
        values[i] = bf16_join(halves[i], rests[i]);
}

static bool store_read(void *self, tensor_id tensor, enum trace_list list, uint64_t first,
                       uint64_t count, float *values, GError **error)
{
    struct engine *engine = self;
    uint8_t element = engine->executor.iteration->trace->list_element_bytes[list];
    if (is_split(engine, list)) {
        read_split(engine, tensor, first, count, values);
    } else {
        read_at(engine, tensor, list, first, count, values);
        widen(element == 2 ? MODEL_BF16 : MODEL_FP32, count, values);
    }
    return engine->device->ops->check(engine->device, error);
}

static void write_rounded(struct engine *engine, tensor_id tensor, enum trace_list list,
                          uint64_t first, uint64_t count, const float *values)
{
    g_autofree uint16_t *halves = g_new(uint16_t, count);
#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < count; i++)
        halves[i] = bf16_round(values[i]);
    write_at(engine, tensor, list, first, count, halves);
}

static void write_rest(struct engine *engine, tensor_id tensor, uint64_t first, uint64_t count,
                       const float *values)
{
    g_autofree uint16_t *rests = g_new(uint16_t, count);
#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < count; i++)
        rests[i] = bf16_rest(values[i]);
    write_at(engine, tensor, TRACE_MASTER, first, count, rests);
}

static bool store_write(void *self, tensor_id tensor, enum trace_list list, uint64_t first,
                        uint64_t count, const float *values, GError **error)
{
    struct engine *engine = self;
    const struct trace *trace = engine->executor.iteration->trace;
    (void)error;
    g_assert(!engine->started);
    tensor = here(engine, tensor);
    if (tensor == NO_INDEX)
        return true;
    if (is_split(engine, list))
        write_rest(engine, tensor, first, count, values);
    else if (trace->list_element_bytes[list] == 2)
        write_rounded(engine, tensor, list, first, count, values);
    else
        write_at(engine, tensor, list, first, count, values);
    if (list == TRACE_MASTER && trace->list_element_bytes[TRACE_PARAM] == 2)
        write_rounded(engine, tensor, TRACE_PARAM, first, count, values);
    else if (list == TRACE_MASTER)
        write_at(engine, tensor, TRACE_PARAM, first, count, values);
    if (list == weights_list_of(trace, tensor) &&
        tensor_use_state(engine->executor.use, tensor) != TENSOR_HOLD)
        tensor_use_fill(engine->executor.use, tensor);
    return true;
}

struct weights_store engine_store(struct engine *engine)
{
    return (struct weights_store){.self = engine, .read = store_read, .write = store_write};
}

/* ---- numbers that are not finite ---- */

char *divergence_describe(const struct model_iteration *iteration, const double *losses,
                          const double *norms)
{
    const struct trace *trace = iteration->trace;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct model_operator *op = &iteration->operators[m];
        const char *name = trace->operators[m].name;
        for (uint32_t r = 0; op->kind == MODEL_LOSS && r < model_ranks(&iteration->job); r++) {
            uint32_t micro_batch = op->micro_batch * model_ranks(&iteration->job) + r;
            if (!isfinite(losses[micro_batch]))
                return g_strdup_printf("'%s' of micro-batch %u left %g", name, micro_batch,
                                       losses[micro_batch]);
        }
        for (int i = 0; i < MODEL_TENSORS; i++)
            if (op->norms[i] && !isfinite(norms[op->t[i]]))
                return g_strdup_printf("'%s' left a gradient of '%s' whose norm is %g", name,
                                       trace->tensors[op->t[i]].name, sqrt(norms[op->t[i]]));
    }
    return NULL;
}
