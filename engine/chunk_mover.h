/* The engine's side of the residency manager: chunks really move, and what moves is counted here.
 *
 * Bytes and copies are counted where the copy is handed to the device's queue, so that an
 * iteration's figures do not depend on when a copy ends; the device counts apart what it copied,
 * and chunk_mover_agrees compares. */
#ifndef PSTAR_ENGINE_CHUNK_MOVER_H
#define PSTAR_ENGINE_CHUNK_MOVER_H

#include "chunks/plan.h"
#include "chunks/residency/mover.h"
#include "engine/device.h"
#include "engine/usage.h"

struct chunk_mover {
    struct device *device;
    struct usage *usage;
    struct plan_figures *figures; /* what moves is added to these */

    /* Runs the operator of a moment: mover_ops.run. */
    mover_ticket (*run)(void *executor, uint32_t moment, const struct mover_after *after,
                        mover_ticket *received);
    void *executor;

    struct device_traffic total; /* all that was handed over */
};

/* A residency manager's mover whose `self` is a struct chunk_mover. */
extern const struct mover_ops chunk_mover_ops;

/* A copy of a host operator's activations, in the direction of `queue`. */
mover_ticket chunk_mover_copy_activations(struct chunk_mover *mover, enum mover_queue queue,
                                          uint64_t device_address, uint64_t host_address,
                                          uint64_t bytes, const struct mover_after *after);

/* Waits for the queues; whether the device copied all that it was handed, and no more. */
bool chunk_mover_agrees(const struct chunk_mover *mover);

#endif
