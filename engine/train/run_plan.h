/* From the options of a run to what it will execute: model, iteration and plan. No memory is taken
 * beyond their description. */
#ifndef PSTAR_ENGINE_TRAIN_RUN_PLAN_H
#define PSTAR_ENGINE_TRAIN_RUN_PLAN_H

#include "chunks/plan.h"
#include "engine/device.h"
#include "engine/train/run_options.h"
#include "models/iteration.h"

struct run_plan {
    struct device_capacity capacity; /* of the CPU device, and of a dry run: unlimited */
    struct model_config *config;
    struct model_iteration *iteration;
    struct plan *plan; /* has passed plan_check */
};

/* With --plan, that one, if it goes with the run; otherwise the dry run of the policy. Of a device
 * with a memory of its own, what its driver and libraries hold is measured first, kept as the
 * trace's library_bytes, and no part of the arena: that has the rest of --device-memory, or of the
 * device, at most. Errors name the file or the option. */
bool run_plan_prepare(struct run_plan *run, const struct run_options *options, GError **error);
void run_plan_clear(struct run_plan *run);

/* The least device memory with which the run's model and recomputation fit, at the plan's chunks;
 * *moment needs it. */
uint64_t run_plan_least_device_bytes(const struct run_plan *run, uint32_t *moment);

#endif
