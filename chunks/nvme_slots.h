/* Slots in the host pool for visits of chunks that are at home in NVMe. Addresses count from the
 * begin of the room for slots. The visits are in the order of their needs. */
#ifndef PSTAR_CHUNKS_NVME_SLOTS_H
#define PSTAR_CHUNKS_NVME_SLOTS_H

#include "chunks/nvme_visits.h"

/* Returns the most bytes that visits need at once. */
uint64_t nvme_slots_least_bytes(const GArray *visits);

/* Rings should have room for so many times the bytes that are used at once, so that loads run
 * ahead.
 */
enum { NVME_RING_TIMES = 4 };

struct nvme_ring {
    uint64_t least; /* of its bytes, as large as the largest slot at least */
    uint64_t all;   /* with which each chunk has a slot of its own */
    uint64_t most;  /* UINT64_MAX: so many times the least, or more if that is too small */
    uint32_t late;  /* visits that are needed after this instant are loaded no earlier */
};

/* Gives visits slots in a ring. Bytes are loaded as soon as there is room. Returns the ring's
 * bytes; 0 if it has too little room, and then some visits have slots. */
uint64_t nvme_slots_ring(GArray *visits, const struct nvme_ring *ring);

/* Gives visits slots in so many equal buffers, or in more where the updates of more groups overlap,
 * as struct nvme_budget says. Returns the bytes of all buffers. */
uint64_t nvme_slots_buffers(GArray *visits, const struct layout *layout, uint32_t buffers);

#endif
