/* Small pinned places through which bytes of the caller go to the device behind earlier work. */
#ifndef PSTAR_ENGINE_CUDA_STAGING_H
#define PSTAR_ENGINE_CUDA_STAGING_H

#include "engine/cuda/streams.h"

enum { CUDA_STAGING_PLACES = 4, CUDA_STAGING_BYTES = 1 << 20 };

struct cuda_staging {
    uint8_t *places; /* pinned */
    mover_ticket used_by[CUDA_STAGING_PLACES];
    uint32_t next;
};

bool cuda_staging_open(struct cuda_staging *staging, struct cuda_failure *failure);
void cuda_staging_close(struct cuda_staging *staging);

/* Sends bytes, in pieces, through the compute stream; the ticket of the last. */
mover_ticket cuda_staging_send(struct cuda_staging *staging, struct cuda_streams *streams,
                               struct cuda_failure *failure, uint8_t *to, uint64_t bytes,
                               const void *from, const struct mover_after *after);

#endif
