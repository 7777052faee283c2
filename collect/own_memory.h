/* Device memory that the recording takes itself: what is free before it is turned on, and no more
 * when it has been. */
#ifndef PSTAR_COLLECT_OWN_MEMORY_H
#define PSTAR_COLLECT_OWN_MEMORY_H

#include "collect/cuda_driver.h"

struct own_memory;

struct own_memory *own_memory_new(void);

/* Before and after it is turned on; `contexts` of CUcontext, the same ones. The result is in bytes,
 * of all devices together. */
void own_memory_before(struct own_memory *own, const struct cuda_driver *driver,
                       const GPtrArray *contexts);
uint64_t own_memory_after(struct own_memory *own, const struct cuda_driver *driver,
                          const GPtrArray *contexts);

/* Of one device, from any thread; 0 until after. */
uint64_t own_memory_of(struct own_memory *own, uint32_t device);

#endif
