/* What a run computes twice, and what it runs on the host: its options', or its plan's. */
#ifndef PSTAR_ENGINE_TRAIN_RUN_CHOICES_H
#define PSTAR_ENGINE_TRAIN_RUN_CHOICES_H

#include "chunks/plan.h"
#include "engine/train/run_options.h"
#include "models/iteration.h"

/* Those of `plan` where it has any (plan may be NULL): options that contradict it are refused by
 * name. The caller frees the result with run_choices_free. */
struct run_choices *choose_run(const struct run_options *options, const struct model_config *config,
                               const struct plan *plan, GError **error);

/* Whether the planner weighed others: then they are its choice, and --recompute,
 * --offload-activations, --host-embedding and --bytes-per-parameter are what the run would do
 * without a plan. No result depends on it. */
bool plan_weighs_choices(const struct plan *plan);

#endif
