#include "engine/train/stage_plans.h"

#include "chunks/stage_path.h"

#include <string.h>

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

void stage_plans_free(struct plan **plans, uint32_t stages)
{
    for (uint32_t s = 0; plans && s < stages; s++)
        plan_free(plans[s]);
    g_free(plans);
}

static bool refuse(const char *pattern, uint32_t stage, const char *why, GError **error)
{
    g_autofree char *path = stage_path(pattern, stage);
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_OTHER_RUN, "%s: %s stage %u of this run", path, why,
                stage);
    return false;
}

/* Takes a stage's choices. Layers have the numbers that they have in the whole model. */
static void take(const struct run_choices *of_plan, const struct model_iteration *stage,
                 struct run_choices *choices)
{
    for (uint32_t l = 0; l < of_plan->layer_count; l++) {
        choices->recompute[l] |= of_plan->recompute[l];
        choices->offload[l] |= of_plan->offload[l];
    }
    for (tensor_id t = 0; t < of_plan->tensor_count; t++)
        choices->host_update[pipeline_tensor_in_whole(stage, t)] = of_plan->host_update[t];
    choices->host_embedding |= of_plan->host_embedding;
    choices->state_block = of_plan->state_block;
}

bool stage_plans_choose(struct plan *const *plans, const char *pattern,
                        const struct model_iteration *whole, const struct pipeline_shape *shape,
                        struct run_choices *choices, GError **error)
{
    bool ok = true;
    memset(choices->recompute, 0, choices->layer_count);
    memset(choices->offload, 0, choices->layer_count);
    choices->host_embedding = false;
    for (uint32_t s = 0; ok && s < shape->stages; s++) {
        const struct run_choices *of_plan = plans[s]->choices;
        struct model_iteration *stage = pipeline_stage(whole, shape, s);
        if (!of_plan)
            ok = refuse(pattern, s, "its choices are missing; it is not a plan for", error);
        else if (of_plan->tensor_count != stage->trace->tensor_count ||
                 of_plan->layer_count > choices->layer_count)
            ok = refuse(pattern, s, "it is for another model or cut than", error);
        else
            take(of_plan, stage, choices);
        model_iteration_free(stage);
    }
    return ok;
}
