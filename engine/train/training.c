#include "engine/train/training.h"

#include "base/failure.h"
#include "engine/adapters.h"
#include "engine/storage/storage.h"
#include "engine/train/checkpoint_folder.h"
#include "engine/train/model_files.h"
#include "engine/train/together.h"
#include "engine/train/trainer.h"
#include "engine/train/training_save.h"
#include "models/pipeline.h"

#include <glib/gstdio.h>
#include <math.h>
#include <unistd.h>

G_DEFINE_QUARK(pstar_training_error, training_error)

const struct model_job *training_job(const struct training *training)
{
    return &training->run->iteration->job;
}

bool training_is_first(const struct run_options *options)
{
    return !options->ranks || options->ranks->rank == 0;
}

const struct trace *training_trace(const struct training *training)
{
    return pipeline_whole(training->run->iteration)->trace;
}

size_t training_rows(const struct training *training)
{
    return (size_t)training_job(training)->choices.batch * training_job(training)->sequence;
}

/* Returns the micro-batches that a step reads: the rank's, and those of the next step that it runs
 * forward. */
static uint32_t count_read(const struct training *training)
{
    return model_rank_micro_batches(training_job(training)) +
           pipeline_ahead_of(training->run->iteration);
}

/* ---- opening ---- */

static struct data *open_data(const struct training *training, const char *path, double held_out,
                              GError **error)
{
    const struct data_options options = {.vocabulary = training->run->config->vocabulary,
                                         .sequence = training_job(training)->sequence,
                                         .held_out = held_out,
                                         .seed = training->options->seed,
                                         .order = training->options->data_order,
                                         .tokens = training->options->tokens,
                                         .model = training->options->model};
    return data_open(path, &options, error);
}

static struct checkpoint_state state_of(const struct training *training)
{
    const struct run_options *o = training->options;
    const struct model_job *job = training_job(training);
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
        .data_order = g_strdup(run_options_orders[o->data_order]),
        .data_digest = training->data ? data_digest(training->data) : NULL,
        .held_out = o->held_out,
        .delay = o->delay,
        .steps = o->steps,
        .data = o->data ? g_canonicalize_filename(o->data, NULL) : NULL,
        .tokens = g_strdup(run_options_tokens[o->tokens]),
        .train = g_strdup(o->train),
        .lora_alpha = training->run->config->lora_alpha,
        .model = g_canonicalize_filename(o->model, NULL),
        .plan = together_plan_digest(training->run->plan),
        .plan_made_by = g_strdup(training->run->plan->made_by),
    };
}

/* Takes the number of steps done from the checkpoint from which the run resumes, and says what the
 * run changes. Fails if the run may not resume from it. */
static bool read_position(struct training *training, const struct trainer_watch *watch,
                          GError **error)
{
    const char *folder = training->options->resume;
    struct checkpoint_state saved;
    if (!folder || !training->data)
        return true;
    if (!checkpoint_read_state(folder, &saved, error))
        return false;
    bool same = checkpoint_match(folder, &saved, &training->state, error);
    g_autofree char *changes = checkpoint_changes(&saved, &training->state);
    training->state.step = saved.step;
    checkpoint_state_clear(&saved);
    if (same && training->state.step >= training->options->steps) {
        g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                    "--steps %" G_GUINT64_FORMAT
                    ": the checkpoint %s has already done %" G_GUINT64_FORMAT
                    " step%s; more --steps train longer",
                    training->options->steps, folder, training->state.step,
                    training->state.step == 1 ? "" : "s");
        return false;
    }
    if (same && changes && training_is_first(training->options))
        watch->warn(watch->data, changes);
    if (same && !training->options->save && training_is_first(training->options))
        watch->warn(watch->data, "nothing will be saved: --save is not kept in a checkpoint");
    return same;
}

/* Opens the weights beside the model's config.json and checks them before any memory is taken.
 * Returns NULL without an error if there are none. */
static struct safetensors *open_weights(const struct training *training, GError **error)
{
    g_autofree char *model = model_config_folder(training->options->model);
    bool exist, elsewhere = training->options->resume && !run_has_adapters(training->options);
    if (elsewhere || !weights_exist(model, &exist, error) || !exist)
        return NULL;
    return weights_open(model, training->run->config, training_trace(training), error);
}

/* Writes the model beside which adapters are trained. */
static bool fill_model(struct training *training, const struct safetensors *weights,
                       const struct weights_store *store, GError **error)
{
    const struct model_config *config = training->run->config;
    const struct trace *trace = training_trace(training);
    training->form = weights ? weights_form_of(weights) : weights_form_new();
    return weights ? weights_load(weights, config, trace, store, error)
                   : weights_initialise(config, trace, training->options->seed, store, error);
}

/* Writes the adapters with which a run begins. */
static bool begin_adapters(const struct training *training, const struct weights_store *store,
                           GError **error)
{
    const struct model_config *config = training->run->config;
    const struct trace *trace = training_trace(training);
    const char *folder = training->options->adapters;
    if (!folder)
        return weights_initialise_adapters(config, trace, training->options->seed, store, error);
    struct safetensors *file = adapters_open(folder, config, trace, error);
    bool loaded = file && adapters_load(file, config, trace, store, error);
    safetensors_close(file);
    return loaded;
}

/* Checks the files of the adapters with which a run begins. */
static bool check_adapters(const struct training *training, GError **error)
{
    const char *folder = training->options->adapters;
    struct safetensors *file = folder ? adapters_open(folder, training->run->config,
                                                      training_trace(training), error)
                                      : NULL;
    bool opened = !folder || file;
    safetensors_close(file);
    return opened;
}

/* Checks the folder in which an engine makes the file of --nvme, which may be NULL. */
static bool check_nvme_folder(const char *folder, GError **error)
{
    if (!folder)
        return true;
    if (!g_file_test(folder, G_FILE_TEST_IS_DIR)) {
        g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--nvme %s: is not a folder",
                    folder);
        return false;
    }
    bool opened = storage_check_folder(folder, error);
    if (!opened)
        g_prefix_error(error, "--nvme ");
    return opened;
}

static bool fill(struct training *training, const struct safetensors *weights, GError **error)
{
    const struct model_config *config = training->run->config;
    const struct trace *trace = training_trace(training);
    training->weights = (struct weights_hash){.store = engine_store(training->engine)};
    const struct weights_store store = training->options->ranks ? together_hash(&training->weights)
                                                                : training->weights.store;
    if (run_has_adapters(training->options) && !fill_model(training, weights, &store, error))
        return false;
    if (training->options->resume)
        return checkpoint_load(training->options->resume, config, trace, training->state.delay,
                               &store, &training->form, error);
    if (run_has_adapters(training->options))
        return begin_adapters(training, &store, error);
    return fill_model(training, weights, &store, error);
}

/* A profiler of the device knows its operators' times, so the run need not wait for them. */
static enum annotate_timing timing_of(const struct training *training)
{
    const struct device_ops *device = training->options->device;
    const struct plan_figures *predicted = &training->run->plan->predicted;
    bool alone = !training->options->ranks && !training->options->pipeline;
    if (!device->is_profiled || !device->is_profiled())
        return ANNOTATE_RANGES;
    return alone && predicted->h2d_bytes + predicted->d2h_bytes == 0 ? ANNOTATE_DEVICE_RESIDENT
                                                                     : ANNOTATE_DEVICE;
}

static bool open_engine(struct training *training, GError **error)
{
    const struct run_options *o = training->options;
    together_trace(o, training->run->iteration);
    training->annotate = annotate_new(training->run->iteration->trace, timing_of(training));
    const struct engine_options options = {.ranks = o->peers,
                                           .stages = o->pipeline,
                                           .iteration = training->run->iteration,
                                           .places = training->run->places,
                                           .plan = training->run->plan,
                                           .device = o->device,
                                           .h2d_rate = o->h2d_rate,
                                           .d2h_rate = o->d2h_rate,
                                           .threads = o->threads,
                                           .nvme = o->nvme,
                                           .nvme_block_bytes = training->run->nvme_block_bytes,
                                           .nvme_depth = training->run->nvme_depth,
                                           .annotate = training->annotate};
    training->engine = engine_open(&options, error);
    return training->engine != NULL;
}

/* Checks that there is room for the model that --merge writes, in the form of the weights that were
 * read, which may be NULL. */
static bool check_merge(const struct training *training, const struct safetensors *weights,
                        GError **error)
{
    const struct run_options *o = training->options;
    const struct trace *trace = training_trace(training);
    uint64_t elements = 0;
    if (!o->merge || !training_is_first(o))
        return true;
    for (uint32_t i = 0; i < trace->tensor_count; i++)
        elements += weights_is_adapter(trace->tensors[i].name) ? 0 : trace->tensors[i].elements;
    bool halves = weights && weights_form_of(weights).halves;
    uint64_t bytes = elements * (halves ? sizeof(uint16_t) : sizeof(float));
    if (checkpoint_folder_has_room(o->merge, "the merged model", bytes, 1, error))
        return true;
    g_prefix_error(error, "--merge: ");
    return failure_mark(error, FAILURE_RUNNING);
}

/* A dry run takes no memory, so it only looks at the files of the weights. */
static bool open_model(struct training *training, const struct trainer_watch *watch, GError **error)
{
    bool dry = training->options->dry_run;
    GError *refused = NULL;
    struct safetensors *weights = open_weights(training, &refused);
    if (refused) {
        g_propagate_error(error, refused);
        return false;
    }
    bool digested = !weights || !run_has_adapters(training->options) ||
                    (dry && !training->options->resume) ||
                    (training->state.base_digest =
                         weights_digest(weights, training->run->config,
                                        pipeline_whole(training->run->iteration)->trace, error));
    bool opened = digested && check_merge(training, weights, error) &&
                  read_position(training, watch, error) &&
                  (dry ? check_adapters(training, error)
                       : open_engine(training, error) && fill(training, weights, error));
    safetensors_close(weights);
    return opened;
}

static bool check_save(const struct training *training, GError **error)
{
    const struct run_options *o = training->options;
    if ((o->dry_run ? checkpoint_look : checkpoint_try)(o->save, training_trace(training), o->delay,
                                                        o->ranks ? o->ranks->count : 1,
                                                        run_saves(o), o->keep, error))
        return true;
    g_prefix_error(error, "--save: ");
    return failure_mark(error, FAILURE_RUNNING);
}

/* Checks what the options name, and opens the data. Takes no memory for the model. A dry run need
 * not have data. */
static bool open_files(struct training *training, GError **error)
{
    const struct run_options *options = training->options;
    if (options->save && training_is_first(options) && !check_save(training, error))
        return false;
    if (options->merge && !checkpoint_folder_is_empty(options->merge, error)) {
        if (!*error)
            g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                        "--merge %s: the folder is not empty", options->merge);
        return false;
    }
    if (options->data &&
        !(training->data = open_data(training, options->data, options->held_out, error)))
        return false;
    if (options->sample && training->data &&
        !(training->text = trainer_read_prompt(options, training->data, training->run->iteration,
                                               error)))
        return false;
    return !options->eval || (training->eval = open_data(training, options->eval, 0, error));
}

bool training_open(struct training *training, const struct run_options *options,
                   const struct run_plan *run, const struct trainer_watch *watch, GError **error)
{
    *training = (struct training){.options = options, .run = run};
    if (!open_files(training, error))
        return false;
    training->state = state_of(training);
    if (!open_model(training, watch, error))
        return false;
    if (options->dry_run)
        return check_nvme_folder(options->nvme, error);
    size_t tokens = 2 * training_rows(training) * count_read(training);
    training->next.tokens = g_new(uint32_t, tokens);
    training->ahead.tokens = g_new(uint32_t, tokens);
    return true;
}

void training_clear(struct training *training)
{
    engine_close(training->engine);
    annotate_free(training->annotate);
    data_close(training->data);
    data_close(training->eval);
    training_save_close(training);
    checkpoint_state_clear(&training->state);
    g_free(training->next.tokens);
    g_free(training->ahead.tokens);
    g_clear_pointer(&training->text, g_array_unref);
    *training = (struct training){0};
}

/* A rank that cannot be connected leaves others waiting for it, so it ends them. */
void training_start(struct training *training)
{
    g_autoptr(GError) error = NULL;
    if (!engine_join(training->engine, &error))
        ranks_fail(training->options->ranks, error->message);
    engine_start(training->engine);
}

/* ---- training ---- */

bool training_end_ranks(const struct training *training, const GError *error)
{
    if (training->options->ranks)
        ranks_fail(training->options->ranks, error->message);
    return false;
}

void training_read(struct training *training, uint64_t later)
{
    const struct model_job *job = training_job(training);
    const struct ranks *ranks = training->options->peers;
    size_t n = training_rows(training);
    uint32_t own = model_rank_micro_batches(job);
    uint64_t step = training->state.step + later;
    for (uint32_t m = 0; m < count_read(training); m++) {
        uint32_t *tokens = training->ahead.tokens + 2 * n * m;
        uint32_t micro_batch = ranks ? ranks->rank + m % own * ranks->count : m % own;
        data_batch(training->data, step + m / own, micro_batch, job->choices.micro_batches,
                   job->choices.batch, tokens, tokens + n);
    }
    training->ahead.targets = data_step_targets(training->data, step, job->choices.micro_batches,
                                                job->choices.batch);
}

void training_turn(struct training *training)
{
    struct training_batches read = training->ahead;
    training->ahead = training->next;
    training->next = read;
}

/* Ends the run at a step whose loss or gradient is not finite. */
static bool diverge(const struct training *training, const struct engine_result *result,
                    const char *where, GError **error)
{
    g_autofree char *row = training->skipped ? g_strdup_printf(" (%u steps in a row were skipped)",
                                                               training->skipped)
                                             : g_strdup("");
    g_set_error(
        error, TRAINING_ERROR, TRAINING_ERROR_DIVERGED,
        "step %" G_GUINT64_FORMAT ": the loss is %g and the gradient's norm %g: training has "
        "diverged%s: %s; %s",
        training->state.step, result->loss, result->gradient_norm, row, where,
        training->trained ? "a lower --lr or more --warmup-steps may help"
                          : "the run has not done a step before, so the weights or optimizer "
                            "states that it began with are the cause");
    return false;
}

/* The update changed nothing if the norm was known before it. A run must not end well if it skipped
 * all of its steps. */
static bool may_skip(const struct training *training, const struct engine_result *result)
{
    bool all = !training->trained && training->state.step == training->options->steps;
    return training->state.clip > 0 && !isfinite(result->gradient_norm) && !all;
}

bool training_step(struct training *training, bool stop, struct engine_result *result,
                   char **skipped, GError **error)
{
    const struct checkpoint_state *state = &training->state;
    const struct engine_step step = {
        .step = state->step,
        .tokens = training->next.tokens,
        .targets = training->next.targets,
        .seed = state->seed,
        .stop = stop,
        .learning_rate = schedule_learning_rate(&state->schedule, state->step),
        .beta1 = state->beta1,
        .beta2 = state->beta2,
        .epsilon = state->epsilon,
        .weight_decay = state->weight_decay,
        .clip = state->clip,
    };
    *skipped = NULL;
    if (!engine_step(training->engine, &step, result, error)) {
        g_prefix_error(error, "step %" G_GUINT64_FORMAT ": ", state->step + 1);
        return training_end_ranks(training, *error);
    }
    training->state.step++;
    if (isfinite(result->loss) && isfinite(result->gradient_norm)) {
        training->skipped = 0;
        return training->trained = true;
    }
    g_autofree char *where = engine_divergence(training->engine);
    if (!may_skip(training, result) || ++training->skipped == TRAINING_MOST_SKIPPED)
        return diverge(training, result, where, error);
    *skipped = g_strdup_printf("step %" G_GUINT64_FORMAT " is skipped: %s", state->step, where);
    return true;
}

bool training_can_evaluate(const struct training *training)
{
    return training->eval || data_sequences(training->data, DATA_HELD_OUT) > 0;
}

/* Whatever happens to the first rank, which writes, the others answer it. */
bool training_merge(struct training *training, GError **error)
{
    const struct weights_store store = engine_store(training->engine);
    struct ranks *ranks = training->options->ranks;
    const char *folder = training->options->merge;
    engine_flush(training->engine);
    if (!folder)
        return true;
    engine_share_begin(training->engine);
    bool merged = !training_is_first(training->options) ||
                  (adapters_merge(folder, training->run->config, training_trace(training), &store,
                                  &training->form, error) &&
                   model_files_copy(training->options->model, NULL, folder, error));
    merged &= engine_share_end(training->engine, merged ? error : NULL);
    return ranks ? ranks_share_error(ranks, error) : merged;
}
