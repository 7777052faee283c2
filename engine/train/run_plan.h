/* Turns the options of a run into what it executes: model, iteration and plan. Takes no memory for
 * the model yet. */
#ifndef PSTAR_ENGINE_TRAIN_RUN_PLAN_H
#define PSTAR_ENGINE_TRAIN_RUN_PLAN_H

#include "chunks/plan.h"
#include "engine/device.h"
#include "engine/train/run_options.h"
#include "models/iteration.h"

struct run_plan {
    struct device_capacity capacity; /* of the CPU device, and of a dry run: unlimited */
    struct model_config *config;
    struct model_iteration *iteration; /* of this process's stage, or of the whole model */
    struct model_iteration *whole; /* which a stage's iteration is cut from; NULL without stages */
    struct non_model *places;      /* of the iteration's trace: found once, because that may take
                                      about a second */
    struct plan *plan;             /* has passed plan_check */
    struct plan **stage_plans;     /* of all stages, until the iteration is described; else NULL */

    /* Host memory for a snapshot of what a rank saves (snapshot.h), beside the plan's, within
     * --host-memory; 0 without. If it would exceed that, there is none, and `lacking_bytes` are
     * missing. */
    uint64_t snapshot_bytes, lacking_bytes;

    uint64_t nvme_block_bytes; /* of the file in NVMe, if the plan has one */
    uint32_t nvme_depth;       /* blocks under way */
};

/* Takes the plan of --plan, if it fits the run, or makes one by a dry run of the policy. What the
 * driver and libraries of a device with its own memory hold is measured first and kept as the
 * trace's library_bytes. The arena has at most the rest of --device-memory, or of the device.
 * Errors name the file or the option. */
bool run_plan_prepare(struct run_plan *run, const struct run_options *options, GError **error);
void run_plan_clear(struct run_plan *run);

/* Returns the least device memory with which the run's model and recomputation fit, in the plan's
 * chunks, and sets *moment to the moment that needs it. */
uint64_t run_plan_least_device_bytes(const struct run_plan *run, uint32_t *moment);

#endif
