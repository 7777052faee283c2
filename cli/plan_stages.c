#include "cli/plan_stages.h"

#include "chunks/stage_path.h"
#include "cli/budgets.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "models/family.h"
#include "models/train_choice.h"
#include "planner/answers/pipelines.h"
#include "sim/operator_times.h"
#include "sim/replay.h"
#include "sim/sizes.h"
#include "traces/trace_file.h"

#include <string.h>

enum { USUAL_SEQUENCE = 2048, USUAL_TOP = 10, MOST_SEQUENCES = 1 << 20 };

/* What the options name. */
struct inputs {
    struct model_config *config; /* without a trace */
    struct trace *trace;
    struct recognised *recognised; /* of the trace */
    struct platform *platform;
    uint8_t *recompute;                  /* NULL: as few layers as fit */
    uint8_t *chosen;                     /* what --train freezes; NULL: nothing */
    const uint8_t *frozen;               /* what the trace freezes; NULL: nothing */
    uint64_t device_budget, host_budget; /* the host's is 0 if it is not given */
    uint32_t stages, top;
};

static void inputs_clear(struct inputs *in)
{
    model_config_free(in->config);
    recognised_free(in->recognised);
    trace_free(in->trace);
    platform_free(in->platform);
    g_free(in->recompute);
    g_free(in->chosen);
}

static bool read_stages(const struct plan_stages *asked, struct inputs *in, GError **error)
{
    guint64 number = 0;
    if (strcmp(asked->stages, "any") != 0 &&
        !g_ascii_string_to_unsigned(asked->stages, 10, 1, 1 << 20, &number, NULL))
        return options_refuse(error, "--stages %s: must be any, or how many", asked->stages);
    in->stages = (uint32_t)number;
    if (number && asked->gpus % number != 0)
        return options_refuse(error, "--gpus %u: must be a multiple of the %u stages", asked->gpus,
                              in->stages);
    return true;
}

/* Stages share losses and norms before their first update, so each has one, wherever it is cut. */
static bool trains_every_layer(const struct model_config *config, const uint8_t *frozen)
{
    const struct model_layout layout = model_layout_of(config);
    for (uint32_t l = 0; frozen && l < config->layers; l++)
        if (!memchr(frozen + layout.first_layer + l * layout.layer_tensors, 0,
                    layout.layer_tensors))
            return false;
    return true;
}

static bool read_config(const struct plan_stages *asked, struct inputs *in, GError **error)
{
    in->config = model_config_read(asked->about->model, error);
    return in->config &&
           model_choose_trained(in->config, asked->about->train, 0, &in->chosen, error) &&
           (trains_every_layer(in->config, in->chosen) ||
            options_refuse(error,
                           "--train %s: plans of stages train something in every layer, so far",
                           asked->about->train));
}

static bool read_model(const struct plan_stages *asked, struct inputs *in, GError **error)
{
    if (asked->about->model)
        return read_config(asked, in, error);
    if (!(in->trace = trace_read_whole(asked->trace, error)) ||
        !replay_check_trace(in->trace, asked->trace, error) ||
        !(in->recognised = recognise(in->trace, error)))
        return false;
    in->frozen = in->recognised->iteration->choices->frozen;
    return trains_every_layer(in->recognised->config, in->frozen) ||
           options_refuse(error,
                          "--stages: plans of stages train something in every layer, so far, and "
                          "%s does not",
                          asked->trace);
}

static const struct model_config *config_of(const struct inputs *in)
{
    return in->config ? in->config : in->recognised->config;
}

static bool check_depth(const struct inputs *in, GError **error)
{
    uint32_t layers = config_of(in)->layers;
    if (in->stages != 1 && !pipeline_check_model(config_of(in), error)) {
        g_prefix_error(error, "--stages: ");
        return false;
    }
    return in->stages <= layers ||
           options_refuse(error, "--stages %u: the model has only %u layers", in->stages, layers);
}

static bool read_budget(const struct plan_stages *asked, struct inputs *in, GError **error)
{
    const struct budget_request request = {.console = asked->console,
                                           .device_memory = asked->device_memory,
                                           .host_memory = asked->host_memory,
                                           .platform = in->platform,
                                           .trace = in->trace};
    uint64_t host_budget;
    if (asked->device_memory && strpbrk(asked->device_memory, "%,"))
        return options_refuse(error,
                              "--device-memory %s: stages differ in size; say how many bytes the "
                              "device of each has",
                              asked->device_memory);
    g_autoptr(GArray) budgets = budgets_read(&request, &host_budget, error);
    if (!budgets)
        return false;
    in->device_budget = g_array_index(budgets, uint64_t, 0);
    in->host_budget = asked->host_memory ? host_budget : 0;
    if (in->trace) /* without what libraries hold */
        in->device_budget = sizes_arena(in->device_budget, in->trace);
    return true;
}

/* Marks the layers that the trace recomputes; none without a trace. */
static void take_recompute(const struct plan_stages *asked, struct inputs *in)
{
    uint32_t layers = config_of(in)->layers;
    if (!asked->as_traced)
        return;
    in->recompute = g_new0(uint8_t, layers);
    if (in->trace)
        memcpy(in->recompute, in->recognised->iteration->choices->recompute, layers);
}

static bool read_inputs(const struct plan_stages *asked, struct inputs *in, GError **error)
{
    if (!options_parse_top(asked->top, USUAL_TOP, &in->top, error) ||
        !read_stages(asked, in, error) || !read_model(asked, in, error) ||
        !check_depth(in, error) ||
        (asked->platform && !(in->platform = platform_read(asked->platform, error))) ||
        !read_budget(asked, in, error))
        return false;
    take_recompute(asked, in);
    return true;
}

/* Micro-batches of other sizes take another time, which is only known of a synthesis. */
static bool check_times(const struct plan_stages *asked, const struct inputs *in, GError **error)
{
    if (!in->trace || !asked->any_micro_batch)
        return true;
    return (in->platform && model_is_synthesised(in->recognised, in->trace, in->platform)) ||
           options_refuse(error, "--micro-batch any: needs a trace that was synthesised for the "
                                 "--platform, because others have times for one size only");
}

static struct pipeline_question question_of(const struct plan_stages *asked,
                                            const struct inputs *in)
{
    const struct model_config *config = config_of(in);
    bool fp32 = asked->about->precision && strcmp(asked->about->precision, "fp32") == 0;
    struct pipeline_question q = {
        .config = config,
        .recognised = in->recognised,
        .trace = in->trace,
        .platform = in->platform,
        .link = asked->link,
        .sequence = asked->about->sequence ? asked->about->sequence
                                           : MIN(config->positions, USUAL_SEQUENCE),
        .precision = fp32 ? MODEL_FP32 : MODEL_BF16,
        .sequences = MAX(asked->about->batch, 1) * MAX(asked->micro_batches, 1),
        .gpus = asked->gpus,
        .nodes = asked->nodes,
        .stages = in->stages,
        .schedule = asked->schedule ? asked->schedule - 1U : PIPELINE_SCHEDULE_ANY,
        .parts = asked->parts,
        .clips = !asked->unclipped,
        .fast = asked->fast,
        .frozen = in->chosen ? in->chosen : in->frozen,
        .recompute = in->recompute,
        .device_budget = in->device_budget,
        .host_budget = in->host_budget,
        .threads = asked->threads,
        .wants_plans = asked->output != NULL,
        .seed = asked->seed,
        .time_limit = asked->time_limit};
    uint32_t micro_batch = MAX(asked->about->batch, 1);
    if (in->trace) {
        const struct model_job *job = &in->recognised->iteration->job;
        micro_batch = job->choices.batch;
        q.sequence = job->sequence;
        q.precision = job->precision;
        q.sequences = micro_batch *
                      (asked->micro_batches ? asked->micro_batches : job->choices.micro_batches);
    }
    q.batch = micro_batch;
    q.micro_batch = asked->any_micro_batch ? 0 : micro_batch;
    return q;
}

/* Notes what is not known of the machine. */
static void note(const struct plan_stages *asked, const struct inputs *in)
{
    g_autofree char *times = in->trace ? operator_times_note(in->trace, in->platform) : NULL;
    if (times)
        console_note(asked->console, "%s", times);
    if (!in->platform || (!in->platform->network.source && !in->platform->node.level.source))
        console_note(asked->console, "no platform says how stages exchange: messages take no time");
}

static bool check_usage(const struct plan_stages *asked, GError **error)
{
    if (!asked->gpus)
        return options_refuse(error, "--stages: needs --gpus, which are shared by the stages");
    if (!asked->about->model == !asked->trace)
        return options_refuse(error, "--stages: takes a TRACE, or a --model");
    if (asked->about->model && !asked->platform)
        return options_refuse(error, "--stages: a --model takes a --platform");
    if (asked->about->model && !asked->micro_batches)
        return options_refuse(error, "--stages: a --model takes --batch and --micro-batches, "
                                     "which say how many sequences a step has");
    if (asked->trace && (asked->about->batch || asked->about->sequence || asked->about->precision ||
                         asked->about->train))
        return options_refuse(error,
                              "--batch, --seq, --precision and --train: the trace says them");
    if ((uint64_t)MAX(asked->about->batch, 1) * MAX(asked->micro_batches, 1) > MOST_SEQUENCES)
        return options_refuse(error,
                              "--batch %u --micro-batches %u: a step has at most %d sequences",
                              asked->about->batch, asked->micro_batches, MOST_SEQUENCES);
    if (asked->parts && asked->schedule != PIPELINE_INTERLEAVED + 1)
        return options_refuse(error, "--stage-parts %u: goes with --schedule interleaved",
                              asked->parts);
    if (asked->output && !stage_path_has_place(asked->output))
        return options_refuse(error,
                              "-o %s: each stage has a plan of its own; \"%%s\" in the name stands "
                              "for the stage's number",
                              asked->output);
    if (asked->nodes && !asked->platform)
        return options_refuse(error, "--nodes needs --platform");
    return true;
}

/* Prints the answer when the line of the progress is gone. */
static bool answer(const struct pipeline_question *question,
                   const struct pipeline_request_files *files, struct progress *progress,
                   GError **error)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    g_assert(out);
    bool ok = pipelines_answer(question, files, out, error);
    fclose(out);
    progress_clear(progress);
    fputs(text, stdout);
    free(text);
    return ok;
}

bool plan_stages(const struct plan_stages *asked, int *signal, GError **error)
{
    struct inputs in = {0};
    bool ok = check_usage(asked, error) && read_inputs(asked, &in, error) &&
              check_times(asked, &in, error);
    if (ok) {
        struct pipeline_question question = question_of(asked, &in);
        struct progress *progress = progress_begin(asked->console, "candidates, shapes and stages",
                                                   true);
        question.progress = progress_update;
        question.progress_data = progress;
        const struct pipeline_request_files files = {.json = asked->json,
                                                     .model = asked->about->model,
                                                     .train = asked->about->train,
                                                     .plans = asked->output,
                                                     .top = in.top};
        ok = answer(&question, &files, progress, error);
        *signal = progress_signal(progress);
        progress_end(progress);
        note(asked, &in);
    }
    inputs_clear(&in);
    return ok;
}
