#include "engine/cuda/staging.h"

#include <string.h>

bool cuda_staging_open(struct cuda_staging *staging, struct cuda_failure *failure)
{
    *staging = (struct cuda_staging){0};
    return CUDA_TRY(failure,
                    cudaHostAlloc((void **)&staging->places,
                                  CUDA_STAGING_PLACES * CUDA_STAGING_BYTES, cudaHostAllocPortable));
}

void cuda_staging_close(struct cuda_staging *staging)
{
    if (staging->places)
        cudaFreeHost(staging->places);
}

static mover_ticket send_piece(struct cuda_staging *staging, struct cuda_streams *streams,
                               struct cuda_failure *failure, uint8_t *to, uint64_t bytes,
                               const void *from, const struct mover_after *after)
{
    uint32_t place = staging->next++ % CUDA_STAGING_PLACES;
    uint8_t *staged = staging->places + (uint64_t)place * CUDA_STAGING_BYTES;
    const struct mover_after before = {.queue = {[MOVER_COMPUTE] = staging->used_by[place]}};
    cuda_streams_wait(streams, &before);
    memcpy(staged, from, bytes);
    cuda_streams_begin(streams, MOVER_COMPUTE, after);
    CUDA_TRY(failure, cudaMemcpyAsync(to, staged, bytes, cudaMemcpyHostToDevice,
                                      cuda_streams_stream(streams, MOVER_COMPUTE)));
    return staging->used_by[place] = cuda_streams_end(streams, MOVER_COMPUTE);
}

mover_ticket cuda_staging_send(struct cuda_staging *staging, struct cuda_streams *streams,
                               struct cuda_failure *failure, uint8_t *to, uint64_t bytes,
                               const void *from, const struct mover_after *after)
{
    mover_ticket ticket = 0;
    for (uint64_t done = 0; done < bytes; done += CUDA_STAGING_BYTES)
        ticket = send_piece(staging, streams, failure, to + done,
                            MIN(CUDA_STAGING_BYTES, bytes - done), (const uint8_t *)from + done,
                            after);
    return ticket;
}
