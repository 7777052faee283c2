/* Summarises device activity: which device did what and for how long, and how much memory was
 * allocated. */
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
    uint64_t peak_ns; /* time at which the peak is first reached */
};

struct device_memory {
    uint32_t device;
    struct memory_level allocated; /* device memory and arrays, without managed memory */
    uint64_t pool_peak_bytes;      /* the most bytes that one pool had reserved */
};

struct memory_use {
    GArray *devices; /* struct device_memory, ordered by device */
    struct memory_level pinned, managed;
    uint32_t unseen; /* frees of allocations made before the recording */
    uint32_t reused; /* allocations at an address already in use: the free was not recorded */
};

/* Sums up allocations. Memory that was allocated before the recording is not counted. Free with
 * memory_use_free. */
struct memory_use *memory_use_of(const struct activity *activity);
void memory_use_free(struct memory_use *use);

/* The parts of the activity that a summary reads. */
#define ACTIVITY_SUMMARY_PARTS                                                             \
    (ACTIVITY_GPUS | ACTIVITY_KERNELS | ACTIVITY_COPIES | ACTIVITY_SETS | ACTIVITY_SYNCS | \
     ACTIVITY_OVERHEADS | ACTIVITY_MEMORY)

struct device_summary {
    uint32_t device;
    const struct gpu_record *gpu; /* owned by the activity; NULL if not described */
    uint32_t kernel_count, copy_count, set_count;
    uint64_t kernel_ns;         /* sum over its kernels */
    uint64_t busy_ns;           /* time in which at least one kernel ran */
    uint64_t first_ns, last_ns; /* over its kernels, copies and memsets */
    struct period
        steps;        /* found in the kernels of its busiest stream; length 0 if none was found */
    uint64_t step_ns; /* median time from a step's first kernel to the next step's */
};

/* All kernels with one name. */
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
    uint64_t first_ns; /* of all activity */
    GArray *devices;   /* struct device_summary, ordered by device */
    GArray *kernels;   /* struct kernel_summary, the longest total time first */
    GArray *traffic;   /* struct traffic_summary, the most bytes first */
    uint64_t kernel_ns;
    uint64_t wait_ns; /* time for which the host waited for events, streams or contexts */
    uint32_t wait_count;
    uint64_t overhead_ns; /* time taken by the profiler */
    struct memory_use *memory;
};

/* Returns NULL if no activity was recorded. Activity and records must outlive the summary. */
struct activity_summary *activity_summary_new(const struct activity *activity,
                                              const struct records *records);
void activity_summary_free(struct activity_summary *summary); /* may be NULL */

/* Appends a sentence to `missing` for everything that was not recorded. `summary` may be NULL. */
void activity_summary_missing(const struct activity_summary *summary,
                              const struct activity *activity, GPtrArray *missing);

/* Print a table, or return the object that docs/formats.md describes. If `summary` is NULL, nothing
 * is printed and the object is null. */
void activity_summary_print(const struct activity_summary *summary, FILE *out);
json_t *activity_summary_json(const struct activity_summary *summary,
                              const struct activity *activity);

#endif
