/* How much memory allocations held, from the records of a profiler. */
#ifndef PSTAR_TRACES_ACTIVITY_MEMORY_USE_H
#define PSTAR_TRACES_ACTIVITY_MEMORY_USE_H

#include "traces/activity/activity.h"

struct memory_level {
    uint64_t live_bytes; /* at the end */
    uint64_t peak_bytes;
    uint64_t peak_ns; /* the first time it is reached */
};

struct device_memory {
    uint32_t device;
    struct memory_level allocated; /* device memory and arrays; managed memory is apart */
    uint64_t pool_peak_bytes;      /* the most that one pool had reserved */
};

struct memory_use {
    GArray *devices; /* of struct device_memory, by device */
    struct memory_level pinned, managed;
    uint32_t unseen; /* frees of what no record allocated: it was there before */
    uint32_t reused; /* allocations where something lies already: its free is not recorded */
};

/* The memory that was there before the recording began is not in it. The caller frees the result
 * with memory_use_free. */
struct memory_use *memory_use_of(const struct activity *activity);
void memory_use_free(struct memory_use *use);

#endif
