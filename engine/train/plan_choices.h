/* Whose choices a run takes: those of its options, of its plan, or of the plans of its stages. */
#ifndef PSTAR_ENGINE_TRAIN_PLAN_CHOICES_H
#define PSTAR_ENGINE_TRAIN_PLAN_CHOICES_H

#include "engine/train/run_plan.h"
#include "models/pipeline.h"

/* Returns the choices of the options, or of the plan, which may be NULL. `config` gets the adapters
 * that are to be trained. Fails if a given option contradicts the plan. Free the result with
 * run_choices_free. */
struct run_choices *plan_choices_take(const struct run_options *options,
                                      struct model_config *config, const struct plan *plan,
                                      GError **error);

/* Returns whether the planner compared other choices with the plan's. Options may then differ from
 * them. */
bool plan_choices_are_weighed(const struct plan *plan);

/* Reads the plans of all stages. Every process reads all of them: a stage's iteration is cut from a
 * description of the whole model, in which each plan has a say. Free the result with
 * stage_plans_free. */
struct plan **stage_plans_read(const char *pattern, uint32_t stages, GError **error);
void stage_plans_free(struct plan **plans, uint32_t stages); /* NULL is allowed */

/* Replaces choices of the options by those of the plans, [shape->stages]: which layers of the whole
 * model are recomputed and offloaded, which tensors are updated on the host, and in which blocks,
 * and where the embedding runs. `whole` has been checked for the shape. Fails if a given option
 * contradicts them, or (PLAN_ERROR_OTHER_RUN) if a plan is not for its stage, as far as its choices
 * tell. */
bool stage_plans_follow(struct plan *const *plans, const struct run_options *options,
                        const struct model_iteration *whole, const struct pipeline_shape *shape,
                        struct run_choices *choices, GError **error);

#endif
