#include "engine/train/trainer.h"

#include "engine/device.h"
#include "engine/train/interrupt.h"
#include "engine/train/progress.h"
#include "engine/train/run_log.h"
#include "engine/train/run_report.h"
#include "engine/train/training.h"

#include <math.h>

/* What the loop keeps beside the training itself. */
struct loop {
    struct training *training;
    struct run_log *log;
    struct progress progress;
    struct interrupt interrupt;
    struct run_summary summary;
};

static double step_flops(const struct trace *trace)
{
    double flops = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        flops += (double)trace->operators[m].flops;
    return flops;
}

static struct progress start_progress(const struct training *training)
{
    struct progress progress = {.shown = progress_wanted(), .steps = training->options->steps};
    struct device *device = engine_device(training->engine);
    if (progress.shown) {
        progress.step_flops = step_flops(training->run->iteration->trace);
        progress.peak_flops = device->ops->peak_flops(device,
                                                      training->run->iteration->job.precision);
    }
    return progress;
}

static bool is_due(uint64_t step, uint64_t every, bool last)
{
    return last || (every && step % every == 0);
}

static void summarise(struct run_summary *summary, const struct run_log_entry *entry)
{
    if (summary->steps++ == 0)
        summary->first_loss = entry->loss;
    summary->last = *entry;
    if (!isnan(entry->eval_loss))
        summary->eval_loss = entry->eval_loss;
}

static bool take_step(struct loop *loop, bool *last, GError **error)
{
    struct training *training = loop->training;
    const struct run_options *options = training->options;
    struct run_log_entry entry = {
        .learning_rate = schedule_learning_rate(&training->state.schedule, training->state.step),
        .eval_loss = NAN};
    struct engine_result result;
    if (!training_step(training, &result, error))
        return false;
    uint64_t step = training->state.step;
    const struct model_job *job = &training->run->iteration->job;
    double seconds = result.figures.iteration_seconds;
    entry.step = step;
    entry.loss = result.loss;
    entry.gradient_norm = result.gradient_norm;
    entry.tokens_per_second = (double)job->micro_batches * job->batch * job->sequence / seconds;
    entry.figures = result.figures;
    progress_step(&loop->progress, step, seconds, entry.loss, entry.tokens_per_second);

    *last = step == options->steps || interrupt_arrived(&loop->interrupt);
    if (training_can_evaluate(training) && is_due(step, options->eval_every, *last) &&
        !training_evaluate(training, &entry.eval_loss, error))
        return false;
    summarise(&loop->summary, &entry);
    if (!run_log_write(loop->log, &entry, error))
        return false;
    return !options->save || !is_due(step, options->save_every, *last) ||
           training_save(training, error);
}

static bool take_steps(struct loop *loop, GError **error)
{
    bool last = false, good = true;
    while (good && !last)
        good = take_step(loop, &last, error);
    progress_end(&loop->progress);
    return good;
}

static bool train(struct loop *loop, GError **error)
{
    struct training *training = loop->training;
    const struct run_options *options = training->options;
    GArray *sample = NULL;
    loop->summary.unigram_entropy = data_unigram_entropy(training->data);
    run_log_describe(loop->log, training->run->plan, training->run->capacity.library_bytes,
                     loop->summary.unigram_entropy);
    loop->progress = start_progress(training);
    if (!take_steps(loop, error))
        return false;
    if (options->sample && !(sample = training_sample(training, error)))
        return false;
    g_assert(engine_counts_agree(training->engine));
    loop->summary.sample = sample;
    run_report_print(training->run, &loop->summary, options->json);
    if (sample)
        g_array_unref(sample);
    return true;
}

/* 2 or 3 for what the user asked for and cannot have. */
static int refused(const GError *error)
{
    bool fits = !g_error_matches(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT) &&
                !g_error_matches(error, DEVICE_ERROR, DEVICE_ERROR_MEMORY);
    return fits ? 2 : 3;
}

static bool emit_plan(const struct run_options *options, const struct run_plan *run, GError **error)
{
    return !options->emit_plan || plan_write(run->plan, options->emit_plan, error);
}

static int open_and_train(const struct run_options *options, const struct run_plan *run,
                          GError **error)
{
    struct training training = {0};
    struct loop loop = {.training = &training, .summary = {.eval_loss = NAN}};
    GError *problem = NULL;
    int status = 0;
    interrupt_open(&loop.interrupt);
    if (!training_open(&training, options, run, &problem) ||
        !(loop.log = run_log_open(options->log, &problem)) || !emit_plan(options, run, &problem))
        status = refused(problem);
    else if (!train(&loop, &problem))
        status = 1;
    interrupt_close(&loop.interrupt);
    run_log_close(loop.log);
    training_clear(&training);
    if (problem)
        g_propagate_error(error, problem);
    return status;
}

static int show(const struct run_options *options, const struct run_plan *run, GError **error)
{
    run_report_print_dry(run, options->json);
    return emit_plan(options, run, error) ? 0 : 2;
}

int trainer_run(const struct run_options *options, GError **error)
{
    struct run_plan run;
    GError *problem = NULL;
    if (!run_plan_prepare(&run, options, &problem)) {
        int status = refused(problem);
        g_propagate_error(error, problem);
        return status;
    }
    int status = options->dry_run ? show(options, &run, error)
                                  : open_and_train(options, &run, error);
    run_plan_clear(&run);
    return status;
}
