#include "engine/train/run_options.h"

#include "base/size.h"
#include "chunks/stage_path.h"
#include "engine/devices.h"
#include "engine/ranks.h"
#include "engine/train/checkpoint.h"
#include "models/pipeline.h"

#include <math.h>

/* The newest checkpoint, and the one before it, if the newest turns out to be damaged. */
enum { USUAL_KEEP = 2 };

struct run_options run_options_default(void)
{
    return (struct run_options){
        .device = &device_cpu,
        .device_budget = RUN_UNLIMITED,
        .host_budget = RUN_UNLIMITED,
        .nvme_budget = RUN_UNLIMITED,
        .steps = UINT64_MAX,
        .schedule_steps = UINT64_MAX,
        .warm_up_steps = UINT64_MAX,
        .seed = UINT64_MAX,
        .delay = UINT32_MAX,
        .stage = RUN_ANY_STAGE,
        .reduction = RUN_ANY_REDUCTION,
        .precision = UINT8_MAX,
        .data_order = UINT8_MAX,
        .tokens = UINT8_MAX,
        .learning_rate = NAN,
        .least_learning_rate = NAN,
        .weight_decay = NAN,
        .beta1 = NAN,
        .beta2 = NAN,
        .epsilon = NAN,
        .clip = NAN,
        .held_out = NAN,
        .lora_alpha = NAN,
    };
}

/* Returns the settings of a run for which nothing is given and which resumes nothing. */
static struct checkpoint_state default_state(void)
{
    return (struct checkpoint_state){.precision = g_strdup("fp32"),
                                     .schedule = {.peak = 6e-4, .floor = NAN, .warm_up = 10},
                                     .weight_decay = 0.1,
                                     .beta1 = 0.9,
                                     .beta2 = 0.95,
                                     .epsilon = 1e-8,
                                     .clip = 1,
                                     .data_order = g_strdup("random"),
                                     .train = g_strdup("all"),
                                     .steps = 100};
}

static void take_real(double *option, double otherwise)
{
    if (isnan(*option))
        *option = otherwise;
}

static void take_count(uint64_t *option, uint64_t otherwise)
{
    if (*option == UINT64_MAX)
        *option = otherwise;
}

/* Takes the place of the word among the words, or 0 if it is not there. */
static void take_choice(uint8_t *option, const char *const *words, const char *word)
{
    if (*option != UINT8_MAX)
        return;
    *option = 0;
    for (uint8_t i = 0; words[i]; i++)
        if (g_strcmp0(words[i], word) == 0)
            *option = i;
}

const char *const run_options_orders[] = {"random", "sequential", NULL};
const char *const run_options_tokens[] = {"auto", "bytes", "uint16", "uint32", NULL};
static const char *const precisions[] = {"fp32", "bf16", NULL};

/* Takes what is not given from a checkpoint, or from the defaults. */
static void take_rest(struct run_options *o, const struct checkpoint_state *from)
{
    take_count(&o->seed, from->seed);
    take_count(&o->steps, from->steps ? from->steps : from->schedule.steps);
    take_count(&o->warm_up_steps, from->schedule.warm_up);
    take_count(&o->schedule_steps, from->schedule.steps ? from->schedule.steps : o->steps);
    take_real(&o->learning_rate, from->schedule.peak);
    take_real(&o->least_learning_rate,
              isnan(from->schedule.floor) ? o->learning_rate / 10 : from->schedule.floor);
    take_real(&o->weight_decay, from->weight_decay);
    take_real(&o->beta1, from->beta1);
    take_real(&o->beta2, from->beta2);
    take_real(&o->epsilon, from->epsilon);
    take_real(&o->clip, from->clip);
    take_real(&o->held_out, from->held_out);
    take_real(&o->lora_alpha, from->lora_alpha);
    if (!o->train)
        o->train = g_strdup(from->train);
    take_choice(&o->precision, precisions, from->precision);
    take_choice(&o->data_order, run_options_orders, from->data_order);
    take_choice(&o->tokens, run_options_tokens, from->tokens);
    if (!o->data)
        o->data = g_strdup(from->data);
    if (o->delay == UINT32_MAX)
        o->delay = o->resume ? from->delay : o->schedule == PIPELINE_2BW;
    if (!o->stage_parts)
        o->stage_parts = pipeline_usual_parts((enum pipeline_schedule)o->schedule);
    o->saved_batch = from->batch;
    o->saved_sequence = from->sequence;
    o->saved_micro_batches = from->micro_batches;
    o->warm_up_steps = MIN(o->warm_up_steps, o->schedule_steps);
}

static bool refuse(GError **error, const char *option, const char *value, const char *why)
{
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "%s%s%s: %s", option,
                *value ? " " : "", value, why);
    return false;
}

static bool is_missing(GError **error, const char *option)
{
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "%s is missing", option);
    return false;
}

/* A plan says by itself how its ranks sum. */
static bool check_reduction(const struct run_options *o, GError **error)
{
    bool fast = o->reduction == RUN_REDUCTION_FAST;
    g_autofree char *stage = g_strdup_printf("%u", o->stage);
    if (fast && !o->ranks && !o->dry_run)
        return refuse(error, "--reduction", "fast", "one rank reduces nothing");
    if (fast && run_is_pipeline(o))
        return refuse(error, "--reduction", "fast", "the stages of a pipeline sum exactly");
    if (o->stage < 2 && !fast && !o->plan)
        return refuse(error, "--stage", stage,
                      "needs --reduction fast, because exact sums need gradients that are shards");
    return true;
}

static const char plan_a_stage[] =
    "each stage has a plan of its own; \"%s\" in the name stands for the stage's number";

/* Checks what the stages of a pipeline cannot do, and that there is a process for each. */
static bool check_stages(const struct run_options *o, GError **error)
{
    uint32_t processes = o->ranks ? o->ranks->count : 1;
    g_autofree char *stages = g_strdup_printf("%u", o->stages);
    if (!run_is_pipeline(o))
        return true;
    if (o->plan && !stage_path_has_place(o->plan))
        return refuse(error, "--plan", o->plan, plan_a_stage);
    if (o->emit_plan && !stage_path_has_place(o->emit_plan))
        return refuse(error, "--emit-plan", o->emit_plan, plan_a_stage);
    if (o->layout)
        return refuse(error, "--layout", o->layout,
                      "the stages of a pipeline have other tensors than the whole model");
    if (o->device != &device_cpu)
        return refuse(error, "--stages", stages, "stages train with --device cpu only, so far");
    if (processes % o->stages == 0)
        return true;
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                "--stages %u: each stage needs as many processes as the others, and the launcher "
                "started %u; mpirun -n %u starts one for each",
                o->stages, processes, o->stages);
    return false;
}

/* Checks what a run with chunks at home in NVMe needs. */
static bool check_nvme(const struct run_options *o, GError **error)
{
    bool sized = o->nvme_budget != RUN_UNLIMITED;
    g_autofree char *size = size_exact(o->nvme_budget);
    if (sized && !o->nvme && !o->dry_run)
        return refuse(error, "--nvme-memory", size, "needs --nvme, the folder of the file");
    return !o->nvme || sized || o->plan ||
           refuse(error, "--nvme", o->nvme, "needs --nvme-memory, or a plan that uses NVMe");
}

bool run_has_adapters(const struct run_options *options)
{
    return options->train && g_str_has_prefix(options->train, "lora:");
}

/* Checks options that only adapters have. */
static bool check_adapters(const struct run_options *o, GError **error)
{
    static const char needs[] = "needs --train lora:RANK";
    g_autofree char *alpha = g_strdup_printf("%g", o->lora_alpha);
    if (run_has_adapters(o))
        return !o->adapters || !o->resume ||
               refuse(error, "--adapters", o->adapters, "the resumed run has its own");
    if (o->lora_alpha > 0)
        return refuse(error, "--lora-alpha", alpha, needs);
    if (o->adapters)
        return refuse(error, "--adapters", o->adapters, needs);
    return !o->merge || refuse(error, "--merge", o->merge, needs);
}

/* Takes the number of stages from the list of their layers. */
static bool take_stages(struct run_options *o, GError **error)
{
    uint32_t stages = 1;
    if (!o->stage_layers)
        return true;
    g_autofree uint32_t *layers = pipeline_parse_layers(o->stage_layers, &stages, error);
    if (!layers) {
        g_prefix_error(error, "--stage-layers: ");
        return false;
    }
    g_autofree char *given = g_strdup_printf("%u", o->stages);
    if (o->stages && o->stages != stages)
        return refuse(error, "--stages", given, "--stage-layers names another number of stages");
    o->stages = stages;
    return stages > 1 || refuse(error, "--stage-layers", o->stage_layers,
                                "names one stage, which has all layers; leave it out");
}

uint64_t run_saves(const struct run_options *options)
{
    return options->save_every ? options->steps / options->save_every + 1 : 1;
}

bool run_saves_behind(const struct run_options *options)
{
    return options->save && !options->save_wait && options->save_every > 0 &&
           options->save_every < options->steps;
}

/* Finds the checkpoint to resume in the folder that was given. */
static bool find_resumed(struct run_options *o, GError **error)
{
    char *found = o->resume ? checkpoint_find(o->resume, error) : NULL;
    if (!found)
        return !o->resume;
    g_free(o->resume);
    o->resume = found;
    return true;
}

/* Whoever says how checkpoints are written wants some. */
static bool check_saving(const struct run_options *o, GError **error)
{
    g_autofree char *every = g_strdup_printf("%" G_GUINT64_FORMAT, o->save_every);
    g_autofree char *keep = g_strdup_printf("%u", o->keep);
    static const char needs[] = "needs --save, the folder of the checkpoints";
    if (o->save)
        return true;
    return (!o->save_every || refuse(error, "--save-every", every, needs)) &&
           (!o->keep || refuse(error, "--keep", keep, needs)) &&
           (!o->save_wait || refuse(error, "--save-wait", "", needs));
}

bool run_options_complete(struct run_options *o, GError **error)
{
    struct checkpoint_state from = {0};
    if (!check_saving(o, error))
        return false;
    if (!find_resumed(o, error) || (o->resume && !checkpoint_read_state(o->resume, &from, error)))
        return false;
    if (!o->keep)
        o->keep = USUAL_KEEP;
    if (!o->resume)
        from = default_state();
    take_rest(o, &from);
    if (!o->model && run_has_adapters(o))
        o->model = g_strdup(from.model);
    checkpoint_state_clear(&from);
    if (!o->model)
        o->model = g_strdup(o->resume);
    if (!o->model)
        return is_missing(error, "--model");
    if (!o->data && !o->dry_run)
        return is_missing(error, "--data");
    if (!check_adapters(o, error))
        return false;
    if (o->least_learning_rate > o->learning_rate) {
        g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                    "--min-lr %g must not exceed --lr %g", o->least_learning_rate,
                    o->learning_rate);
        return false;
    }
    if (o->plan && (o->policy || o->sized || o->layout || o->look_ahead))
        return refuse(error, "--plan", o->plan,
                      "already sets the policy, the chunks and the look-ahead; leave out the "
                      "options for them");
    if (o->prompt && !o->sample)
        return refuse(error, "--prompt", o->prompt,
                      "needs --sample, the number of tokens to write");
    if (o->layout && o->sized)
        return refuse(error, "--layout", o->layout,
                      "already sets the chunks; leave out --chunk-size");
    if (o->delay > 1) {
        g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--delay %u: must be 0 or 1",
                    o->delay);
        return false;
    }
    if (o->delay && o->device != &device_cpu)
        return refuse(error, "--delay", "1", "delayed updates run with --device cpu only, so far");
    if (!take_stages(o, error))
        return false;
    if (o->schedule == PIPELINE_2BW && !run_is_pipeline(o))
        return refuse(error, "--schedule", "2bw", "needs --stages, at least 2");
    if (o->schedule == PIPELINE_ZERO_BUBBLE && !run_is_pipeline(o))
        return refuse(error, "--schedule", "zb-h1", "needs --stages");
    if (o->schedule == PIPELINE_INTERLEAVED && !run_is_pipeline(o))
        return refuse(error, "--schedule", "interleaved", "needs --stages, at least 2");
    if (o->stage_parts > 1 && !run_is_pipeline(o)) {
        g_autofree char *parts = g_strdup_printf("%u", o->stage_parts);
        return refuse(error, "--stage-parts", parts, "needs --schedule interleaved");
    }
    if (!check_stages(o, error) || !check_reduction(o, error) || !check_nvme(o, error))
        return false;
    if ((o->h2d_rate > 0 || o->d2h_rate > 0) && o->device != &device_cpu)
        return refuse(error, "--device", o->device->name,
                      "has its own link; --link is for the CPU device only");
    return true;
}
