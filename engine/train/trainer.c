#include "engine/train/trainer.h"

#include "base/failure.h"
#include "base/size.h"
#include "chunks/stage_path.h"
#include "engine/device.h"
#include "engine/kernels.h"
#include "engine/train/pace.h"
#include "engine/train/run_report.h"
#include "engine/train/stage_report.h"
#include "engine/train/training_save.h"

#include <math.h>

/* ---- the run ---- */

/* The state of the training loop besides struct training. */
struct loop {
    struct training *training;
    struct run_log *log;
    const struct trainer_watch *watch;
    struct trainer_end *end;
    struct pace pace;
    uint64_t evaluations_left, saves_left; /* that are planned */
    double step_flops, peak_flops;         /* peak_flops: a second; 0 if unknown */
    struct trace_exchange planned;         /* what this rank exchanges in a step */
    bool late;       /* a checkpoint is due since the one before was being written */
    bool wants_stop; /* several ranks: this one was asked to stop; all stop after the next step */
    GError *lost;    /* why the data or, of several ranks, the log are lost; ends the run so, too */
    struct run_summary summary;
};

static double step_flops(const struct trace *trace)
{
    double flops = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        flops += (double)trace->operators[m].flops;
    return flops;
}

static struct trace_exchange planned_exchange(const struct training *training)
{
    const struct ranks *peers = training->options->peers;
    return plan_exchange(training->run->plan, training->run->iteration->trace,
                         peers ? peers->rank : 0);
}

static void measure_peak(struct loop *loop)
{
    const struct training *training = loop->training;
    struct device *device = engine_device(training->engine);
    loop->step_flops = step_flops(training->run->iteration->trace);
    loop->peak_flops = device->ops->peak_flops(device, training->run->iteration->job.precision);
}

/* Returns whether the run was asked to stop, before work that it leaves out for that. */
static bool is_cut(struct loop *loop)
{
    loop->wants_stop |= loop->watch->is_stopped(loop->watch->data);
    if (!loop->training->options->ranks)
        loop->end->interrupted = loop->wants_stop;
    return loop->end->interrupted;
}

static bool is_due(uint64_t step, uint64_t every, bool last)
{
    return last || (every && step % every == 0);
}

/* Returns how many of the steps in (first, last] are followed by work that is due `every` so many
 * steps and after the last. */
static uint64_t count_due(uint64_t first, uint64_t last, uint64_t every)
{
    return every ? (last - 1) / every - first / every + 1 : 1;
}

static double tokens_per_step(const struct training *training)
{
    return (double)training_rows(training) * training_job(training)->choices.micro_batches;
}

static uint32_t evaluation_batches(const struct training *training)
{
    enum { MOST_BATCHES = 64 };
    const struct data *data = training->eval ? training->eval : training->data;
    enum data_share share = training->eval ? DATA_TRAINING : DATA_HELD_OUT;
    return (uint32_t)CLAMP(data_sequences(data, share) / training_job(training)->choices.batch, 1,
                           MOST_BATCHES);
}

/* Shows where the run is, `evaluated` micro-batches into an evaluation of so many. */
static void show(struct loop *loop, uint32_t evaluated, uint32_t evaluations)
{
    const struct training *training = loop->training;
    const struct plan_figures *figures = &loop->summary.last.figures;
    double rate = loop->step_flops / figures->iteration_seconds;
    const struct pace_rest rest = {.steps = loop->end->steps - training->state.step,
                                   .evaluations = loop->evaluations_left,
                                   .saves = loop->saves_left,
                                   .passes = loop->evaluations_left ? evaluation_batches(training)
                                                                    : 0,
                                   .passed = evaluated};
    if (loop->peak_flops > 0 && rate > loop->peak_flops) {
        loop->peak_flops = rate;
        loop->summary.peak_by_step = true;
    }
    const struct trainer_progress progress = {
        .step = training->state.step,
        .steps = loop->end->steps,
        .loss = loop->summary.last.loss,
        .tokens_per_second = loop->summary.last.tokens_per_second,
        .peak_share = loop->peak_flops > 0 ? rate / loop->peak_flops : 0,
        .seconds_left = pace_left(&loop->pace, &rest),
        .evaluated = evaluated,
        .evaluations = evaluations};
    if (training_is_first(training->options))
        loop->watch->show(loop->watch->data, &progress);
}

static double seconds_since(gint64 start)
{
    return (double)(g_get_monotonic_time() - start) * 1e-6;
}

/* ---- checkpoints ---- */

/* A checkpoint that cannot be written ends the run only after the last step: those before it are
 * still there, and there may be room later. */
static void note_save(struct loop *loop, enum save_news news, const GError *failure)
{
    loop->summary.saved += news == SAVE_SUCCEEDED;
    loop->summary.not_saved += news == SAVE_FAILED;
    if (!failure || !training_is_first(loop->training->options))
        return;
    g_autofree char *message = g_strdup_printf("%s; the run goes on without this checkpoint",
                                               failure->message);
    loop->watch->warn(loop->watch->data, message);
}

/* Hears of the checkpoint that is being written, and with `wait` waits for its end. */
static void follow_save(struct loop *loop, bool wait)
{
    g_autoptr(GError) failure = NULL;
    uint64_t step;
    enum save_news news = wait ? training_save_settle(loop->training, &step, &failure)
                               : training_save_poll(loop->training, &step, &failure);
    note_save(loop, news, failure);
}

static bool save_last(struct loop *loop, GError **error)
{
    follow_save(loop, true);
    loop->end->saved = training_save(loop->training, error);
    loop->summary.saved += loop->end->saved;
    loop->summary.not_saved += !loop->end->saved;
    return loop->end->saved;
}

/* Saves between two steps. While the checkpoint before is still being written, this one is late: it
 * is begun after the first step that finds the writer free. */
static void save_between(struct loop *loop)
{
    gint64 start = g_get_monotonic_time();
    g_autoptr(GError) failure = NULL;
    if (training_save_is_behind(loop->training)) {
        loop->late = !training_save_begin(loop->training);
        if (loop->late)
            return;
    } else {
        bool saved = training_save(loop->training, &failure);
        note_save(loop, saved ? SAVE_SUCCEEDED : SAVE_FAILED, failure);
    }
    double pause = seconds_since(start);
    loop->summary.longest_pause = fmax(loop->summary.longest_pause, pause);
    loop->saves_left -= loop->saves_left > 0;
    pace_add(&loop->pace, PACE_SAVE, pause);
}

static bool save_when_due(struct loop *loop, uint64_t step, bool last, GError **error)
{
    const struct run_options *options = loop->training->options;
    if (!options->save)
        return true;
    follow_save(loop, false);
    if (last)
        return save_last(loop, error);
    if (loop->late || is_due(step, options->save_every, false))
        save_between(loop);
    return true;
}

/* ---- steps ---- */

static bool are_data_whole(const struct training *training, GError **error)
{
    return data_check(training->data, error) &&
           (!training->eval || data_check(training->eval, error));
}

/* Saves before the run ends if the data cannot be read any more. */
static bool check_data(struct loop *loop, GError **error)
{
    const struct training *training = loop->training;
    if (are_data_whole(training, error))
        return true;
    training_end_ranks(training, *error);
    if (training->options->save && loop->summary.steps > 0)
        save_last(loop, NULL);
    return false;
}

/* Reads a step ahead, so that all ranks know before the step that ends the run if one of them
 * cannot read its data any more: then they save, and do not wait for it. */
static void read_ahead(struct loop *loop)
{
    g_autoptr(GError) error = NULL;
    if (loop->training->state.step + 1 == loop->end->steps)
        return;
    training_read(loop->training, 1);
    if (are_data_whole(loop->training, &error))
        return;
    loop->wants_stop = true;
    if (!loop->lost)
        loop->lost = g_steal_pointer(&error);
}

static uint64_t count_targets(const uint32_t *targets, size_t rows)
{
    uint64_t counted = 0;
    for (size_t i = 0; i < rows; i++)
        counted += targets[i] != KERNEL_NO_TARGET;
    return counted;
}

/* Computes the mean loss over the targets of the evaluation data that count; it uses at most 64
 * micro-batches. Leaves it at NaN if none counts, or if the run is stopped meanwhile. */
static bool evaluate(struct loop *loop, double *loss, GError **error)
{
    struct training *training = loop->training;
    const struct data *data = training->eval ? training->eval : training->data;
    enum data_share share = training->eval ? DATA_TRAINING : DATA_HELD_OUT;
    uint64_t sequences = data_sequences(data, share), batch = training_job(training)->choices.batch;
    uint32_t T = training_job(training)->sequence, batches = evaluation_batches(training);
    uint32_t *tokens = training->next.tokens, *targets = tokens + training_rows(training);
    double sum = 0, part;
    uint64_t counted = 0;
    for (uint32_t b = 0; b < batches; b++) {
        gint64 start = g_get_monotonic_time();
        show(loop, b, batches);
        if (is_cut(loop))
            return true;
        for (uint64_t row = 0; row < batch; row++)
            data_read(data, share, (b * batch + row) % sequences, 1, tokens + row * T,
                      targets + row * T);
        if (!check_data(loop, error))
            return false;
        uint64_t count = count_targets(targets, training_rows(training));
        if (!engine_forward(training->engine, tokens, count, &part, error))
            return training_end_ranks(training, *error);
        sum += part;
        counted += count;
        pace_add(&loop->pace, PACE_PASS, seconds_since(start));
    }
    if (counted)
        *loss = sum / (double)counted;
    loop->evaluations_left--;
    return true;
}

static void summarise(struct run_summary *summary, const struct run_log_entry *entry)
{
    if (summary->steps++ == 0)
        summary->first_loss = entry->loss;
    summary->skipped += entry->skipped;
    summary->last = *entry;
}

/* Before the first evaluation, estimates a pass as a third of the work of a micro-batch. */
static void note_step(struct loop *loop, double elapsed)
{
    const struct plan_figures *figures = &loop->summary.last.figures;
    const struct training *training = loop->training;
    pace_add_step(&loop->pace, figures->iteration_seconds, figures->stall_seconds, elapsed);
    if (!loop->pace.mean[PACE_PASS])
        loop->pace.mean[PACE_PASS] = figures->iteration_seconds /
                                     (3.0 * training_job(training)->choices.micro_batches);
    show(loop, 0, 0);
}

/* Whether this rank sent and received what its plan says (law 2). Of several ranks only the first
 * logs it, but all look. */
static bool exchanged_as_planned(const struct loop *loop, const struct plan_figures *measured)
{
    return measured->sent_bytes == loop->planned.sent_bytes &&
           measured->received_bytes == loop->planned.received_bytes;
}

/* Whether what a step moved between NVMe and the host pool, and what both held, is what the plan
 * says (law 2). Of several ranks only the first logs it, but all look. */
static bool stored_as_planned(const struct training *training, const struct plan_figures *measured)
{
    const struct plan_figures *planned = &training->run->plan->predicted;
    return measured->nvme_read_bytes == planned->nvme_read_bytes &&
           measured->nvme_write_bytes == planned->nvme_write_bytes &&
           measured->peak_nvme_bytes == planned->peak_nvme_bytes &&
           measured->peak_host_bytes == planned->peak_host_bytes;
}

/* After the step. */
static void warn_of_no_targets(const struct loop *loop)
{
    const struct training *training = loop->training;
    g_autofree char *text = g_strdup_printf("step %" G_GUINT64_FORMAT
                                            ": none of its targets counts in the loss, so "
                                            "its gradient is 0",
                                            training->state.step);
    if (training_is_first(training->options))
        loop->watch->warn(loop->watch->data, text);
}

static bool take_step(struct loop *loop, struct run_log_entry *entry, GError **error)
{
    struct training *training = loop->training;
    struct engine_result result;
    uint64_t targets = training->next.targets;
    g_autofree char *skipped = NULL;
    gint64 start = g_get_monotonic_time();
    *entry = (struct run_log_entry){
        .learning_rate = schedule_learning_rate(&training->state.schedule, training->state.step),
        .eval_loss = NAN};
    if (!training_step(training, loop->wants_stop, &result, &skipped, error))
        return false;
    if (skipped && training_is_first(training->options))
        loop->watch->warn(loop->watch->data, skipped);
    if (targets == 0)
        warn_of_no_targets(loop);
    loop->end->interrupted |= result.stop;
    entry->step = training->state.step;
    entry->loss = result.loss;
    entry->gradient_norm = result.gradient_norm;
    entry->skipped = skipped != NULL;
    entry->targets = data_has_mask(training->data) ? (int64_t)targets : -1;
    entry->version = result.version;
    entry->tokens_per_second = tokens_per_step(training) / result.figures.iteration_seconds;
    entry->figures = result.figures;
    g_assert(exchanged_as_planned(loop, &result.figures));
    g_assert(stored_as_planned(training, &result.figures));
    loop->end->step = entry->step;
    loop->end->saved = false;
    summarise(&loop->summary, entry);
    note_step(loop, seconds_since(start));
    return true;
}

/* With several ranks, a log that cannot be written ends the run after the next step, when the
 * others know. */
static bool write_log(struct loop *loop, const struct run_log_entry *entry, GError **error)
{
    if (run_log_write(loop->log, entry, error))
        return true;
    if (!loop->training->options->ranks)
        return false;
    loop->wants_stop = true;
    if (!loop->lost)
        g_propagate_error(&loop->lost, g_steal_pointer(error));
    g_clear_error(error);
    return true;
}

/* Evaluates, logs and saves what is due after a step. If the log cannot be written, saves before
 * the run ends. */
static bool follow_step(struct loop *loop, struct run_log_entry *entry, bool *last, GError **error)
{
    const struct run_options *options = loop->training->options;
    bool finished = entry->step == loop->end->steps;
    if (training_can_evaluate(loop->training) &&
        is_due(entry->step, options->eval_every, finished) &&
        !evaluate(loop, &entry->eval_loss, error))
        return false;
    if (!isnan(entry->eval_loss))
        loop->summary.eval_loss = entry->eval_loss;
    bool logged = write_log(loop, entry, error);
    *last = finished || !logged || is_cut(loop);
    bool saved = save_when_due(loop, entry->step, *last, logged ? error : NULL);
    return logged && saved;
}

static bool take_steps(struct loop *loop, GError **error)
{
    bool last = is_cut(loop), ok = true;
    if (!last) {
        training_read(loop->training, 0);
        ok = check_data(loop, error);
    }
    while (ok && !last) {
        struct run_log_entry entry;
        training_turn(loop->training);
        read_ahead(loop);
        ok = take_step(loop, &entry, error) && follow_step(loop, &entry, &last, error);
    }
    if (ok && loop->lost)
        g_propagate_error(error, g_steal_pointer(&loop->lost));
    return ok && !*error;
}

/* Replaces what the last step took by what a step takes. */
static void summarise_pace(struct loop *loop)
{
    struct run_summary *summary = &loop->summary;
    struct plan_figures *figures = &summary->last.figures;
    figures->iteration_seconds = pace_median_seconds(&loop->pace);
    figures->stall_seconds = pace_median_stall(&loop->pace);
    summary->last.tokens_per_second = tokens_per_step(loop->training) / figures->iteration_seconds;
    summary->peak_flops = loop->peak_flops;
    summary->flops_per_second = loop->step_flops / figures->iteration_seconds;
}

static void plan_work(struct loop *loop)
{
    const struct run_options *o = loop->training->options;
    uint64_t first = loop->training->state.step;
    loop->end->first = loop->end->step = first;
    loop->end->steps = o->steps;
    if (training_can_evaluate(loop->training))
        loop->evaluations_left = count_due(first, o->steps, o->eval_every);
    if (o->save)
        loop->saves_left = count_due(first, o->steps, o->save_every);
}

/* Continues the prompt, unless the run was stopped. */
static bool sample(struct loop *loop, GError **error)
{
    struct training *training = loop->training;
    if (!training->text || is_cut(loop))
        return true;
    bool ok = trainer_continue_text(
        training->engine, training->run->iteration, training->state.seed, training->options->sample,
        training->options->ranks ? NULL : loop->watch, training->text, error);
    is_cut(loop);
    loop->summary.sample = training->text;
    return ok;
}

/* Returns what all stages take and do, or NULL if the run is no pipeline. */
static struct stage_row *stage_rows(const struct run_options *options, const struct run_plan *run,
                                    const struct plan_figures *figures)
{
    return options->pipeline ? stage_report_share(run, options->pipeline, figures) : NULL;
}

static bool train(struct loop *loop, GError **error)
{
    struct training *training = loop->training;
    loop->summary.unigram_entropy = data_unigram_entropy(training->data);
    loop->summary.targets = data_has_mask(training->data)
                                ? (int64_t)data_targets(training->data, DATA_TRAINING)
                                : -1;
    loop->summary.training_tokens = data_tokens(training->data, DATA_TRAINING);
    loop->summary.ranks = training->options->ranks;
    run_log_describe(loop->log, training->run->plan, training->run->capacity.library_bytes,
                     loop->summary.unigram_entropy);
    run_log_describe_link(loop->log, training->options->h2d_rate, training->options->d2h_rate);
    plan_work(loop);
    measure_peak(loop);
    bool trained = take_steps(loop, error);
    follow_save(loop, true);
    bool ok = trained && sample(loop, error) && training_merge(training, error);
    loop->watch->end(loop->watch->data);
    if (!ok || loop->summary.steps == 0)
        return ok;
    g_assert(engine_counts_agree(training->engine));
    summarise_pace(loop);
    g_autofree struct stage_row *stages = stage_rows(training->options, training->run,
                                                     &loop->summary.last.figures);
    loop->summary.stages = stages;
    if (!training_is_first(training->options))
        return true;
    g_autofree char *text = loop->summary.sample ? trainer_sample_text(loop->summary.sample,
                                                                       data_is_text(training->data),
                                                                       training->options->model)
                                                 : NULL;
    loop->summary.sample_text = text;
    run_report_print(training->run, &loop->summary, training->options->json);
    return true;
}

/* Of several ranks, the first writes the plan of all; of a pipeline, the first of each stage. */
static bool emit_plan(const struct run_options *options, const struct run_plan *run, GError **error)
{
    const struct ranks *alike = run_is_pipeline(options) ? options->peers : options->ranks;
    if (!options->emit_plan || (alike && alike->rank > 0))
        return true;
    g_autofree char *path = run_is_pipeline(options)
                                ? stage_path(options->emit_plan, options->pipeline->rank)
                                : g_strdup(options->emit_plan);
    return plan_write(run->plan, path, error);
}

/* An error of the device that only says that memory is too small. */
static bool mark_memory(GError **error)
{
    if (g_error_matches(*error, DEVICE_ERROR, DEVICE_ERROR_MEMORY))
        failure_mark(error, FAILURE_DOES_NOT_FIT);
    return !*error;
}

/* Adds to an error of memory when a step needs the most on the device, which no plan can lower. */
static void say_least(const struct run_plan *run, GError *error)
{
    moment_id moment;
    if (!g_error_matches(error, DEVICE_ERROR, DEVICE_ERROR_MEMORY))
        return;
    uint64_t least = run_plan_least_device_bytes(run, &moment);
    g_autofree char *size = size_format(least), *said = error->message;
    error->message = g_strdup_printf("%s. Any plan needs %s on the device at moment %u (%s); a "
                                     "smaller model or batch, bf16 or recomputation needs less",
                                     said, size, moment,
                                     run->iteration->trace->operators[moment].name);
}

/* Makes sure that no rank has an error; see trainer_run. */
static bool agree(const struct run_options *options, const char *description,
                  const struct trainer_watch *watch, struct trainer_end *end, GError **error)
{
    mark_memory(error);
    return ranks_agree(options->ranks, description, watch->status_of, &end->elsewhere, error);
}

/* Makes sure that no rank has an error, and that all have the same description, which is NULL if
 * there is an error, and the same plan as those of their stage. */
static bool agree_on_run(const struct run_options *options, const struct run_plan *run,
                         const char *description, const struct trainer_watch *watch,
                         struct trainer_end *end, GError **error)
{
    if (!agree(options, description, watch, end, error))
        return false;
    g_autofree char *plan = together_describe_plan(options, run);
    ranks_agree(options->peers, plan, watch->status_of, &end->elsewhere, error);
    return agree(options, "", watch, end, error);
}

/* Makes sure that all ranks are about to train the same. */
static bool agree_to_train(const struct training *training, const struct trainer_watch *watch,
                           struct trainer_end *end, GError **error)
{
    g_autofree char *eval = training->eval ? data_digest(training->eval) : NULL;
    g_autofree char *description = *error ? NULL
                                          : together_describe(training->options, training->run,
                                                              &training->state, eval,
                                                              &training->weights);
    return agree_on_run(training->options, training->run, description, watch, end, error);
}

/* Says why training will wait for checkpoints, if it was to go on meanwhile. */
static void open_saves(struct loop *loop, GError **error)
{
    struct training *training = loop->training;
    const struct run_plan *run = training->run;
    g_autofree char *waits = NULL;
    if (!training_save_open(training, &waits, error) || !training_is_first(training->options))
        return;
    if (run->lacking_bytes) {
        g_autofree char *lacking = size_format(run->lacking_bytes);
        waits = g_strdup_printf("--host-memory is %s too small for a snapshot of what is saved; "
                                "training waits while a checkpoint is written",
                                lacking);
    }
    if (waits)
        loop->watch->warn(loop->watch->data, waits);
}

static bool open_outputs(struct loop *loop, GError **error)
{
    const struct run_options *options = loop->training->options;
    loop->log = run_log_open(training_is_first(options) ? options->log : NULL,
                             loop->training->state.step, error);
    return loop->log && emit_plan(options, loop->training->run, error);
}

static bool open_and_train(const struct run_options *options, const struct run_plan *run,
                           const struct trainer_watch *watch, struct trainer_end *end,
                           GError **error)
{
    struct training training = {0};
    struct loop loop = {.training = &training,
                        .watch = watch,
                        .end = end,
                        .pace = pace_new(),
                        .summary = {.eval_loss = NAN, .longest_pause = NAN}};
    watch->begin(watch->data);
    if (!training_open(&training, options, run, watch, error))
        say_least(run, *error);
    bool ok = agree_to_train(&training, watch, end, error);
    if (ok) {
        training_start(&training);
        loop.planned = planned_exchange(&training);
        open_saves(&loop, error);
        if (!*error)
            open_outputs(&loop, error);
        ok = agree(options, "", watch, end, error);
    }
    if (ok) {
        if (!train(&loop, error))
            failure_mark(error, FAILURE_RUNNING);
        ok = agree(options, "", watch, end, error);
    }
    watch->end(watch->data);
    run_log_close(loop.log);
    g_clear_error(&loop.lost);
    pace_clear(&loop.pace);
    training_clear(&training);
    return ok;
}

static bool show_plan(const struct run_options *options, const struct run_plan *run,
                      const struct trainer_watch *watch, struct trainer_end *end, GError **error)
{
    struct training training;
    training_open(&training, options, run, watch, error);
    bool alike = agree_to_train(&training, watch, end, error);
    training_clear(&training);
    if (!alike)
        return false;
    g_autofree struct stage_row *stages = stage_rows(options, run, &run->plan->predicted);
    if (training_is_first(options))
        run_report_print_dry(run, options->ranks, stages, options->json);
    emit_plan(options, run, error);
    return agree(options, "", watch, end, error);
}

bool trainer_run(const struct run_options *options, const struct trainer_watch *watch,
                 struct trainer_end *end, GError **error)
{
    struct run_plan run;
    GError *problem = NULL;
    *end = (struct trainer_end){0};
    bool prepared = run_plan_prepare(&run, options, &problem);
    mark_memory(&problem);
    bool ok = together_agree_that_fits(options, watch->status_of, &end->elsewhere, &problem);
    if (ok) {
        together_check_disk(options, &run, &problem);
        ok = agree(options, "", watch, end, &problem);
    }
    if (ok)
        ok = options->dry_run ? show_plan(options, &run, watch, end, &problem)
                              : open_and_train(options, &run, watch, end, &problem);
    if (prepared)
        run_plan_clear(&run);
    if (problem)
        g_propagate_error(error, problem);
    return ok;
}
