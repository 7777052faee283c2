#include "engine/engine.h"

#include "engine/divergence.h"
#include "engine/engine_state.h"
#include "engine/pool_cuts.h"

#include <time.h>

struct engine *engine_open(const struct engine_options *options, GError **error)
{
    const struct plan *plan = options->plan;
    const struct trace *trace = options->iteration->trace;
    g_autoptr(GArray) cuts = pool_cuts(plan);
    const struct device_options device = {.arena_bytes = plan->arena_bytes,
                                          .host_pool_bytes = plan->host_pool_bytes,
                                          .host_cuts = (const uint64_t *)(const void *)cuts->data,
                                          .host_cut_count = cuts->len,
                                          .h2d_rate = options->h2d_rate,
                                          .d2h_rate = options->d2h_rate,
                                          .threads = options->threads,
                                          .annotate = options->annotate};
    struct device *opened = options->device->open(&device, error);
    if (!opened)
        return NULL;

    struct engine *engine = g_new0(struct engine, 1);
    engine->device = opened;
    engine->places = non_model_place(trace);
    engine->accesses = accesses_new(trace, plan->layout, engine->places->extent);
    engine->usage = usage_new(plan->layout->chunk_count, plan->arena_bytes);
    engine->mover = (struct chunk_mover){.device = opened,
                                         .usage = engine->usage,
                                         .figures = &engine->outside,
                                         .run = executor_run,
                                         .executor = &engine->executor};
    engine->residency = residency_new(plan, engine->accesses, trace, &chunk_mover_ops,
                                      &engine->mover);
    engine->executor = (struct executor){
        .iteration = options->iteration,
        .plan = plan,
        .staging = staging_of(trace),
        .residency = engine->residency,
        .mover = &engine->mover,
        .activations = activations_new(options->iteration, engine->places, plan->arena_bytes),
        .use = tensor_use_new(trace->tensor_count),
        .annotate = options->annotate,
        .norms = opened->ops->scalars(opened, trace->tensor_count),
        .gradient_scale = opened->ops->scalars(opened, 1),
        .losses = opened->ops->scalars(opened, options->iteration->job.choices.micro_batches),
    };
    return engine;
}

void engine_close(struct engine *engine)
{
    if (!engine)
        return;
    engine->device->ops->close(engine->device);
    residency_free(engine->residency);
    usage_free(engine->usage);
    activations_free(engine->executor.activations);
    staging_clear(&engine->executor.staging);
    tensor_use_free(engine->executor.use);
    g_clear_error(&engine->executor.error);
    accesses_free(engine->accesses);
    non_model_free(engine->places);
    g_free(engine);
}

/* Device-homed chunks were written where they stay. */
void engine_start(struct engine *engine)
{
    const struct plan *plan = engine->executor.plan;
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++)
        if (plan->host_address[c] == NO_ADDRESS)
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
    for (uint32_t moment = 0; moment < end && !engine->executor.error; moment++)
        residency_step(engine->residency, moment);
    executor_wait(&engine->executor);
    return take_error(engine, error);
}

static void begin_step(struct engine *engine, const struct engine_step *step)
{
    uint32_t micro_batches = engine->executor.iteration->job.choices.micro_batches;
    engine->executor.step = (struct executor_step){
        .tokens = step->tokens,
        .seed = step->seed,
        .first_pass = (uint32_t)(step->step * micro_batches),
        .training = true,
        .adamw = {.learning_rate = step->learning_rate,
                  .beta1 = step->beta1,
                  .beta2 = step->beta2,
                  .epsilon = step->epsilon,
                  .weight_decay = step->weight_decay,
                  .gradient_scale = 1},
        .update = step->step + 1,
        .clip = step->clip,
    };
    engine->executor.updating = false;
    usage_reset_peaks(engine->usage);
}

static double mean_loss(const struct engine *engine)
{
    uint32_t micro_batches = engine->executor.iteration->job.choices.micro_batches;
    double sum = 0;
    for (uint32_t m = 0; m < micro_batches; m++)
        sum += engine->executor.losses[m];
    return sum / micro_batches;
}

/* Before the first update. */
static bool knows_norm(const struct model_job *job)
{
    return model_gradient_layout(job) != MODEL_GRADIENT_BUFFER || job->choices.second_backward;
}

bool engine_step(struct engine *engine, const struct engine_step *step,
                 struct engine_result *result, GError **error)
{
    const struct device_ops *ops = engine->device->ops;
    double start = seconds_now(), stalled = ops->stall_seconds(engine->device);
    g_assert(engine->started);
    g_assert(step->clip <= 0 || knows_norm(&engine->executor.iteration->job));
    *result = (struct engine_result){0};
    begin_step(engine, step);
    engine->mover.figures = &result->figures;
    annotate_iteration_begin(engine->executor.annotate, step->step);
    bool done = run_moments(engine, engine->executor.iteration->trace->operator_count, error);
    annotate_iteration_end(engine->executor.annotate);
    engine->mover.figures = &engine->outside;

    struct usage_peaks peaks = usage_peaks(engine->usage);
    result->loss = mean_loss(engine);
    result->gradient_norm = executor_gradient_norm(&engine->executor);
    result->figures.peak_device_bytes = peaks.bytes;
    result->figures.peak_live_device_bytes = peaks.live_bytes;
    result->figures.peak_host_bytes = engine->executor.plan->host_pool_bytes;
    result->figures.stall_seconds = ops->stall_seconds(engine->device) - stalled;
    result->figures.iteration_seconds = seconds_now() - start;
    return done;
}

char *engine_divergence(const struct engine *engine)
{
    const struct executor *x = &engine->executor;
    return divergence_describe(x->iteration, x->losses, x->norms);
}

/* A forward pass of the first micro-batch; its activations are still there. */
static bool forward(struct engine *engine, const uint32_t *tokens, GError **error)
{
    g_assert(engine->started);
    residency_flush(engine->residency);
    engine->executor.step = (struct executor_step){.tokens = tokens, .training = false};
    return run_moments(engine, engine->executor.iteration->forward_end, error);
}

static void rewind_iteration(struct engine *engine)
{
    activations_reset(engine->executor.activations);
    residency_rewind(engine->residency);
}

bool engine_forward(struct engine *engine, const uint32_t *tokens, double *loss, GError **error)
{
    if (!forward(engine, tokens, error))
        return false;
    *loss = engine->executor.losses[0];
    rewind_iteration(engine);
    return true;
}

static void read_logits(struct engine *engine, uint32_t row, float *logits)
{
    const struct model_iteration *iteration = engine->executor.iteration;
    const struct model_operator *loss = &iteration->operators[iteration->forward_end - 1];
    uint64_t element = iteration->job.precision == MODEL_BF16 ? 2 : 4;
    uint32_t V = iteration->config->vocabulary;
    uint64_t address = activations_address(engine->executor.activations, loss->in[0]);
    g_assert(loss->kind == MODEL_LOSS);
    engine->device->ops->read(engine->device, DEVICE_ARENA,
                              address + (uint64_t)row * model_logits_row(V) * element, V * element,
                              logits);
    engine_widen(iteration->job.precision, V, logits);
}

bool engine_logits(struct engine *engine, const uint32_t *tokens, uint32_t first_row, uint32_t rows,
                   float *logits, GError **error)
{
    uint64_t V = engine->executor.iteration->config->vocabulary;
    if (!forward(engine, tokens, error))
        return false;
    for (uint32_t r = 0; r < rows; r++)
        read_logits(engine, first_row + r, logits + r * V);
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
