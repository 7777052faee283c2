/* The engine's mover of the residency manager: it copies chunks and counts what moves.
 *
 * Bytes and copies are counted where the copy is handed to the device's queue, so that an
 * iteration's figures do not depend on when a copy ends; the device counts what it copied by
 * itself, and chunk_mover_agrees compares both. */
#ifndef PSTAR_ENGINE_CHUNK_MOVER_H
#define PSTAR_ENGINE_CHUNK_MOVER_H

#include "chunks/plan.h"
#include "chunks/residency/mover.h"
#include "engine/annotate.h"
#include "engine/device.h"
#include "engine/nvme_chunks.h"
#include "engine/ranks.h"
#include "engine/usage.h"

struct chunk_mover {
    struct device *device;
    struct usage *usage;
    struct plan_figures *figures; /* every copy is added to these */
    struct ranks *ranks;          /* NULL with one */
    const struct trace *trace;
    struct nvme_chunks *nvme;        /* NULL if no chunk is at home there */
    const struct annotate *annotate; /* may be NULL */

    /* Runs the operator of a moment: mover_ops.run. */
    mover_ticket (*run)(void *executor, moment_id moment, const struct mover_after *after,
                        mover_ticket *received);
    void *executor;

    struct device_traffic total; /* every copy that was handed over */
    mover_ticket computed;       /* the device's last operator or move so far */
};

/* A residency manager's mover whose `self` is a struct chunk_mover. */
extern const struct mover_ops chunk_mover_ops;

/* Binds work beside the device's to its moment: returns `after` and all that the device has been
 * asked for so far, as the simulator's clock does (docs/clock.md). A device that queues its work
 * would otherwise copy chunks long before the moment at which the plan does. */
struct mover_after chunk_mover_bind(const struct chunk_mover *mover,
                                    const struct mover_after *after);

/* Copies a host operator's activations in the direction of `queue`. */
mover_ticket chunk_mover_copy_activations(struct chunk_mover *mover, enum mover_queue queue,
                                          uint64_t device_address, uint64_t host_address,
                                          uint64_t bytes, const struct mover_after *after);

/* Waits for the queues and returns whether the device copied exactly what it was handed. */
bool chunk_mover_agrees(const struct chunk_mover *mover);

#endif
