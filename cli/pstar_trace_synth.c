/* pstar-trace synth: a trace of a model that never ran. */
#include "cli/pstar_trace.h"
#include "models/synth.h"
#include "traces/choices.h"
#include "traces/size.h"
#include "traces/trace_file.h"

#include <stdio.h>
#include <string.h>

struct options {
    char *model, *precision, *recompute, *offload, *platform, *output;
    gint64 batch, sequence, micro_batches, bytes_per_parameter;
    gboolean host_embedding, host_update, unfused, clip;
};

/* *chosen is NULL for none; free with g_free. PSTAR_TRACE_DONE, or another status after a message.
 */
static int choose_layers(const char *option, const char *text, uint32_t layers, uint8_t **chosen)
{
    *chosen = text ? g_new0(uint8_t, layers) : NULL;
    if (!text || run_layers_parse(text, *chosen, layers))
        return PSTAR_TRACE_DONE;
    return pstar_trace_usage("%s %s: all, none, or layers from 0 to %u such as 0,3,8-11", option,
                             text, layers - 1);
}

static bool is_count(gint64 number)
{
    return number >= 1 && number <= UINT32_MAX;
}

/* PSTAR_TRACE_DONE, or another status after a message. */
static int check_options(const struct options *options)
{
    if (!options->model || !options->output)
        return pstar_trace_usage("synth needs --model CONFIG and -o FILE");
    if (!is_count(options->batch) || !is_count(options->sequence) ||
        !is_count(options->micro_batches))
        return pstar_trace_usage("synth needs --batch, --seq and --micro-batches of at least 1");
    if (options->bytes_per_parameter < 0 || options->bytes_per_parameter > UINT32_MAX)
        return pstar_trace_usage("--bytes-per-parameter: see --help");
    if (g_strcmp0(options->precision, "fp32") != 0 && g_strcmp0(options->precision, "bf16") != 0)
        return pstar_trace_usage("synth needs --precision fp32 or bf16");
    return PSTAR_TRACE_DONE;
}

static int write_trace(const struct trace *trace, const char *output)
{
    GError *error = NULL;
    if (!trace_write(trace, output, &error))
        return pstar_trace_fail(PSTAR_TRACE_FAILED, error);
    char *bytes = size_format(trace_model_bytes(trace));
    printf("%s: %s of model data, %u tensors, %u operators\n", output, bytes, trace->tensor_count,
           trace->operator_count);
    g_free(bytes);
    return PSTAR_TRACE_DONE;
}

static int synthesise(const struct options *options, const struct model_config *config,
                      const struct platform *platform, const uint8_t *recompute,
                      const uint8_t *offload)
{
    uint8_t *host_update = options->host_update ? model_every_tensor(config) : NULL;
    struct model_job job = {
        .batch = (uint32_t)options->batch,
        .sequence = (uint32_t)options->sequence,
        .micro_batches = (uint32_t)options->micro_batches,
        .precision = strcmp(options->precision, "bf16") == 0 ? MODEL_BF16 : MODEL_FP32,
        .recompute = recompute,
        .offload = offload,
        .host_embedding = options->host_embedding,
        .clip = options->clip,
        .unfused = options->unfused,
        .host_update = host_update,
    };
    GError *error = NULL;
    uint32_t bytes = (uint32_t)options->bytes_per_parameter;
    struct trace *trace = NULL;
    if (!bytes || model_split_masters(&job, bytes, &job.split_masters, &error))
        trace = model_synthesise(config, &job, platform, &error);
    int status;
    if (!trace) {
        status = pstar_trace_fail(PSTAR_TRACE_BAD_INPUT, error);
    } else {
        if (!trace->producer)
            trace->producer = g_strdup("pstar-trace " PSTAR_VERSION);
        status = write_trace(trace, options->output);
    }
    trace_free(trace);
    g_free(host_update);
    return status;
}

static int choose_and_synthesise(const struct options *options, const struct model_config *config,
                                 const struct platform *platform)
{
    g_autofree uint8_t *recompute = NULL, *offload = NULL;
    int status = choose_layers("--recompute", options->recompute, config->layers, &recompute);
    if (status == PSTAR_TRACE_DONE)
        status = choose_layers("--offload-activations", options->offload, config->layers, &offload);
    return status == PSTAR_TRACE_DONE ? synthesise(options, config, platform, recompute, offload)
                                      : status;
}

static int run(const struct options *options)
{
    GError *error = NULL;
    int status = check_options(options);
    if (status != PSTAR_TRACE_DONE)
        return status;
    struct model_config *config = model_config_read(options->model, &error);
    struct platform *platform = NULL;
    if (config && options->platform)
        platform = platform_read(options->platform, &error);
    status = error ? pstar_trace_fail(PSTAR_TRACE_BAD_INPUT, error)
                   : choose_and_synthesise(options, config, platform);
    platform_free(platform);
    model_config_free(config);
    return status;
}

int pstar_trace_synth(int argc, char **argv)
{
    struct options options = {.micro_batches = 1};
    const GOptionEntry entries[] = {
        {"model", 0, 0, G_OPTION_ARG_FILENAME, &options.model,
         "A config.json of the GPT-2 family, or its folder", "CONFIG"},
        {"batch", 0, 0, G_OPTION_ARG_INT64, &options.batch, "Sequences a micro-batch", "B"},
        {"seq", 0, 0, G_OPTION_ARG_INT64, &options.sequence, "Tokens a sequence", "T"},
        {"precision", 0, 0, G_OPTION_ARG_STRING, &options.precision, "Of the parameters",
         "fp32|bf16"},
        {"micro-batches", 0, 0, G_OPTION_ARG_INT64, &options.micro_batches,
         "Micro-batches a step (default 1)", "M"},
        {"bytes-per-parameter", 0, 0, G_OPTION_ARG_INT64, &options.bytes_per_parameter,
         "Of model data in bf16: 14 (default) or 12; with several micro-batches 18 or 16", "N"},
        {"clip", 0, 0, G_OPTION_ARG_NONE, &options.clip,
         "Gradients are clipped by their norm: with 12 bytes a parameter, backward runs twice",
         NULL},
        {"recompute", 0, 0, G_OPTION_ARG_STRING, &options.recompute,
         "Layers that compute their activations again (default none)", "all|none|LIST"},
        {"offload-activations", 0, 0, G_OPTION_ARG_STRING, &options.offload,
         "Layers whose activations may leave the device (default none)", "all|none|LIST"},
        {"host-embedding", 0, 0, G_OPTION_ARG_NONE, &options.host_embedding,
         "The embedding runs on the host", NULL},
        {"host-update", 0, 0, G_OPTION_ARG_NONE, &options.host_update,
         "The optimizer runs on the host", NULL},
        {"unfused", 0, 0, G_OPTION_ARG_NONE, &options.unfused,
         "As frameworks that fuse nothing: attention's scores lie in memory", NULL},
        {"platform", 0, 0, G_OPTION_ARG_FILENAME, &options.platform,
         "Estimate durations for this machine", "FILE"},
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &options.output, "The trace", "FILE.pstar"},
        {0}};
    int status = PSTAR_TRACE_BAD_INPUT;
    if (pstar_trace_parse(argc, argv, "synth",
                          "Writes the trace of one iteration of a model that never ran, by "
                          "counting operations and bytes.",
                          entries))
        status = run(&options);
    g_free(options.model);
    g_free(options.precision);
    g_free(options.recompute);
    g_free(options.offload);
    g_free(options.platform);
    g_free(options.output);
    return status;
}
