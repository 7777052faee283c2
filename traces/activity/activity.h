/* Device activity of a traced program: kernels, copies, allocations, and the calls that asked for
 * them, one struct per kind of profiler record. In the trace file they lie in the tables of Nsight
 * Systems' export (traces/activity/activity_file.h).
 *
 * Times are nanoseconds of one clock. A string is the id of a record_string. Ids, addresses and
 * counts are 0 if there is none. */
#ifndef PSTAR_TRACES_ACTIVITY_ACTIVITY_H
#define PSTAR_TRACES_ACTIVITY_ACTIVITY_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Values of CUPTI's CUpti_ActivityMemcpyKind. */
enum copy_kind {
    COPY_UNKNOWN,
    COPY_HOST_TO_DEVICE,
    COPY_DEVICE_TO_HOST,
    COPY_HOST_TO_ARRAY,
    COPY_ARRAY_TO_HOST,
    COPY_ARRAY_TO_ARRAY,
    COPY_ARRAY_TO_DEVICE,
    COPY_DEVICE_TO_ARRAY,
    COPY_DEVICE_TO_DEVICE,
    COPY_HOST_TO_HOST,
    COPY_PEER_TO_PEER,
    COPY_UNIFIED_HOST_TO_DEVICE, /* the last three are Nsight Systems' own, for managed memory */
    COPY_UNIFIED_DEVICE_TO_HOST,
    COPY_UNIFIED_DEVICE_TO_DEVICE,
    COPY_KINDS
};

/* Values of Nsight Systems' ENUM_CUDA_MEM_KIND. CUPTI's own numbers differ. */
enum memory_kind {
    MEMORY_PAGEABLE,
    MEMORY_PINNED,
    MEMORY_DEVICE,
    MEMORY_ARRAY,
    MEMORY_MANAGED,
    MEMORY_DEVICE_STATIC,
    MEMORY_MANAGED_STATIC,
    MEMORY_UNKNOWN,
    MEMORY_KINDS
};

enum memory_operation { MEMORY_ALLOCATE, MEMORY_FREE, MEMORY_OPERATIONS };

enum pool_operation { POOL_CREATE, POOL_DESTROY, POOL_TRIM, POOL_OPERATIONS };
enum pool_type { POOL_LOCAL, POOL_IMPORTED, POOL_TYPES };

/* Values of CUPTI's CUpti_ActivitySynchronizationType. */
enum sync_type {
    SYNC_UNKNOWN,
    SYNC_EVENT,
    SYNC_STREAM_WAITS_EVENT,
    SYNC_STREAM,
    SYNC_CONTEXT,
    SYNC_TYPES
};

/* Values of Nsight Systems' ENUM_NSYS_EVENT_CLASS. */
enum call_class { CALL_RUNTIME, CALL_DRIVER, CALL_CLASSES };

struct gpu_record {
    uint32_t id; /* the `device` of the other records */
    uint32_t multiprocessors;
    uint64_t memory_bytes;
    char *name;
    char *uuid; /* NULL if unknown */
};

struct kernel_record {
    uint64_t start_ns, end_ns;
    uint32_t device, context, stream, process;
    uint32_t correlation; /* correlation of the call that launched it */
    uint32_t name;        /* string: "void scale<float>(float*, int)" */
    uint32_t short_name;  /* string: "scale" */
};

/* The launch parameters of a kernel. Separate from kernel_record because few readers need it. */
struct launch_record {
    uint64_t grid_id, graph_node;
    uint64_t local_bytes; /* all threads together */
    uint32_t mangled_name;
    uint32_t grid[3], block[3];
    uint32_t registers; /* per thread */
    uint32_t static_shared_bytes, dynamic_shared_bytes;
    uint32_t thread_local_bytes;
};

struct copy_record {
    uint64_t start_ns, end_ns;
    uint64_t bytes, graph_node;
    uint32_t device, context, stream, process, correlation;
    uint32_t kind;                           /* enum copy_kind */
    uint32_t source, destination;            /* enum memory_kind */
    uint32_t source_device, target_device;   /* only for peer copies, else 0 */
    uint32_t source_context, target_context; /* only for peer copies, else 0 */
};

struct set_record {
    uint64_t start_ns, end_ns;
    uint64_t bytes, graph_node;
    uint32_t device, context, stream, process, correlation;
    uint32_t value;
    uint32_t memory; /* enum memory_kind */
};

struct sync_record {
    uint64_t start_ns, end_ns;
    uint32_t device, context, stream, process, correlation;
    uint32_t type;  /* enum sync_type */
    uint32_t event; /* the event waited for */
};

struct call_record {
    uint64_t start_ns, end_ns;
    uint32_t process, thread;
    uint32_t correlation;
    uint32_t call_class; /* enum call_class */
    uint32_t name;       /* string: "cudaLaunchKernel" */
    uint32_t result;     /* 0 for success */
};

/* Time taken by the profiler itself. */
struct overhead_record {
    uint64_t start_ns, end_ns;
    uint32_t process, thread;
    uint32_t correlation;
    uint32_t type; /* CUPTI's CUpti_ActivityOverheadKind */
    uint32_t name; /* string */
};

struct memory_record {
    uint64_t start_ns;
    uint64_t address, bytes;
    uint64_t caller; /* address of the calling instruction */
    uint64_t pool_address, pool_bytes, pool_used_bytes, pool_release_bytes;
    uint32_t device, context, stream, process, correlation;
    uint32_t kind;      /* enum memory_kind */
    uint32_t operation; /* enum memory_operation */
};

/* An operation on a memory pool. */
struct pool_record {
    uint64_t start_ns;
    uint64_t address;
    uint64_t kept_bytes, release_bytes, bytes, used_bytes;
    uint32_t device, process, correlation;
    uint32_t operation; /* enum pool_operation */
    uint32_t type;      /* enum pool_type */
};

/* The innermost NVTX range around a call. */
struct correlation_record {
    uint64_t range;       /* range_id of a struct record */
    uint32_t correlation; /* correlation of the call */
    uint32_t kind;        /* CUPTI's CUpti_ExternalCorrelationKind */
};

enum activity_part {
    ACTIVITY_GPUS = 1 << 0,
    ACTIVITY_KERNELS = 1 << 1,
    ACTIVITY_LAUNCHES = 1 << 2, /* launch_record; reads the kernels, too */
    ACTIVITY_COPIES = 1 << 3,
    ACTIVITY_SETS = 1 << 4,
    ACTIVITY_SYNCS = 1 << 5,
    ACTIVITY_CALLS = 1 << 6,
    ACTIVITY_OVERHEADS = 1 << 7,
    ACTIVITY_MEMORY = 1 << 8,
    ACTIVITY_POOLS = 1 << 9,
    ACTIVITY_CORRELATIONS = 1 << 10,
    ACTIVITY_ALL = (1 << 11) - 1
};

/* Empty arrays are NULL. */
struct activity {
    struct gpu_record *gpus;
    struct kernel_record *kernels;
    struct launch_record *launches; /* [kernel_count]; NULL if unknown or not read */
    struct copy_record *copies;
    struct set_record *sets;
    struct sync_record *syncs;
    struct call_record *calls;
    struct overhead_record *overheads;
    struct memory_record *memory;
    struct pool_record *pools;
    struct correlation_record *correlations;
    uint32_t gpu_count, kernel_count, copy_count, set_count, sync_count, call_count, overhead_count,
        memory_count, pool_count, correlation_count;
    uint32_t recorded; /* parts that the file has, read or not; set only by activity_read */
    /* Counts of missing records: */
    uint64_t dropped;    /* the profiler had no room for them */
    uint64_t unfinished; /* they had not ended when the recording ended */
    uint64_t untimed;    /* the profiler could not tell when they happened */
    uint64_t unreadable; /* bytes of record kinds that the collector did not know */
    bool chosen_calls;   /* calls that neither start nor wait for anything were not recorded */
};

/* Reads the requested parts (enum activity_part, combined) of the trace at `path`, each ordered by
 * start. Other parts cost nothing. A part that the trace does not have is empty. Fails with
 * TRACE_ERROR, naming table and row, if a value is not a number or out of range, or if a row ends
 * before it begins. */
struct activity *activity_read(const char *path, uint32_t parts, GError **error);
void activity_free(struct activity *activity); /* may be NULL */
void gpu_records_free(struct gpu_record *gpus, uint32_t count);

/* Return "Host-to-Device" or "Pinned", the labels of Nsight Systems. */
const char *copy_kind_label(uint32_t kind);
const char *memory_kind_label(uint32_t kind);

/* Recognises kernels of NCCL and RCCL by their short names: ncclDevKernel_AllGather_RING_LL,
 * ncclKernel_..., ncclAllReduceRingLLKernel_.... They run until the data of the other ranks has
 * arrived, and only sum it. */
bool kernel_is_collective(const char *short_name);

#endif
