/* pstar-trace synth: a trace of a model that never ran. */
#include "base/failure.h"
#include "base/printable.h"
#include "base/size.h"
#include "cli/pstar_trace.h"
#include "models/expert_rows.h"
#include "models/synth.h"
#include "models/train_choice.h"
#include "traces/choices.h"
#include "traces/trace_file.h"

#include <stdio.h>

enum { NO_PRECISION = UINT8_MAX };

struct synth_arguments {
    char *model, *train, *expert_loads, *recompute, *offload, *state_block, *platform, *output;
    uint32_t batch, sequence, micro_batches, bytes_per_parameter, ranks, stage; /* 0 if not given */
    uint8_t precision; /* enum model_precision, or NO_PRECISION */
    bool host_embedding, host_update, unfused, gelu_apart, clip, lists_platforms;
    uint8_t reduction; /* enum reduction */
};

/* *chosen is NULL if the option is not given; free it with g_free. */
static bool choose_layers(const char *option, const char *text, uint32_t layers, uint8_t **chosen,
                          GError **error)
{
    *chosen = text ? g_new0(uint8_t, layers) : NULL;
    return !text || run_layers_parse(text, *chosen, layers) ||
           options_refuse(error, "%s %s: must be all, none, or layers in [0, %u], such as 0,3,8-11",
                          option, text, layers - 1);
}

static bool write_trace(const struct trace *trace, const char *output, GError **error)
{
    if (!trace_write(trace, output, error))
        return failure_mark(error, FAILURE_RUNNING);
    g_autofree char *bytes = size_format(trace_model_bytes(trace));
    text_print_line(stdout, "%s: %s of model data, %u tensors, %u operators", output, bytes,
                    trace->tensor_count, trace->operator_count);
    return true;
}

/* Says how many experts forward and backward read, all layers together. */
static void print_experts(const struct model_config *config, const struct model_job *job)
{
    uint64_t rows = (uint64_t)job->choices.batch * job->sequence;
    uint32_t used = expert_count_used(config, rows), all = config->layers * config->experts;
    if (config->experts)
        text_print_line(stdout,
                        "experts: %" G_GUINT64_FORMAT
                        " rows a layer, %u to a token, go to %u of %u "
                        "(%.3g %%); all are updated",
                        rows * config->experts_per_token, config->experts_per_token, used, all,
                        100.0 * used / all);
}

static bool synthesise(const struct synth_arguments *a, struct model_config *config,
                       const struct platform *platform, GError **error)
{
    g_autofree uint8_t *recompute = NULL, *offload = NULL, *host_update = NULL, *frozen = NULL;
    uint64_t state_block;
    if (!expert_loads_choose(config, a->expert_loads, error) ||
        !model_choose_trained(config, a->train, 0, &frozen, error) ||
        !model_state_block(config, a->state_block, &state_block, error) ||
        !choose_layers("--recompute", a->recompute, config->layers, &recompute, error) ||
        !choose_layers("--offload-activations", a->offload, config->layers, &offload, error))
        return false;
    if (a->host_update)
        host_update = model_every_tensor(config);
    struct model_job job = {
        .choices = {.batch = a->batch,
                    .micro_batches = a->micro_batches ? a->micro_batches : a->ranks,
                    .recompute = recompute,
                    .offload = offload,
                    .host_embedding = a->host_embedding,
                    .host_update = host_update,
                    .frozen = frozen,
                    .stage = (uint8_t)(a->ranks == 1               ? 0
                                       : a->stage == RUN_ANY_STAGE ? 2
                                                                   : a->stage),
                    .fast = a->ranks > 1 && a->reduction == RUN_REDUCTION_FAST,
                    .state_block = state_block},
        .sequence = a->sequence,
        .ranks = a->ranks,
        .precision = a->precision,
        .unfused = a->unfused,
        .gelu_apart = a->gelu_apart,
    };
    if (a->bytes_per_parameter &&
        !model_split_masters(&job, a->bytes_per_parameter, &job.choices.split_masters, error))
        return false;
    job.choices.second_backward = a->clip && model_gradient_layout(&job) == MODEL_GRADIENT_BUFFER;
    struct trace *trace = model_synthesise(config, &job, platform, error);
    if (trace && !trace->producer)
        trace->producer = g_strdup("pstar-trace " PSTAR_VERSION);
    bool ok = trace && write_trace(trace, a->output, error);
    if (ok)
        print_experts(config, &job);
    trace_free(trace);
    return ok;
}

static int run(void *data, G_GNUC_UNUSED const struct console *console, GError **error)
{
    const struct synth_arguments *a = data;
    if (!a->model || !a->output)
        return options_refuse(error, "synth needs --model CONFIG and -o FILE");
    if (!a->batch || !a->sequence || a->precision == NO_PRECISION)
        return options_refuse(error, "synth needs --batch, --seq and --precision");
    bool fast = a->reduction == RUN_REDUCTION_FAST;
    if (fast && a->ranks == 1)
        return options_refuse(error, "--reduction fast: one rank sums nothing; it needs --ranks");
    if (a->stage != RUN_ANY_STAGE && a->ranks == 1)
        return options_refuse(error, "--stage %u: one rank shares nothing; it needs --ranks",
                              a->stage);
    if (a->stage < 2 && !fast)
        return options_refuse(error, "--stage %u needs --reduction fast", a->stage);
    struct model_config *config = model_config_read(a->model, error);
    struct platform *platform = NULL;
    if (config && (!a->platform || (platform = platform_read(a->platform, error))) &&
        (!platform || a->ranks == 1 || platform_spread_ranks(platform, a->ranks, 0, error)))
        synthesise(a, config, platform, error);
    platform_free(platform);
    model_config_free(config);
    return STATUS_DONE;
}

int pstar_trace_synth(int argc, char **argv)
{
    struct synth_arguments a = {.ranks = 1, .stage = RUN_ANY_STAGE, .precision = NO_PRECISION};
    const struct option options[] = {
        {.shared = OPTION_MODEL, .file = &a.model},
        {.shared = OPTION_TRAIN, .text = &a.train},
        {.shared = OPTION_BATCH, .count32 = &a.batch, .least = 1},
        {.shared = OPTION_SEQUENCE, .count32 = &a.sequence, .least = 1},
        {.shared = OPTION_PRECISION, .choice = &a.precision},
        {.shared = OPTION_MICRO_BATCHES,
         .count32 = &a.micro_batches,
         .help = "default: 1",
         .least = 1},
        {.name = "ranks",
         .count32 = &a.ranks,
         .help = "Ranks that share the micro-batches, of which there is one each by default; the "
                 "trace is of one rank",
         .value = "P",
         .least = 1,
         .most = 1 << 20},
        {.shared = OPTION_STAGE, .count32 = &a.stage, .help = "default: 2", .most = 3},
        {.shared = OPTION_REDUCTION, .choice = &a.reduction, .help = "default: exact"},
        {.shared = OPTION_BYTES_PER_PARAMETER, .count32 = &a.bytes_per_parameter},
        {.shared = OPTION_STATE_BLOCK, .text = &a.state_block},
        {.name = "clip",
         .flag = &a.clip,
         .help = "Clip gradients by their norm; with 12 bytes per parameter, backward runs twice"},
        {.name = "expert-loads",
         .text = &a.expert_loads,
         .help =
             "How rows spread over a mixture's experts: balanced, numbers for all experts such "
             "as 4,2,1,1, or a JSON file with such a list, or with one for each layer; default: "
             "balanced",
         .value = "LOADS"},
        {.shared = OPTION_RECOMPUTE, .text = &a.recompute, .help = "default: none"},
        {.shared = OPTION_OFFLOAD_ACTIVATIONS, .text = &a.offload, .help = "default: none"},
        {.shared = OPTION_HOST_EMBEDDING, .flag = &a.host_embedding},
        {.shared = OPTION_HOST_UPDATE, .flag = &a.host_update},
        {.name = "unfused",
         .flag = &a.unfused,
         .help = "As in frameworks that fuse no operators: attention scores lie in memory"},
        {.name = "gelu-apart",
         .flag = &a.gelu_apart,
         .help = "As in frameworks whose products do not compute GELU's derivative, such as "
                 "PyTorch; with --unfused always so"},
        {.shared = OPTION_PLATFORM, .file = &a.platform, .help = "durations are estimated for it"},
        {.shared = OPTION_LIST_PLATFORMS, .flag = &a.lists_platforms, .use = OPTION_PRINTS},
        {.shared = OPTION_OUTPUT,
         .file = &a.output,
         .use = OPTION_WRITES_FILE,
         .value = "FILE.pstar"},
    };
    return pstar_trace_command(
        "synth",
        "Writes the trace of one iteration of a model that never ran, by "
        "counting operations and bytes.",
        &(struct example){"Describe a step of a model with a machine's data sheet.",
                          "pstar-trace synth --model models/configs/gpt2.json --batch 4 --seq 1024 "
                          "--precision bf16 --platform platforms/a100-40gb.json -o gpt2.pstar"},
        options, G_N_ELEMENTS(options), run, &a, argc, argv);
}
