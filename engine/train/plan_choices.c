#include "engine/train/plan_choices.h"

#include "chunks/stage_path.h"
#include "engine/ranks.h"
#include "models/train_choice.h"

#include <string.h>

/* ---- choices ---- */

static bool parse_layers(const char *option, const char *text, uint8_t *marks, uint32_t layers,
                         GError **error)
{
    if (run_layers_parse(text ? text : "none", marks, layers))
        return true;
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                "%s %s: must be all, none, or layers in [0, %u], such as 0,2,5-7", option, text,
                layers - 1);
    return false;
}

/* Adapters become part of the config. */
static struct run_choices *choices_of_options(const struct run_options *options,
                                              struct model_config *config, GError **error)
{
    uint8_t *frozen;
    if (!model_choose_trained(config, options->train, options->lora_alpha, &frozen, error))
        return NULL;
    uint32_t tensors = model_tensor_count(config);
    struct run_choices *choices = run_choices_new(config->layers, tensors);
    if (frozen) {
        g_free(choices->frozen);
        choices->frozen = frozen;
    }
    choices->host_embedding = options->host_embedding;
    if (options->peers) {
        choices->stage = options->stage == RUN_ANY_STAGE ? 2 : (uint8_t)options->stage;
        choices->fast = options->reduction == RUN_REDUCTION_FAST;
    }
    for (uint32_t t = 0; t < tensors; t++)
        choices->host_update[t] = options->host_update && !choices->frozen[t];
    if (model_state_block(config, options->state_block, &choices->state_block, error) &&
        parse_layers("--recompute", options->recompute, choices->recompute, config->layers,
                     error) &&
        parse_layers("--offload-activations", options->offload, choices->offload, config->layers,
                     error))
        return choices;
    run_choices_free(choices);
    return NULL;
}

static bool contradicts(GError **error, const char *option, const char *plan, const char *what)
{
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "%s: %s %s", option, plan, what);
    return false;
}

bool plan_choices_are_weighed(const struct plan *plan)
{
    return plan->certificate && plan->certificate->alternative_count > 0;
}

/* Compares the offloaded layers. If the embedding runs on the host and layer 0 is recomputed, this
 * layer has no activation to offload, so a plan never lists it. */
static bool offload_alike(const struct run_choices *given, const struct run_choices *plan)
{
    uint32_t first = plan->host_embedding && plan->recompute[0] ? 1 : 0;
    return !memcmp(given->offload + first, plan->offload + first, plan->layer_count - first);
}

/* A plan says how its ranks train together. */
static bool check_together(const struct run_options *options, const struct plan *of_plan,
                           GError **error)
{
    const struct run_choices *plan = of_plan->choices;
    if (of_plan->ranks <= 1)
        return true;
    g_autofree char *stage = g_strdup_printf("is for ranks that share %s (stage %u)",
                                             run_stage_describe(plan->stage), plan->stage);
    if (options->stage != RUN_ANY_STAGE && !plan_choices_are_weighed(of_plan) &&
        options->stage != plan->stage)
        return contradicts(error, "--stage", options->plan, stage);
    return options->reduction != RUN_REDUCTION_EXACT || !plan->fast ||
           contradicts(error, "--reduction exact", options->plan, "has fast reductions");
}

/* Checks that the given options equal the choices of a plan, or of the plans of all stages. Options
 * may be left out; if a plan weighs choices, those that it weighs may differ. State blocks that cut
 * nothing are none in a plan. */
static bool check_options(const struct run_options *options, const struct model_config *config,
                          const struct run_choices *given, const struct run_choices *plan,
                          bool weighed, GError **error)
{
    uint64_t cut = model_is_cut(config, given->frozen, given->state_block) ? given->state_block : 0;
    if (memcmp(given->frozen, plan->frozen, plan->tensor_count) != 0)
        return contradicts(error, "--train", options->plan, "trains other tensors");
    if (options->recompute && !weighed &&
        memcmp(given->recompute, plan->recompute, plan->layer_count) != 0)
        return contradicts(error, "--recompute", options->plan, "recomputes other layers");
    if (options->offload && !weighed && !offload_alike(given, plan))
        return contradicts(error, "--offload-activations", options->plan, "offloads other layers");
    if (options->host_embedding && !weighed && !plan->host_embedding)
        return contradicts(error, "--host-embedding", options->plan, "embeds on the device");
    if (options->state_block && !weighed && plan->state_block != cut)
        return contradicts(error, "--state-block", options->plan,
                           "cuts optimizer states otherwise, or not at all");
    if (options->host_update &&
        memcmp(given->host_update, plan->host_update, plan->tensor_count) != 0)
        return contradicts(error, "--host-update", options->plan, "updates tensors on the device");
    return true;
}

struct run_choices *plan_choices_take(const struct run_options *options,
                                      struct model_config *config, const struct plan *plan,
                                      GError **error)
{
    struct run_choices *choices = choices_of_options(options, config, error);
    const struct run_choices *of_plan = plan ? plan->choices : NULL;
    /* With another number of layers or tensors, the plan belongs to another model, and plan_check
     * reports it. */
    if (!choices || !of_plan || of_plan->layer_count != choices->layer_count ||
        of_plan->tensor_count != choices->tensor_count)
        return choices;
    bool agree = check_options(options, config, choices, of_plan, plan_choices_are_weighed(plan),
                               error) &&
                 check_together(options, plan, error);
    memcpy(choices->recompute, of_plan->recompute, choices->layer_count);
    memcpy(choices->offload, of_plan->offload, choices->layer_count);
    memcpy(choices->host_update, of_plan->host_update, choices->tensor_count);
    memcpy(choices->update_after, of_plan->update_after,
           choices->tensor_count * sizeof *choices->update_after);
    choices->first_update = of_plan->first_update;
    choices->host_embedding = of_plan->host_embedding;
    choices->state_block = of_plan->state_block;
    if (options->peers && plan->ranks > 1) {
        choices->stage = of_plan->stage;
        choices->fast = of_plan->fast;
    }
    if (!agree)
        g_clear_pointer(&choices, run_choices_free);
    return choices;
}

/* ---- the plans of a pipeline's stages ---- */

void stage_plans_free(struct plan **plans, uint32_t stages)
{
    for (uint32_t s = 0; plans && s < stages; s++)
        plan_free(plans[s]);
    g_free(plans);
}

struct plan **stage_plans_read(const char *pattern, uint32_t stages, GError **error)
{
    struct plan **plans = g_new0(struct plan *, stages);
    for (uint32_t s = 0; s < stages; s++) {
        g_autofree char *path = stage_path(pattern, s);
        if (!(plans[s] = plan_read(path, error))) {
            stage_plans_free(plans, stages);
            return NULL;
        }
    }
    return plans;
}

static bool refuse_stage_plan(const char *pattern, uint32_t stage, const char *why, GError **error)
{
    g_autofree char *path = stage_path(pattern, stage);
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_OTHER_RUN, "%s: %s stage %u of this run", path, why,
                stage);
    return false;
}

/* Takes a stage's choices. Layers have the numbers that they have in the whole model. */
static void take_choices(const struct run_choices *of_plan, const struct model_iteration *stage,
                         struct run_choices *choices)
{
    for (uint32_t l = 0; l < of_plan->layer_count; l++) {
        choices->recompute[l] |= of_plan->recompute[l];
        choices->offload[l] |= of_plan->offload[l];
    }
    for (tensor_id t = 0; t < of_plan->tensor_count; t++)
        choices->host_update[pipeline_tensor_in_whole(stage, t)] = of_plan->host_update[t];
    choices->host_embedding |= of_plan->host_embedding;
    choices->state_block = MAX(choices->state_block, of_plan->state_block); /* 0: cuts nothing */
}

static bool trains_the_same(const struct run_choices *of_plan, const struct model_iteration *stage,
                            const struct run_choices *choices)
{
    for (tensor_id t = 0; t < of_plan->tensor_count; t++)
        if (of_plan->frozen[t] != choices->frozen[pipeline_tensor_in_whole(stage, t)])
            return false;
    return true;
}

/* Takes from the plans, [shape->stages], which layers of the whole model are recomputed and
 * offloaded, which tensors are updated on the host, and in which blocks, and where the embedding
 * runs. `whole` has been checked for the shape.
 * Fails (PLAN_ERROR_OTHER_RUN) if a plan is not for its stage, as far as its choices tell; the
 * message begins with the name of its file. */
static bool stage_plans_choose(struct plan *const *plans, const char *pattern,
                               const struct model_iteration *whole,
                               const struct pipeline_shape *shape, struct run_choices *choices,
                               GError **error)
{
    bool ok = true;
    memset(choices->recompute, 0, choices->layer_count);
    memset(choices->offload, 0, choices->layer_count);
    choices->host_embedding = false;
    choices->state_block = 0;
    for (uint32_t s = 0; ok && s < shape->stages; s++) {
        const struct run_choices *of_plan = plans[s]->choices;
        struct model_iteration *stage = pipeline_stage(whole, shape, s);
        if (!of_plan)
            ok = refuse_stage_plan(pattern, s, "its choices are missing; it is not a plan for",
                                   error);
        else if (of_plan->tensor_count != stage->trace->tensor_count ||
                 of_plan->layer_count > choices->layer_count)
            ok = refuse_stage_plan(pattern, s,
                                   "it is for another model or cut (--train, --stages, "
                                   "--stage-layers, --schedule, --stage-parts) than",
                                   error);
        else if (!trains_the_same(of_plan, stage, choices))
            ok = refuse_stage_plan(pattern, s, "it trains other tensors (--train) than", error);
        else if (of_plan->first_update)
            ok = refuse_stage_plan(pattern, s,
                                   "its host updates in another order than that of the model, "
                                   "which no stage does; it is not a plan for",
                                   error);
        else
            take_choices(of_plan, stage, choices);
        model_iteration_free(stage);
    }
    return ok;
}

bool stage_plans_follow(struct plan *const *plans, const struct run_options *options,
                        const struct model_iteration *whole, const struct pipeline_shape *shape,
                        struct run_choices *choices, GError **error)
{
    struct run_choices *given = run_choices_copy(choices);
    bool weighed = false;
    for (uint32_t s = 0; s < shape->stages; s++)
        weighed |= plan_choices_are_weighed(plans[s]);
    bool ok = stage_plans_choose(plans, options->plan, whole, shape, choices, error) &&
              check_options(options, whole->config, given, choices, weighed, error);
    run_choices_free(given);
    return ok;
}
