#include "engine/train/run_options.h"

#include "engine/devices.h"
#include "engine/train/data.h"
#include "models/iteration.h"
#include "traces/size.h"

#include <math.h>
#include <string.h>

#define NOT_GIVEN G_MININT64 /* of a number whose default depends on others */

/* What GOption fills: numbers that may be negative, and text that is parsed afterwards. */
struct raw {
    char *device, *device_memory, *host_memory, *chunk_size, *link, *precision, *data_order;
    gint64 steps, schedule_steps, warm_up_steps, eval_every, save_every, seed;
    gint64 batch, sequence, micro_batches, bytes_per_parameter, look_ahead, threads, sample;
};

static bool refuse(GError **error, const char *option, const char *value, const char *why)
{
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "%s %s: %s", option, value, why);
    return false;
}

static bool read_count(const char *option, gint64 value, gint64 least, gint64 most, uint64_t *count,
                       GError **error)
{
    if (value < least || value > most) {
        g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                    "%s %" G_GINT64_FORMAT ": not from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT,
                    option, value, least, most);
        return false;
    }
    *count = (uint64_t)value;
    return true;
}

static bool read_count32(const char *option, gint64 value, gint64 least, uint32_t *count,
                         GError **error)
{
    uint64_t wide;
    if (!read_count(option, value, least, INT32_MAX, &wide, error))
        return false;
    *count = (uint32_t)wide;
    return true;
}

/* From 1; left at 0 where it was not given. */
static bool read_optional(const char *option, gint64 value, gint64 most, uint64_t *count,
                          GError **error)
{
    return value == NOT_GIVEN || read_count(option, value, 1, most, count, error);
}

/* OpenMP ends the program where it gets no more threads. */
static bool read_optional32(const struct raw *raw, struct run_options *o, GError **error)
{
    enum { MOST_THREADS = 1024 };
    uint64_t threads = 0, sequence = 0, batch = 0, micro_batches = 0, bytes = 0;
    bool done =
        read_optional("--threads", raw->threads, MOST_THREADS, &threads, error) &&
        read_optional("--seq", raw->sequence, INT32_MAX, &sequence, error) &&
        read_optional("--batch", raw->batch, INT32_MAX, &batch, error) &&
        read_optional("--micro-batches", raw->micro_batches, INT32_MAX, &micro_batches, error) &&
        read_optional("--bytes-per-parameter", raw->bytes_per_parameter, INT32_MAX, &bytes, error);
    o->threads = (uint32_t)threads;
    o->sequence = (uint32_t)sequence;
    o->batch = (uint32_t)batch;
    o->micro_batches = (uint32_t)micro_batches;
    o->bytes_per_parameter = (uint32_t)bytes;
    return done;
}

static bool read_counts(const struct raw *raw, struct run_options *o, GError **error)
{
    gint64 most = G_MAXINT64;
    return read_count("--steps", raw->steps, 1, most, &o->steps, error) &&
           read_optional("--schedule-steps", raw->schedule_steps, most, &o->schedule_steps,
                         error) &&
           read_count("--warmup-steps", raw->warm_up_steps, 0, most, &o->warm_up_steps, error) &&
           read_count("--eval-every", raw->eval_every, 0, most, &o->eval_every, error) &&
           read_count("--save-every", raw->save_every, 0, most, &o->save_every, error) &&
           read_count("--seed", raw->seed, 0, most, &o->seed, error) &&
           read_count32("--look-ahead", raw->look_ahead, 0, &o->look_ahead, error) &&
           read_optional32(raw, o, error) &&
           read_count32("--sample", raw->sample, 0, &o->sample, error);
}

static bool read_size(const char *option, const char *text, uint64_t *bytes, GError **error)
{
    if (!text || size_parse(text, bytes, error))
        return true;
    g_prefix_error(error, "%s ", option);
    return false;
}

static bool read_chunk_sizes(const char *text, struct run_options *options, GError **error)
{
    options->sized = text != NULL;
    if (!text || chunk_sizes_parse(text, &options->chunk_sizes, error))
        return true;
    g_prefix_error(error, "--chunk-size %s: ", text);
    return false;
}

/* "h2d=12GB/s,d2h=10GB/s"; either may be left out. */
static bool read_link(const char *text, struct run_options *options, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(text ? text : "", ",", -1);
    for (char **part = parts; *part; part++) {
        double *rate = g_str_has_prefix(*part, "h2d=")   ? &options->h2d_rate
                       : g_str_has_prefix(*part, "d2h=") ? &options->d2h_rate
                                                         : NULL;
        if (!rate)
            return refuse(error, "--link", text, "not of the form h2d=RATE,d2h=RATE");
        if (!rate_parse(*part + 4, rate, error)) {
            g_prefix_error(error, "--link ");
            return false;
        }
    }
    return true;
}

/* The place of `text` among `names`, which end with NULL. */
static bool read_choice(const char *option, const char *text, const char *const *names,
                        uint8_t *choice, GError **error)
{
    for (uint8_t i = 0; names[i]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *choice = i;
            return true;
        }
    }
    g_autofree char *all = g_strjoinv(", ", (char **)names);
    g_autofree char *why = g_strconcat("not one of ", all, NULL);
    return refuse(error, option, text, why);
}

static bool read_device(const char *name, struct run_options *options, GError **error)
{
    g_autoptr(GError) why = NULL;
    options->device = devices_find(name ? name : device_cpu.name, &why);
    return options->device || refuse(error, "--device", name, why->message);
}

static bool read_names(const struct raw *raw, struct run_options *options, GError **error)
{
    static const char *const precisions[] = {
        [MODEL_FP32] = "fp32", [MODEL_BF16] = "bf16", [MODEL_BF16 + 1] = NULL};
    static const char *const orders[] = {
        [DATA_RANDOM] = "random", [DATA_SEQUENTIAL] = "sequential", [DATA_SEQUENTIAL + 1] = NULL};
    return read_device(raw->device, options, error) &&
           read_choice("--precision", raw->precision ? raw->precision : "fp32", precisions,
                       &options->precision, error) &&
           read_choice("--data-order", raw->data_order ? raw->data_order : "random", orders,
                       &options->data_order, error);
}

static bool read_sizes(const struct raw *raw, struct run_options *options, GError **error)
{
    return read_size("--device-memory", raw->device_memory, &options->device_budget, error) &&
           read_size("--host-memory", raw->host_memory, &options->host_budget, error) &&
           read_chunk_sizes(raw->chunk_size, options, error) &&
           read_link(raw->link, options, error) &&
           (!raw->link || options->device == &device_cpu ||
            refuse(error, "--link", raw->link, "paces the CPU device's copies alone"));
}

static bool check_reals(const struct run_options *o, GError **error)
{
    const struct {
        const char *option;
        double value, least, below;
    } reals[] = {
        {"--lr", o->learning_rate, 1e-30, INFINITY},
        {"--min-lr", o->least_learning_rate, 0, nextafter(o->learning_rate, INFINITY)},
        {"--weight-decay", o->weight_decay, 0, INFINITY},
        {"--beta1", o->beta1, 0, 1},
        {"--beta2", o->beta2, 0, 1},
        {"--epsilon", o->epsilon, 0, INFINITY},
        {"--clip", o->clip, 0, INFINITY},
        {"--held-out", o->held_out, 0, 1},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(reals); i++) {
        if (reals[i].value >= reals[i].least && reals[i].value < reals[i].below)
            continue;
        g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "%s %g: out of range",
                    reals[i].option, reals[i].value);
        return false;
    }
    return true;
}

static bool check_presence(struct run_options *options, GError **error)
{
    const char *missing = NULL;
    if (!options->model)
        options->model = g_strdup(options->resume);
    if (!options->model)
        missing = "--model";
    else if (!options->data && !options->dry_run)
        missing = "--data";
    if (missing)
        g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "%s is missing", missing);
    else if (options->plan &&
             (options->policy || options->sized || options->layout || options->look_ahead))
        missing = "--plan", refuse(error, "--plan", options->plan,
                                   "holds the policy, the chunks and the look-ahead already");
    else if (options->layout && options->sized)
        missing = "--layout", refuse(error, "--layout", options->layout,
                                     "says which chunks there are; leave out --chunk-size");
    return !missing;
}

static bool finish(const struct raw *raw, struct run_options *options, GError **error)
{
    if (!read_counts(raw, options, error) || !read_names(raw, options, error) ||
        !read_sizes(raw, options, error))
        return false;
    if (options->schedule_steps == 0)
        options->schedule_steps = options->steps;
    options->warm_up_steps = MIN(options->warm_up_steps, options->schedule_steps);
    if (options->least_learning_rate < 0)
        options->least_learning_rate = options->learning_rate / 10;
    return check_reals(options, error) && check_presence(options, error);
}

static void raw_clear(struct raw *raw)
{
    char *texts[] = {raw->device, raw->device_memory, raw->host_memory, raw->chunk_size,
                     raw->link,   raw->precision,     raw->data_order};
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        g_free(texts[i]);
}

#define TEXT(name, target, help, argument)                      \
    {                                                           \
        name, 0, 0, G_OPTION_ARG_STRING, target, help, argument \
    }
#define FILENAME(name, target, help, argument)                    \
    {                                                             \
        name, 0, 0, G_OPTION_ARG_FILENAME, target, help, argument \
    }
#define COUNT(name, target, help)                         \
    {                                                     \
        name, 0, 0, G_OPTION_ARG_INT64, target, help, "N" \
    }
#define REAL(name, target, help)                           \
    {                                                      \
        name, 0, 0, G_OPTION_ARG_DOUBLE, target, help, "X" \
    }
#define FLAG(name, target, help)                          \
    {                                                     \
        name, 0, 0, G_OPTION_ARG_NONE, target, help, NULL \
    }

static bool parse(struct raw *raw, struct run_options *o, gboolean flags[6], int *argc,
                  char ***argv, GError **error)
{
    const GOptionEntry entries[] = {
        FILENAME("model", &o->model,
                 "config.json to start from anew, or a folder with model.safetensors beside it",
                 "CONFIG"),
        FILENAME("data", &o->data, "Text, or llm.c's token file, to train on", "FILE"),
        TEXT("data-order", &raw->data_order, "random (default) or sequential", "ORDER"),
        REAL("held-out", &o->held_out, "Share at the end of the data that is only evaluated"),
        FILENAME("plan", &o->plan, "Train with this plan", "plan.json"),
        FILENAME("emit-plan", &o->emit_plan, "Write the plan that is trained with", "plan.json"),
        TEXT("device", &raw->device, "cpu (default) or cuda", "NAME"),
        TEXT("device-memory", &raw->device_memory, "Budget; everything resident by default",
             "SIZE"),
        TEXT("host-memory", &raw->host_memory, "Budget; unlimited by default", "SIZE"),
        TEXT("chunk-size", &raw->chunk_size,
             "Of the plan that a policy makes; a size a list: param=64MiB,master=1GiB",
             "SIZE|LIST=SIZE,.."),
        FILENAME("layout", &o->layout, "Chunks from a layout file or a plan, instead of a size",
                 "FILE"),
        TEXT("policy", &o->policy, "Who leaves the device first: opt by default", "NAME|./MINE.so"),
        COUNT("look-ahead", &raw->look_ahead, "Moments that chunks are fetched ahead"),
        TEXT("link", &raw->link, "Copies take as long as over this link", "h2d=RATE,d2h=RATE"),
        COUNT("threads", &raw->threads, "Of operators; all cores they may use by default"),
        COUNT("steps", &raw->steps, "Steps of training, resumed ones included (100)"),
        COUNT("batch", &raw->batch, "Sequences a micro-batch (the plan's, or 4)"),
        COUNT("seq", &raw->sequence, "Tokens a sequence (256, or the model's positions)"),
        COUNT("micro-batches", &raw->micro_batches,
              "A step: their gradients are summed (the plan's, or 1)"),
        TEXT("precision", &raw->precision, "fp32 (default) or bf16", "NAME"),
        COUNT("bytes-per-parameter", &raw->bytes_per_parameter,
              "Of model data in bf16: 14 or 12 (the plan's, or 14), the latter with a second "
              "backward unless --clip is 0; with several micro-batches 18 or 16 (18)"),
        TEXT("recompute", &o->recompute,
             "Layers whose activations are computed twice; with --plan, those of the plan",
             "all|none|0,2,5-7"),
        TEXT("offload-activations", &o->offload,
             "Layers whose activations may leave the device; with --plan, those of the plan",
             "all|none|0,2,5-7"),
        FLAG("host-embedding", &flags[0], "The embedding runs on the host"),
        FLAG("host-update", &flags[1], "The optimizer runs on the host"),
        REAL("lr", &o->learning_rate, "Learning rate (0.0006)"),
        REAL("min-lr", &o->least_learning_rate, "At the end of the schedule (a tenth of --lr)"),
        COUNT("warmup-steps", &raw->warm_up_steps, "To the full learning rate (10)"),
        COUNT("schedule-steps", &raw->schedule_steps, "To the least learning rate (--steps)"),
        REAL("weight-decay", &o->weight_decay, "Decoupled, of every tensor (0.1)"),
        REAL("beta1", &o->beta1, "AdamW's (0.9)"),
        REAL("beta2", &o->beta2, "AdamW's (0.95)"),
        REAL("epsilon", &o->epsilon, "AdamW's (1e-8)"),
        REAL("clip", &o->clip, "Greatest norm of the gradient; 0: any (1)"),
        COUNT("seed", &raw->seed, "Of weights, data order and dropout (0)"),
        FILENAME("log", &o->log, "Write an object a step", "FILE.jsonl"),
        FILENAME("eval", &o->eval, "Text to evaluate on", "FILE"),
        COUNT("eval-every", &raw->eval_every, "Steps between evaluations; 0: at the end alone"),
        COUNT("sample", &raw->sample, "Tokens to write when trained"),
        FILENAME("save", &o->save, "Write a checkpoint at the end, or when interrupted", "DIR"),
        COUNT("save-every", &raw->save_every, "Steps between checkpoints; 0: at the end alone"),
        FILENAME("resume", &o->resume, "Go on from a checkpoint", "DIR"),
        FLAG("dry-run", &flags[2], "Show the memory and the traffic of a run, and take none"),
        FLAG("json", &flags[3], "Print one JSON object instead of a table"),
        FLAG("probe", &flags[5], "Measure this machine instead of training"),
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &o->output,
         "Where the probe writes (machine.json)", "FILE"},
        FLAG("version", &flags[4], "Print the version"),
        {NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL},
    };
    GOptionContext *context = g_option_context_new("- train a model that may exceed the device");
    g_option_context_add_main_entries(context, entries, NULL);
    bool parsed = g_option_context_parse(context, argc, argv, error);
    g_option_context_free(context);
    if (parsed && *argc > 1)
        return refuse(error, "argument", (*argv)[1], "unexpected");
    return parsed;
}

bool run_options_parse(struct run_options *options, int *argc, char ***argv, GError **error)
{
    struct raw raw = {.steps = 100,
                      .schedule_steps = NOT_GIVEN,
                      .warm_up_steps = 10,
                      .batch = NOT_GIVEN,
                      .sequence = NOT_GIVEN,
                      .micro_batches = NOT_GIVEN,
                      .bytes_per_parameter = NOT_GIVEN,
                      .threads = NOT_GIVEN};
    gboolean flags[6] = {FALSE};
    *options = (struct run_options){
        .device_budget = RUN_UNLIMITED,
        .host_budget = RUN_UNLIMITED,
        .learning_rate = 6e-4,
        .least_learning_rate = -1,
        .weight_decay = 0.1,
        .beta1 = 0.9,
        .beta2 = 0.95,
        .epsilon = 1e-8,
        .clip = 1,
    };
    bool parsed = parse(&raw, options, flags, argc, argv, error);
    options->host_embedding = flags[0];
    options->host_update = flags[1];
    options->dry_run = flags[2];
    options->json = flags[3];
    options->version = flags[4];
    options->probe = flags[5];
    if (parsed && options->probe)
        parsed = read_device(raw.device, options, error);
    else if (parsed && !options->version)
        parsed = finish(&raw, options, error);
    raw_clear(&raw);
    return parsed;
}

void run_options_clear(struct run_options *options)
{
    char *texts[] = {options->model,     options->data,   options->eval,      options->plan,
                     options->emit_plan, options->policy, options->layout,    options->log,
                     options->save,      options->resume, options->recompute, options->offload,
                     options->output};
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        g_free(texts[i]);
    *options = (struct run_options){0};
}
