/* The CPU device's memories: an arena, and a host pool that operators cannot reach. */
#ifndef PSTAR_ENGINE_CPU_MEMORY_H
#define PSTAR_ENGINE_CPU_MEMORY_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct cpu_memory {
    uint8_t *arena;       /* zeroed; 2 MiB-aligned */
    uint8_t *host;        /* the host pool: for movers and host operators alone */
    uint8_t *host_hidden; /* the same memory where operators could find it: any access is fatal */
    uint64_t arena_bytes, host_bytes;
};

/* Takes and touches all of it, so that no page is missing later. Either size may be 0: the pointer
 * is NULL then. DEVICE_ERROR_MEMORY where the machine has less. */
bool cpu_memory_open(struct cpu_memory *memory, uint64_t arena_bytes, uint64_t host_bytes,
                     GError **error);
void cpu_memory_close(struct cpu_memory *memory);

#endif
