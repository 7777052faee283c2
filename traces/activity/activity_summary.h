/* How much memory allocations held, from the records of a profiler. */
#ifndef PSTAR_TRACES_ACTIVITY_ACTIVITY_SUMMARY_H
#define PSTAR_TRACES_ACTIVITY_ACTIVITY_SUMMARY_H

#include "traces/activity/activity.h"
#include "traces/activity/steps.h"
#include "traces/records.h"

#include <jansson.h>
#include <stdio.h>

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

/* What the activity of a trace comes to: which device did what, and for how long. */

/* What it is made from: how kernels were launched, and by which calls, is not. */
#define ACTIVITY_SUMMARY_PARTS                                                             \
    (ACTIVITY_GPUS | ACTIVITY_KERNELS | ACTIVITY_COPIES | ACTIVITY_SETS | ACTIVITY_SYNCS | \
     ACTIVITY_OVERHEADS | ACTIVITY_MEMORY)

struct device_summary {
    uint32_t device;
    const struct gpu_record *gpu; /* of the activity; NULL: not described */
    uint32_t kernel_count, copy_count, set_count;
    uint64_t kernel_ns;         /* sum */
    uint64_t busy_ns;           /* at least one kernel ran */
    uint64_t first_ns, last_ns; /* of its kernels, copies and sets */
    struct period steps;        /* of the kernels in its busiest stream; length 0: none was found */
    uint64_t step_ns;           /* from a step's first kernel to the next one's, the median */
};

/* All kernels of one name. */
struct kernel_summary {
    const char *name;
    uint32_t count;
    uint64_t total_ns, longest_ns;
};

/* All copies from one kind of memory to another. */
struct traffic_summary {
    uint32_t kind, source, destination;
    uint32_t count;
    uint64_t bytes, ns;
};

struct activity_summary {
    uint64_t first_ns; /* of everything */
    GArray *devices;   /* of struct device_summary, by device */
    GArray *kernels;   /* of struct kernel_summary, the most time first */
    GArray *traffic;   /* of struct traffic_summary, the most bytes first */
    uint64_t kernel_ns;
    uint64_t wait_ns; /* the host waited for events, streams, contexts */
    uint32_t wait_count;
    uint64_t overhead_ns; /* the profiler's own */
    struct memory_use *memory;
};

/* NULL where no activity was recorded. The activity and the records outlive the summary. */
struct activity_summary *activity_summary_new(const struct activity *activity,
                                              const struct records *records);
void activity_summary_free(struct activity_summary *summary); /* NULL is allowed */

/* Adds to `missing` what was not recorded, a sentence each; `summary` may be NULL. */
void activity_summary_missing(const struct activity_summary *summary,
                              const struct activity *activity, GPtrArray *missing);

/* A table, and an object that docs/formats.md describes; of NULL nothing, and null. */
void activity_summary_print(const struct activity_summary *summary, FILE *out);
json_t *activity_summary_json(const struct activity_summary *summary,
                              const struct activity *activity);

#endif
