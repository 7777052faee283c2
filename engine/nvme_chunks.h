/* Chunks that are at home in NVMe, as the engine has them: their checksums, and their contents
 * between iterations, when weights are written and read. */
#ifndef PSTAR_ENGINE_NVME_CHUNKS_H
#define PSTAR_ENGINE_NVME_CHUNKS_H

#include "chunks/plan.h"
#include "engine/device.h"

struct chunk_mover;
struct nvme_chunks;

/* Returns NULL if the plan has none. What the arguments point to outlives the result. */
struct nvme_chunks *nvme_chunks_new(const struct plan *plan, struct chunk_mover *mover);
void nvme_chunks_free(struct nvme_chunks *chunks); /* NULL is allowed */

/* Returns the transfer of a chunk in the direction of `queue`. What it points to belongs to
 * `chunks`. */
struct device_transfer nvme_chunks_transfer(struct nvme_chunks *chunks, enum mover_queue queue,
                                            const struct mover_copy *copy);

/* Between iterations: brings the chunk to the host pool, and returns its address there, at which it
 * may be read, and written if `writes`, until another chunk is held. */
uint64_t nvme_chunks_hold(struct nvme_chunks *chunks, chunk_id chunk, bool writes);
/* Stores what was changed. Must be called before the next iteration. NULL is allowed. */
void nvme_chunks_let_go(struct nvme_chunks *chunks);
/* Gives every chunk a checksum, those too that were never written. NULL is allowed. */
void nvme_chunks_begin(struct nvme_chunks *chunks);

#endif
