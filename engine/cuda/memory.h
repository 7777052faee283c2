/* The CUDA device's memories, all taken when it is opened: the arena, a pinned pool on the host of
 * exactly the plan's size, and a buffer for moves within the arena. */
#ifndef PSTAR_ENGINE_CUDA_MEMORY_H
#define PSTAR_ENGINE_CUDA_MEMORY_H

#include "engine/cuda/streams.h"
#include "engine/host/cores.h"

enum { CUDA_MEMORY_BOUNCE = 16 << 20 };

struct cuda_memory {
    uint8_t *arena;  /* device memory, zeroed; NULL if arena_bytes is 0 */
    uint8_t *host;   /* pinned, zeroed; NULL if host_pool_bytes is 0 */
    uint8_t *bounce; /* device memory, CUDA_MEMORY_BOUNCE bytes */
    uint64_t arena_bytes, host_pool_bytes;
};

/* `spread` says how the pinned pool is spread over nodes; NULL leaves that to the system. Fails
 * with DEVICE_ERROR_MEMORY if the device or the machine has less. */
bool cuda_memory_open(struct cuda_memory *memory, uint64_t arena_bytes, uint64_t host_pool_bytes,
                      const struct nodes_spread *spread, GError **error);
/* Call only while nothing is queued on them. */
void cuda_memory_close(struct cuda_memory *memory);

/* Queues a copy within the arena; the ranges may overlap. */
cudaError_t cuda_memory_move(const struct cuda_memory *memory, uint64_t to, uint64_t from,
                             uint64_t bytes, cudaStream_t stream);

#endif
