/* The plans of a pipeline's stages, of which each has a file. Every process reads all of them: a
 * stage's iteration is cut from a description of the whole model, in which each plan has a say. */
#ifndef PSTAR_ENGINE_TRAIN_STAGE_PLANS_H
#define PSTAR_ENGINE_TRAIN_STAGE_PLANS_H

#include "chunks/plan.h"
#include "models/pipeline.h"

/* Reads the plans of all stages; "%s" in `pattern` stands for a stage's number. Fails as plan_read
 * does. The caller frees the result, [stages], with stage_plans_free. */
struct plan **stage_plans_read(const char *pattern, uint32_t stages, GError **error);
void stage_plans_free(struct plan **plans, uint32_t stages); /* NULL is allowed */

/* Takes from the plans, [shape->stages], which layers of the whole model are recomputed and
 * offloaded, which tensors are updated on the host, and in which blocks, and where the embedding
 * runs. `whole` has been checked for the shape.
 * Fails (PLAN_ERROR_OTHER_RUN) if a plan is not for its stage, as far as its choices tell; the
 * message begins with the name of its file. */
bool stage_plans_choose(struct plan *const *plans, const char *pattern,
                        const struct model_iteration *whole, const struct pipeline_shape *shape,
                        struct run_choices *choices, GError **error);

#endif
