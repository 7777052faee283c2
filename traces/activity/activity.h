/* What the device did while a traced program ran: kernels, copies, allocations, and the calls that
 * asked for them. A profiler's records, a struct each; in the trace file they lie in the tables of
 * Nsight Systems' export (traces/activity/activity_tables.h).
 *
 * Times are ns of one clock. A string is the id of a record_string; ids, addresses and counts are 0
 * where there is none. */
#ifndef PSTAR_TRACES_ACTIVITY_ACTIVITY_H
#define PSTAR_TRACES_ACTIVITY_ACTIVITY_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* As in CUPTI's CUpti_ActivityMemcpyKind. */
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
    COPY_UNIFIED_HOST_TO_DEVICE, /* these three: of managed memory, Nsight Systems' own */
    COPY_UNIFIED_DEVICE_TO_HOST,
    COPY_UNIFIED_DEVICE_TO_DEVICE,
    COPY_KINDS
};

/* As in Nsight Systems' ENUM_CUDA_MEM_KIND; CUPTI's own numbers differ. */
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

/* As in CUPTI's CUpti_ActivitySynchronizationType. */
enum sync_type {
    SYNC_UNKNOWN,
    SYNC_EVENT,
    SYNC_STREAM_WAITS_EVENT,
    SYNC_STREAM,
    SYNC_CONTEXT,
    SYNC_TYPES
};

/* As in Nsight Systems' ENUM_NSYS_EVENT_CLASS. */
enum call_class { CALL_RUNTIME, CALL_DRIVER, CALL_CLASSES };

struct gpu_record {
    uint32_t id; /* the `device` of the others */
    uint32_t multiprocessors;
    uint64_t memory_bytes;
    char *name;
    char *uuid; /* NULL: not known */
};

struct kernel_record {
    uint64_t start_ns, end_ns;
    uint32_t device, context, stream, process;
    uint32_t correlation; /* of the call that launched it */
    uint32_t name;        /* string: "void scale<float>(float*, int)" */
    uint32_t short_name;  /* string: "scale" */
};

/* How a kernel was launched: apart from when it ran, since few ask. */
struct launch_record {
    uint64_t grid_id, graph_node;
    uint64_t local_bytes; /* of all threads together */
    uint32_t mangled_name;
    uint32_t grid[3], block[3];
    uint32_t registers; /* a thread's */
    uint32_t static_shared_bytes, dynamic_shared_bytes;
    uint32_t thread_local_bytes;
};

struct copy_record {
    uint64_t start_ns, end_ns;
    uint64_t bytes, graph_node;
    uint32_t device, context, stream, process, correlation;
    uint32_t kind;                           /* enum copy_kind */
    uint32_t source, destination;            /* enum memory_kind */
    uint32_t source_device, target_device;   /* of peers; else 0 */
    uint32_t source_context, target_context; /* likewise */
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
    uint32_t event; /* that it waits for */
};

struct call_record {
    uint64_t start_ns, end_ns;
    uint32_t process, thread;
    uint32_t correlation;
    uint32_t call_class; /* enum call_class */
    uint32_t name;       /* string: "cudaLaunchKernel" */
    uint32_t result;     /* 0: it succeeded */
};

/* Time that the profiler itself took. */
struct overhead_record {
    uint64_t start_ns, end_ns;
    uint32_t process, thread;
    uint32_t correlation;
    uint32_t type; /* as in CUPTI's CUpti_ActivityOverheadKind */
    uint32_t name; /* string */
};

struct memory_record {
    uint64_t start_ns;
    uint64_t address, bytes;
    uint64_t caller; /* address of the instruction */
    uint64_t pool_address, pool_bytes, pool_used_bytes, pool_release_bytes;
    uint32_t device, context, stream, process, correlation;
    uint32_t kind;      /* enum memory_kind */
    uint32_t operation; /* enum memory_operation */
};

/* What became of a pool that allocations are made from. */
struct pool_record {
    uint64_t start_ns;
    uint64_t address;
    uint64_t kept_bytes, release_bytes, bytes, used_bytes;
    uint32_t device, process, correlation;
    uint32_t operation; /* enum pool_operation */
    uint32_t type;      /* enum pool_type */
};

/* The innermost NVTX range in which a call was made. */
struct correlation_record {
    uint64_t range;       /* struct record's range_id */
    uint32_t correlation; /* of the call */
    uint32_t kind;        /* as in CUPTI's CUpti_ExternalCorrelationKind */
};

enum activity_part {
    ACTIVITY_GPUS = 1 << 0,
    ACTIVITY_KERNELS = 1 << 1,
    ACTIVITY_LAUNCHES = 1 << 2, /* of the kernels, which are then read too */
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

/* Arrays that are empty are NULL. */
struct activity {
    struct gpu_record *gpus;
    struct kernel_record *kernels;
    struct launch_record *launches; /* [kernel_count]; NULL: not known, or not read */
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
    uint32_t recorded; /* parts that the file has, read or not; of activity_read alone */
    /* Records that are not there: */
    uint64_t dropped;    /* the profiler had no room for them */
    uint64_t unfinished; /* they had not ended when the recording did */
    uint64_t untimed;    /* the profiler could not tell when they ran */
    uint64_t unreadable; /* bytes, of kinds that the collector did not know */
    bool chosen_calls;   /* calls that neither start nor wait for anything were not recorded */
};

/* Reads the wanted parts (enum activity_part, combined) of the trace at `path`, each in order of
 * start, and only those: the others cost nothing. A trace without them yields empty ones. Fails
 * with TRACE_ERROR, naming the table and the row, on what is no number, out of its range, or ends
 * before it begins. */
struct activity *activity_read(const char *path, uint32_t parts, GError **error);
void activity_free(struct activity *activity); /* NULL is allowed */

/* "Host-to-Device", "Pinned", as Nsight Systems labels them. */
const char *copy_kind_label(uint32_t kind);
const char *memory_kind_label(uint32_t kind);

#endif
