/* pstar-trace synth: a trace of a model that never ran. */
#include "models/synth.h"
#include "traces/pstar_trace.h"
#include "traces/size.h"
#include "traces/trace_file.h"

#include <stdio.h>
#include <string.h>

struct options {
    char *model, *precision, *recompute, *platform, *output;
    gint64 batch, sequence, micro_batches, bytes_per_parameter;
    gboolean host_embedding, host_update, unfused;
};

/* "0,3,8-11" among `layers`; NULL on error. Free with g_free. */
static uint8_t *layers_from_list(const char *list, uint32_t layers)
{
    uint8_t *chosen = g_new0(uint8_t, layers);
    char **items = g_strsplit(list, ",", -1);
    bool good = items[0] != NULL;
    for (char **item = items; good && *item != NULL; item++) {
        char **ends = g_strsplit(*item, "-", 2);
        guint64 first = 0, last = 0;
        good = ends[0] != NULL &&
               g_ascii_string_to_unsigned(ends[0], 10, 0, layers - 1, &first, NULL) &&
               g_ascii_string_to_unsigned(ends[1] == NULL ? ends[0] : ends[1], 10, first,
                                          layers - 1, &last, NULL);
        for (guint64 layer = first; good && layer <= last; layer++)
            chosen[layer] = 1;
        g_strfreev(ends);
    }
    g_strfreev(items);
    if (!good)
        g_clear_pointer(&chosen, g_free);
    return chosen;
}

/* *chosen is NULL for none. */
static bool choose_layers(const char *text, uint32_t layers, uint8_t **chosen)
{
    *chosen = NULL;
    if (text == NULL || strcmp(text, "none") == 0)
        return true;
    if (strcmp(text, "all") == 0) {
        *chosen = g_new(uint8_t, layers);
        memset(*chosen, 1, layers);
        return true;
    }
    *chosen = layers_from_list(text, layers);
    return *chosen != NULL;
}

static bool is_count(gint64 number)
{
    return number >= 1 && number <= UINT32_MAX;
}

/* PSTAR_TRACE_DONE, or another status after a message. */
static int check_options(const struct options *options)
{
    if (options->model == NULL || options->output == NULL)
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
                      const struct platform *platform)
{
    uint8_t *recompute;
    if (!choose_layers(options->recompute, config->layers, &recompute))
        return pstar_trace_usage(
            "--recompute %s: all, none, or layers from 0 to %u such as 0,3,8-11",
            options->recompute, config->layers - 1);
    uint8_t *host_update = options->host_update ? model_every_tensor(config) : NULL;
    struct model_job job = {
        .batch = (uint32_t)options->batch,
        .sequence = (uint32_t)options->sequence,
        .micro_batches = (uint32_t)options->micro_batches,
        .precision = strcmp(options->precision, "bf16") == 0 ? MODEL_BF16 : MODEL_FP32,
        .recompute = recompute,
        .host_embedding = options->host_embedding,
        .unfused = options->unfused,
        .host_update = host_update,
    };
    GError *error = NULL;
    uint32_t bytes = (uint32_t)options->bytes_per_parameter;
    struct trace *trace = NULL;
    if (!bytes || model_split_master(&job, bytes, &job.split_master, &error))
        trace = model_synthesise(config, &job, platform, &error);
    int status;
    if (trace == NULL) {
        status = pstar_trace_fail(PSTAR_TRACE_BAD_INPUT, error);
    } else {
        if (trace->producer == NULL)
            trace->producer = g_strdup("pstar-trace " PSTAR_VERSION);
        status = write_trace(trace, options->output);
    }
    trace_free(trace);
    g_free(host_update);
    g_free(recompute);
    return status;
}

static int run(const struct options *options)
{
    GError *error = NULL;
    int status = check_options(options);
    if (status != PSTAR_TRACE_DONE)
        return status;
    struct model_config *config = model_config_read(options->model, &error);
    struct platform *platform = NULL;
    if (config != NULL && options->platform != NULL)
        platform = platform_read(options->platform, &error);
    status = error != NULL ? pstar_trace_fail(PSTAR_TRACE_BAD_INPUT, error)
                           : synthesise(options, config, platform);
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
        {"recompute", 0, 0, G_OPTION_ARG_STRING, &options.recompute,
         "Layers that compute their activations again (default none)", "all|none|LIST"},
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
    g_free(options.platform);
    g_free(options.output);
    return status;
}
