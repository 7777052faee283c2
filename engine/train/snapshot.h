/* A copy of what one process writes into a checkpoint, in host memory, so that training goes on
 * while it is written.
 *
 * A step changes every weight and every moment, so a checkpoint of the step before that is still
 * being written a step later must have its own bytes: as many as the process writes, in fp32 (12
 * bytes a parameter, 16 with a delay, shared among the ranks). Taking the copy touches each of them
 * once, as the step's update does. The memory is taken when training begins and kept. */
#ifndef PSTAR_ENGINE_TRAIN_SNAPSHOT_H
#define PSTAR_ENGINE_TRAIN_SNAPSHOT_H

#include "engine/weights.h"

struct snapshot;

/* Returns the bytes of one writer's snapshot. */
uint64_t snapshot_bytes(const struct trace *trace, bool delay, struct weights_writer writer);

/* Takes the memory. The trace must outlive the snapshot. Fails with a G_FILE_ERROR_NOMEM if the
 * machine has too little for so many `processes` of this host that take as much at the same time.
 */
struct snapshot *snapshot_new(const struct trace *trace, bool delay, struct weights_writer writer,
                              uint32_t processes, GError **error);
void snapshot_free(struct snapshot *snapshot); /* NULL is allowed */

/* Copies the values out of the store. Nobody may read the snapshot meanwhile. */
bool snapshot_take(struct snapshot *snapshot, const struct weights_store *store, GError **error);

/* Returns access to the copy, for reading what the writer saves; `self` is the snapshot. */
struct weights_store snapshot_store(struct snapshot *snapshot);

#endif
