#include "engine/train/training.h"

#include "engine/train/sampling.h"

#include <math.h>

G_DEFINE_QUARK(pstar_training_error, training_error)

static const struct model_job *job_of(const struct training *training)
{
    return &training->run->iteration->job;
}

static size_t rows(const struct training *training)
{
    return (size_t)job_of(training)->choices.batch * job_of(training)->sequence;
}

/* ---- opening ---- */

static struct data *open_data(const struct training *training, const char *path, double held_out,
                              GError **error)
{
    const struct data_options options = {.vocabulary = training->run->config->vocabulary,
                                         .sequence = job_of(training)->sequence,
                                         .held_out = held_out,
                                         .seed = training->options->seed,
                                         .order = training->options->data_order};
    return data_open(path, &options, error);
}

static struct checkpoint_state state_of(const struct training *training)
{
    static const char *const orders[] = {
        [DATA_RANDOM] = "random", [DATA_SEQUENTIAL] = "sequential"};
    const struct run_options *o = training->options;
    const struct model_job *job = job_of(training);
    return (struct checkpoint_state){
        .seed = o->seed,
        .precision = g_strdup(training->run->iteration->trace->precision),
        .batch = job->choices.batch,
        .sequence = job->sequence,
        .micro_batches = job->choices.micro_batches,
        .schedule = {.peak = o->learning_rate,
                     .floor = o->least_learning_rate,
                     .warm_up = o->warm_up_steps,
                     .steps = o->schedule_steps},
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .epsilon = o->epsilon,
        .weight_decay = o->weight_decay,
        .clip = o->clip,
        .data_order = g_strdup(orders[o->data_order]),
        .data_digest = data_digest(training->data),
        .held_out = o->held_out,
    };
}

/* The steps done by the checkpoint that the run goes on from, if it may. */
static bool read_position(struct training *training, GError **error)
{
    const char *folder = training->options->resume;
    struct checkpoint_state saved;
    if (!folder)
        return true;
    if (!checkpoint_read_state(folder, &saved, error))
        return false;
    bool same = checkpoint_match(folder, &saved, &training->state, error);
    training->state.step = saved.step;
    checkpoint_state_clear(&saved);
    if (same && training->state.step >= training->options->steps) {
        g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                    "--steps %" G_GUINT64_FORMAT ": %s has done %" G_GUINT64_FORMAT " already",
                    training->options->steps, folder, training->state.step);
        return false;
    }
    return same;
}

/* A folder's weights, checked before any memory is taken; NULL without an error where there are
 * none to start from. */
static struct safetensors *open_weights(const struct training *training, GError **error)
{
    const char *model = training->options->model;
    bool exist;
    if (training->options->resume || !weights_exist(model, &exist, error) || !exist)
        return NULL;
    return weights_open(model, training->run->config, training->run->iteration->trace, error);
}

static bool fill(struct training *training, const struct safetensors *weights, GError **error)
{
    const struct model_config *config = training->run->config;
    const struct trace *trace = training->run->iteration->trace;
    const struct weights_store store = engine_store(training->engine);
    if (training->options->resume)
        return checkpoint_load(training->options->resume, config, trace, &store, error);
    if (weights)
        return weights_load(weights, trace, &store, error);
    return weights_initialise(config, trace, training->options->seed, &store, error);
}

static bool open_engine(struct training *training, GError **error)
{
    const struct run_options *o = training->options;
    training->annotate = annotate_new(training->run->iteration->trace);
    const struct engine_options options = {.iteration = training->run->iteration,
                                           .plan = training->run->plan,
                                           .device = o->device,
                                           .h2d_rate = o->h2d_rate,
                                           .d2h_rate = o->d2h_rate,
                                           .threads = o->threads,
                                           .annotate = training->annotate};
    training->engine = engine_open(&options, error);
    return training->engine != NULL;
}

bool training_open(struct training *training, const struct run_options *options,
                   const struct run_plan *run, GError **error)
{
    *training = (struct training){.options = options, .run = run};
    if (options->save && !checkpoint_may_save(options->save, error))
        return false;
    training->data = open_data(training, options->data, options->held_out, error);
    if (!training->data)
        return false;
    if (options->eval && !(training->eval = open_data(training, options->eval, 0, error)))
        return false;
    training->state = state_of(training);
    if (!read_position(training, error))
        return false;

    GError *refused = NULL;
    struct safetensors *weights = open_weights(training, &refused);
    if (refused) {
        g_propagate_error(error, refused);
        return false;
    }
    bool opened = open_engine(training, error) && fill(training, weights, error);
    safetensors_close(weights);
    if (!opened)
        return false;
    engine_start(training->engine);
    training->tokens = g_new(uint32_t,
                             2 * rows(training) * job_of(training)->choices.micro_batches);
    return true;
}

void training_clear(struct training *training)
{
    engine_close(training->engine);
    annotate_free(training->annotate);
    data_close(training->data);
    data_close(training->eval);
    checkpoint_state_clear(&training->state);
    g_free(training->tokens);
    *training = (struct training){0};
}

/* ---- training ---- */

static void read_batches(struct training *training)
{
    const struct model_job *job = job_of(training);
    size_t n = rows(training);
    for (uint32_t m = 0; m < job->choices.micro_batches; m++) {
        uint32_t *tokens = training->tokens + 2 * n * m;
        data_batch(training->data, training->state.step, m, job->choices.micro_batches,
                   job->choices.batch, tokens, tokens + n);
    }
}

bool training_step(struct training *training, struct engine_result *result, GError **error)
{
    const struct checkpoint_state *state = &training->state;
    read_batches(training);
    const struct engine_step step = {
        .step = state->step,
        .tokens = training->tokens,
        .seed = state->seed,
        .learning_rate = schedule_learning_rate(&state->schedule, state->step),
        .beta1 = state->beta1,
        .beta2 = state->beta2,
        .epsilon = state->epsilon,
        .weight_decay = state->weight_decay,
        .clip = state->clip,
    };
    if (!engine_step(training->engine, &step, result, error))
        return false;
    training->state.step++;
    if (isfinite(result->loss) && isfinite(result->gradient_norm))
        return true;
    g_autofree char *where = engine_divergence(training->engine);
    g_set_error(error, TRAINING_ERROR, TRAINING_ERROR_DIVERGED,
                "step %" G_GUINT64_FORMAT
                ": the loss is %g and the gradient's norm %g: training has "
                "diverged: %s; a lower --lr or more --warmup-steps may help",
                training->state.step, result->loss, result->gradient_norm, where);
    return false;
}

bool training_can_evaluate(const struct training *training)
{
    return training->eval || data_sequences(training->data, DATA_HELD_OUT) > 0;
}

bool training_evaluate(struct training *training, double *loss, GError **error)
{
    enum { MOST_BATCHES = 64 };
    const struct data *data = training->eval ? training->eval : training->data;
    enum data_share share = training->eval ? DATA_TRAINING : DATA_HELD_OUT;
    uint64_t sequences = data_sequences(data, share), batch = job_of(training)->choices.batch;
    uint64_t batches = CLAMP(sequences / batch, 1, MOST_BATCHES);
    uint32_t T = job_of(training)->sequence;
    uint32_t *targets = training->tokens + rows(training);
    double sum = 0;
    for (uint64_t b = 0; b < batches; b++) {
        for (uint64_t row = 0; row < batch; row++)
            data_read(data, share, (b * batch + row) % sequences, 1, training->tokens + row * T,
                      targets + row * T);
        double mean;
        if (!engine_forward(training->engine, training->tokens, &mean, error))
            return false;
        sum += mean;
    }
    *loss = sum / (double)batches;
    return true;
}

GArray *training_sample(struct training *training, GError **error)
{
    enum { PROMPT = 16 };
    uint32_t T = job_of(training)->sequence;
    g_autofree uint32_t *prompt = g_new(uint32_t, 2 * (size_t)T);
    GArray *text = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    data_read(training->data, DATA_TRAINING, 0, 1, prompt, prompt + T);
    g_array_append_vals(text, prompt, MIN(T, PROMPT));
    if (!sampling_continue(training->engine, training->run->iteration, training->state.seed,
                           training->options->sample, text, error))
        g_clear_pointer(&text, g_array_unref);
    return text;
}

bool training_save(struct training *training, GError **error)
{
    const struct weights_store store = engine_store(training->engine);
    engine_flush(training->engine);
    return checkpoint_save(training->options->save, &training->state, training->run->config,
                           training->run->iteration->trace, &store, error);
}
