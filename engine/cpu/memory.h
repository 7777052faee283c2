/* The CPU device's memories: an arena, and a host pool that operators cannot reach.
 *
 * The host pool is one file in memory that is mapped twice. The first mapping begins where the
 * arena ends and may not be accessed, so that an operator that leaves the arena crashes at once.
 * The second is for movers and for operators on the host. */
#ifndef PSTAR_ENGINE_CPU_MEMORY_H
#define PSTAR_ENGINE_CPU_MEMORY_H

#include "engine/host/cores.h"
#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct cpu_memory {
    uint8_t *arena;       /* zeroed; 2 MiB-aligned */
    uint8_t *host_hidden; /* follows the arena, 2 MiB-aligned: any access is fatal */
    uint8_t *host;        /* the same bytes; NULL if there are none */
    uint64_t arena_bytes, host_pool_bytes;
    void *reserved; /* the address space of the arena and of host_hidden */
    uint64_t reserved_bytes;
};

/* Takes and touches all memory, so that no page is missing later. Either size may be 0. `spread`
 * says how the host pool is spread over nodes; NULL leaves that to the system. `threads` are to
 * compute beside. Fails with DEVICE_ERROR_MEMORY if the machine has less. */
bool cpu_memory_open(struct cpu_memory *memory, uint64_t arena_bytes, uint64_t host_pool_bytes,
                     const struct nodes_spread *spread, uint32_t threads, GError **error);
void cpu_memory_close(struct cpu_memory *memory);

/* One direction of the link between host pool and arena, which copies at memory speed or at a given
 * rate. */
struct link {
    double rate;            /* bytes a second; 0 for the speed of memory */
    uint64_t free_ns;       /* when the last copy was due to end */
    uint64_t bytes, copies; /* since the start; counted when a copy ends */
};

/* The thread of a link calls this first. It makes sleeps end on time instead of tens of
 * microseconds late. */
void link_enter(void);

/* Copies, and returns when a link of this rate would have. `at_once` says that the link was busy
 * until now: this copy's time then begins where the last one's ended, so that sleeping too long
 * does not add up. */
void link_copy(struct link *link, void *to, const void *from, uint64_t bytes, bool at_once);

#endif
