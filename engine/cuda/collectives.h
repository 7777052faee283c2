/* What several GPUs exchange: messages by NCCL, queued on streams. */
#ifndef PSTAR_ENGINE_CUDA_COLLECTIVES_H
#define PSTAR_ENGINE_CUDA_COLLECTIVES_H

#include "engine/cuda/streams.h"
#include "engine/ranks.h"

struct cuda_collectives;

/* `ranks` and `failure` must outlive the result. Fails with DEVICE_ERROR_NONE_HERE if there is no
 * NCCL. */
struct cuda_collectives *cuda_collectives_open(struct ranks *ranks, struct cuda_failure *failure,
                                               GError **error);
/* Connects the current device with those of the other ranks, all of which must call it before the
 * first transfer. Fails with DEVICE_ERROR_WORK. */
bool cuda_collectives_join(struct cuda_collectives *collectives, GError **error);
/* If they are connected, every rank must call it, and nothing may be queued. NULL is allowed. */
void cuda_collectives_close(struct cuda_collectives *collectives);

/* Returns ranks whose transfers are of device memory and are queued on the stream. All ranks must
 * queue transfers in the same order, over all streams. They belong to the collectives; there are at
 * most CUDA_COLLECTIVES_STREAMS. The bytes count as those of the ranks that carry them on. */
enum { CUDA_COLLECTIVES_STREAMS = 2 };
struct ranks *cuda_collectives_on(struct cuda_collectives *collectives, cudaStream_t stream);

#endif
