#include "engine/train/trainer.h"

#include "engine/device.h"
#include "engine/train/run_log.h"
#include "engine/train/run_report.h"
#include "engine/train/training.h"
#include "traces/failure.h"

#include <math.h>

/* What the loop keeps beside the training itself. */
struct loop {
    struct training *training;
    struct run_log *log;
    const struct trainer_watch *watch;
    double step_flops, peak_flops; /* 0: nobody watches */
    struct run_summary summary;
};

static double step_flops(const struct trace *trace)
{
    double flops = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        flops += (double)trace->operators[m].flops;
    return flops;
}

static void measure_peak(struct loop *loop)
{
    const struct training *training = loop->training;
    struct device *device = engine_device(training->engine);
    if (!loop->watch->shown)
        return;
    loop->step_flops = step_flops(training->run->iteration->trace);
    loop->peak_flops = device->ops->peak_flops(device, training->run->iteration->job.precision);
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
    entry.tokens_per_second = (double)job->choices.micro_batches * job->choices.batch *
                              job->sequence / seconds;
    entry.figures = result.figures;
    const struct trainer_step done = {.step = step,
                                      .steps = options->steps,
                                      .seconds = seconds,
                                      .loss = entry.loss,
                                      .tokens_per_second = entry.tokens_per_second,
                                      .flops = loop->step_flops,
                                      .peak_flops = loop->peak_flops};
    bool go_on = loop->watch->step(loop->watch->data, &done);
    *last = step == options->steps || !go_on;
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
    bool last = false, ok = true;
    while (ok && !last)
        ok = take_step(loop, &last, error);
    return ok;
}

static bool train(struct loop *loop, GError **error)
{
    struct training *training = loop->training;
    const struct run_options *options = training->options;
    GArray *sample = NULL;
    loop->summary.unigram_entropy = data_unigram_entropy(training->data);
    run_log_describe(loop->log, training->run->plan, training->run->capacity.library_bytes,
                     loop->summary.unigram_entropy);
    measure_peak(loop);
    bool ok = take_steps(loop, error);
    loop->watch->end(loop->watch->data);
    if (!ok)
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

static bool emit_plan(const struct run_options *options, const struct run_plan *run, GError **error)
{
    return !options->emit_plan || plan_write(run->plan, options->emit_plan, error);
}

static bool open_and_train(const struct run_options *options, const struct run_plan *run,
                           const struct trainer_watch *watch, GError **error)
{
    struct training training = {0};
    struct loop loop = {.training = &training, .watch = watch, .summary = {.eval_loss = NAN}};
    watch->begin(watch->data);
    bool ok = training_open(&training, options, run, error) &&
              (loop.log = run_log_open(options->log, error)) && emit_plan(options, run, error);
    if (ok && !train(&loop, error))
        ok = failure_mark(error, FAILURE_RUNNING);
    watch->end(watch->data);
    run_log_close(loop.log);
    training_clear(&training);
    return ok;
}

static bool show(const struct run_options *options, const struct run_plan *run, GError **error)
{
    run_report_print_dry(run, options->json);
    return emit_plan(options, run, error);
}

bool trainer_run(const struct run_options *options, const struct trainer_watch *watch,
                 GError **error)
{
    struct run_plan run;
    GError *problem = NULL;
    bool ok = run_plan_prepare(&run, options, &problem);
    if (ok) {
        ok = options->dry_run ? show(options, &run, &problem)
                              : open_and_train(options, &run, watch, &problem);
        run_plan_clear(&run);
    }
    if (g_error_matches(problem, DEVICE_ERROR, DEVICE_ERROR_MEMORY))
        failure_mark(&problem, FAILURE_DOES_NOT_FIT);
    if (problem)
        g_propagate_error(error, problem);
    return ok;
}
