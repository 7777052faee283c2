/* The activity tables: enumerations with Nsight Systems' names, and the column of each field. */
#include "traces/activity/activity.h"
#include "traces/activity/activity_file.h"

#define ENUMERATION(table, rows)                                 \
    "CREATE TABLE IF NOT EXISTS " table                          \
    " (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);" \
    "INSERT OR IGNORE INTO " table " VALUES " rows ";"

const char activity_enumerations[] = ENUMERATION(
    "ENUM_CUDA_MEMCPY_OPER", "(0, 'CUDA_MEMCPY_KIND_UNKNOWN', 'Unknown'),"
                             "(1, 'CUDA_MEMCPY_KIND_HTOD', 'Host-to-Device'),"
                             "(2, 'CUDA_MEMCPY_KIND_DTOH', 'Device-to-Host'),"
                             "(3, 'CUDA_MEMCPY_KIND_HTOA', 'Host-to-Array'),"
                             "(4, 'CUDA_MEMCPY_KIND_ATOH', 'Array-to-Host'),"
                             "(5, 'CUDA_MEMCPY_KIND_ATOA', 'Array-to-Array'),"
                             "(6, 'CUDA_MEMCPY_KIND_ATOD', 'Array-to-Device'),"
                             "(7, 'CUDA_MEMCPY_KIND_DTOA', 'Device-to-Array'),"
                             "(8, 'CUDA_MEMCPY_KIND_DTOD', 'Device-to-Device'),"
                             "(9, 'CUDA_MEMCPY_KIND_HTOH', 'Host-to-Host'),"
                             "(10, 'CUDA_MEMCPY_KIND_PTOP', 'Peer-to-Peer'),"
                             "(11, 'CUDA_MEMCPY_KIND_UVM_HTOD', 'Unified Host-to-Device'),"
                             "(12, 'CUDA_MEMCPY_KIND_UVM_DTOH', 'Unified Device-to-Host'),"
                             "(13, 'CUDA_MEMCPY_KIND_UVM_DTOD', 'Unified Device-to-Device')")
    ENUMERATION("ENUM_CUDA_MEM_KIND",
                "(0, 'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE', 'Pageable'),"
                "(1, 'CUDA_MEMOPR_MEMORY_KIND_PINNED', 'Pinned'),"
                "(2, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE', 'Device'),"
                "(3, 'CUDA_MEMOPR_MEMORY_KIND_ARRAY', 'Array'),"
                "(4, 'CUDA_MEMOPR_MEMORY_KIND_MANAGED', 'Managed'),"
                "(5, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC', 'Device Static'),"
                "(6, 'CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC', 'Managed Static'),"
                "(7, 'CUDA_MEMOPR_MEMORY_KIND_UNKNOWN', 'Unknown')")
        ENUMERATION("ENUM_CUDA_DEV_MEM_EVENT_OPER",
                    "(0, 'CUDA_DEV_MEM_EVENT_OPR_ALLOCATION', 'Allocation'),"
                    "(1, 'CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION', 'Deallocation')")
            ENUMERATION("ENUM_CUDA_MEMPOOL_OPER",
                        "(0, 'CUDA_MEMPOOL_OPR_CREATED', 'Creation'),"
                        "(1, 'CUDA_MEMPOOL_OPR_DESTROYED', 'Destruction'),"
                        "(2, 'CUDA_MEMPOOL_OPR_TRIMMED', 'Trimming')")
                ENUMERATION("ENUM_CUDA_MEMPOOL_TYPE",
                            "(0, 'CUDA_MEMPOOL_TYPE_LOCAL', 'Local'),"
                            "(1, 'CUDA_MEMPOOL_TYPE_IMPORTED', 'Imported')")
                    ENUMERATION("ENUM_CUPTI_SYNC_TYPE",
                                "(0, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN', 'Unknown'),"
                                "(1, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE', "
                                "'Event sync'),"
                                "(2, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT', "
                                "'Stream wait sync'),"
                                "(3, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE', "
                                "'Stream sync'),"
                                "(4, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE', "
                                "'Context sync')");

const char *copy_kind_label(uint32_t kind)
{
    static const char *const labels[COPY_KINDS] = {"Unknown",
                                                   "Host-to-Device",
                                                   "Device-to-Host",
                                                   "Host-to-Array",
                                                   "Array-to-Host",
                                                   "Array-to-Array",
                                                   "Array-to-Device",
                                                   "Device-to-Array",
                                                   "Device-to-Device",
                                                   "Host-to-Host",
                                                   "Peer-to-Peer",
                                                   "Unified Host-to-Device",
                                                   "Unified Device-to-Host",
                                                   "Unified Device-to-Device"};
    return labels[kind < COPY_KINDS ? kind : COPY_UNKNOWN];
}

const char *memory_kind_label(uint32_t kind)
{
    static const char *const labels[MEMORY_KINDS] = {"Pageable",       "Pinned",  "Device",
                                                     "Array",          "Managed", "Device Static",
                                                     "Managed Static", "Unknown"};
    return labels[kind < MEMORY_KINDS ? kind : MEMORY_UNKNOWN];
}

#define COLUMN(record, column, kind, field)      \
    {                                            \
        column, offsetof(record, field), kind, 0 \
    }
#define NAMED(record, column, field, below)               \
    {                                                     \
        column, offsetof(record, field), COLUMN_32, below \
    }
#define SLICE(part, record, array, columns)                                                    \
    {                                                                                          \
        part, offsetof(struct activity, array), sizeof(record), columns, G_N_ELEMENTS(columns) \
    }

/* Columns of everything that runs in a stream. */
#define IN_STREAM(record)                                                                   \
    COLUMN(record, "start", COLUMN_64, start_ns), COLUMN(record, "end", COLUMN_64, end_ns), \
        COLUMN(record, "deviceId", COLUMN_32, device),                                      \
        COLUMN(record, "contextId", COLUMN_32, context),                                    \
        COLUMN(record, "streamId", COLUMN_32, stream),                                      \
        COLUMN(record, "correlationId", COLUMN_32_OR_NULL, correlation),                    \
        COLUMN(record, "globalPid", COLUMN_PROCESS, process)
#define SQL_IN_STREAM                                                                             \
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER " \
    "NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, "        \
    "globalPid INTEGER"

/* Columns of everything that a host thread does. */
#define ON_THREAD(record)                                                                   \
    COLUMN(record, "start", COLUMN_64, start_ns), COLUMN(record, "end", COLUMN_64, end_ns), \
        COLUMN(record, "globalTid", COLUMN_THREAD, process),                                \
        COLUMN(record, "correlationId", COLUMN_32_OR_NULL, correlation)
#define SQL_ON_THREAD                                                                       \
    "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid " \
    "INTEGER, correlationId INTEGER"

static const struct activity_column gpu_columns[] = {
    COLUMN(struct gpu_record, "id", COLUMN_32, id),
    COLUMN(struct gpu_record, "name", COLUMN_TEXT, name),
    COLUMN(struct gpu_record, "totalMemory", COLUMN_64_OR_NULL, memory_bytes),
    COLUMN(struct gpu_record, "smCount", COLUMN_32_OR_NULL, multiprocessors),
    COLUMN(struct gpu_record, "uuid", COLUMN_TEXT, uuid),
};

static const struct activity_column kernel_columns[] = {
    IN_STREAM(struct kernel_record),
    COLUMN(struct kernel_record, "demangledName", COLUMN_32, name),
    COLUMN(struct kernel_record, "shortName", COLUMN_32, short_name),
};

static const struct activity_column launch_columns[] = {
    COLUMN(struct launch_record, "mangledName", COLUMN_32_OR_NULL, mangled_name),
    COLUMN(struct launch_record, "registersPerThread", COLUMN_32, registers),
    COLUMN(struct launch_record, "gridX", COLUMN_32, grid[0]),
    COLUMN(struct launch_record, "gridY", COLUMN_32, grid[1]),
    COLUMN(struct launch_record, "gridZ", COLUMN_32, grid[2]),
    COLUMN(struct launch_record, "blockX", COLUMN_32, block[0]),
    COLUMN(struct launch_record, "blockY", COLUMN_32, block[1]),
    COLUMN(struct launch_record, "blockZ", COLUMN_32, block[2]),
    COLUMN(struct launch_record, "staticSharedMemory", COLUMN_32, static_shared_bytes),
    COLUMN(struct launch_record, "dynamicSharedMemory", COLUMN_32, dynamic_shared_bytes),
    COLUMN(struct launch_record, "localMemoryPerThread", COLUMN_32, thread_local_bytes),
    COLUMN(struct launch_record, "localMemoryTotal", COLUMN_64, local_bytes),
    COLUMN(struct launch_record, "gridId", COLUMN_64, grid_id),
    COLUMN(struct launch_record, "graphNodeId", COLUMN_64_OR_NULL, graph_node),
};

static const struct activity_column copy_columns[] = {
    IN_STREAM(struct copy_record),
    COLUMN(struct copy_record, "bytes", COLUMN_64, bytes),
    COLUMN(struct copy_record, "copyKind", COLUMN_32, kind),
    NAMED(struct copy_record, "srcKind", source, MEMORY_KINDS),
    NAMED(struct copy_record, "dstKind", destination, MEMORY_KINDS),
    COLUMN(struct copy_record, "srcDeviceId", COLUMN_32_OR_NULL, source_device),
    COLUMN(struct copy_record, "srcContextId", COLUMN_32_OR_NULL, source_context),
    COLUMN(struct copy_record, "dstDeviceId", COLUMN_32_OR_NULL, target_device),
    COLUMN(struct copy_record, "dstContextId", COLUMN_32_OR_NULL, target_context),
    COLUMN(struct copy_record, "graphNodeId", COLUMN_64_OR_NULL, graph_node),
};

static const struct activity_column set_columns[] = {
    IN_STREAM(struct set_record),
    COLUMN(struct set_record, "value", COLUMN_32, value),
    COLUMN(struct set_record, "bytes", COLUMN_64, bytes),
    COLUMN(struct set_record, "graphNodeId", COLUMN_64_OR_NULL, graph_node),
    NAMED(struct set_record, "memKind", memory, MEMORY_KINDS),
};

static const struct activity_column sync_columns[] = {
    IN_STREAM(struct sync_record),
    COLUMN(struct sync_record, "syncType", COLUMN_32, type),
    COLUMN(struct sync_record, "eventId", COLUMN_32, event),
};

static const struct activity_column call_columns[] = {
    ON_THREAD(struct call_record),
    COLUMN(struct call_record, "eventClass", COLUMN_32, call_class),
    COLUMN(struct call_record, "nameId", COLUMN_32, name),
    COLUMN(struct call_record, "returnValue", COLUMN_32, result),
};

static const struct activity_column overhead_columns[] = {
    ON_THREAD(struct overhead_record),
    COLUMN(struct overhead_record, "nameId", COLUMN_32_OR_NULL, name),
    COLUMN(struct overhead_record, "overheadType", COLUMN_32, type),
};

static const struct activity_column memory_columns[] = {
    COLUMN(struct memory_record, "start", COLUMN_64, start_ns),
    COLUMN(struct memory_record, "globalPid", COLUMN_PROCESS, process),
    COLUMN(struct memory_record, "deviceId", COLUMN_32, device),
    COLUMN(struct memory_record, "contextId", COLUMN_32, context),
    COLUMN(struct memory_record, "address", COLUMN_64, address),
    COLUMN(struct memory_record, "pc", COLUMN_64, caller),
    COLUMN(struct memory_record, "bytes", COLUMN_64, bytes),
    NAMED(struct memory_record, "memKind", kind, MEMORY_KINDS),
    NAMED(struct memory_record, "memoryOperationType", operation, MEMORY_OPERATIONS),
    COLUMN(struct memory_record, "correlationId", COLUMN_32_OR_NULL, correlation),
    COLUMN(struct memory_record, "streamId", COLUMN_32_OR_NULL, stream),
    COLUMN(struct memory_record, "localMemoryPoolAddress", COLUMN_64_OR_NULL, pool_address),
    COLUMN(struct memory_record, "localMemoryPoolReleaseThreshold", COLUMN_64_OR_NULL,
           pool_release_bytes),
    COLUMN(struct memory_record, "localMemoryPoolSize", COLUMN_64_OR_NULL, pool_bytes),
    COLUMN(struct memory_record, "localMemoryPoolUtilizedSize", COLUMN_64_OR_NULL, pool_used_bytes),
};

static const struct activity_column pool_columns[] = {
    COLUMN(struct pool_record, "start", COLUMN_64, start_ns),
    COLUMN(struct pool_record, "globalPid", COLUMN_PROCESS, process),
    COLUMN(struct pool_record, "deviceId", COLUMN_32, device),
    COLUMN(struct pool_record, "address", COLUMN_64, address),
    NAMED(struct pool_record, "operationType", operation, POOL_OPERATIONS),
    NAMED(struct pool_record, "poolType", type, POOL_TYPES),
    COLUMN(struct pool_record, "correlationId", COLUMN_32_OR_NULL, correlation),
    COLUMN(struct pool_record, "minBytesToKeep", COLUMN_64_OR_NULL, kept_bytes),
    COLUMN(struct pool_record, "localMemoryPoolReleaseThreshold", COLUMN_64_OR_NULL, release_bytes),
    COLUMN(struct pool_record, "localMemoryPoolSize", COLUMN_64_OR_NULL, bytes),
    COLUMN(struct pool_record, "localMemoryPoolUtilizedSize", COLUMN_64_OR_NULL, used_bytes),
};

static const struct activity_column correlation_columns[] = {
    COLUMN(struct correlation_record, "externalId", COLUMN_64, range),
    COLUMN(struct correlation_record, "correlationId", COLUMN_32, correlation),
    COLUMN(struct correlation_record, "externalKind", COLUMN_32, kind),
};

const struct activity_count activity_counts[ACTIVITY_COUNTS] = {
    {"dropped_records", offsetof(struct activity, dropped)},
    {"unfinished_records", offsetof(struct activity, unfinished)},
    {"untimed_records", offsetof(struct activity, untimed)},
    {"unreadable_bytes", offsetof(struct activity, unreadable)},
};

const struct activity_table activity_tables[ACTIVITY_TABLES] = {
    {.name = "TARGET_INFO_GPU",
     .columns = "vmId INTEGER, id INTEGER NOT NULL, name TEXT, busLocation TEXT, totalMemory "
                "INTEGER, memoryBandwidth INTEGER, clockRate INTEGER, smCount INTEGER, uuid TEXT, "
                "chipName TEXT, cuDevice INTEGER, computeMajor INTEGER, computeMinor INTEGER",
     .count_offset = offsetof(struct activity, gpu_count),
     .slice_count = 1,
     .slices = {SLICE(ACTIVITY_GPUS, struct gpu_record, gpus, gpu_columns)}},
    {.name = "CUPTI_ACTIVITY_KIND_KERNEL",
     .columns = SQL_IN_STREAM
     ", demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, "
     "launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, "
     "gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, "
     "blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, "
     "staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, "
     "localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, "
     "gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER, graphNodeId INTEGER, "
     "sharedMemoryLimitConfig INTEGER",
     .count_offset = offsetof(struct activity, kernel_count),
     .times = 2,
     .slice_count = 2,
     .slices = {SLICE(ACTIVITY_KERNELS, struct kernel_record, kernels, kernel_columns),
                SLICE(ACTIVITY_LAUNCHES, struct launch_record, launches, launch_columns)}},
    {.name = "CUPTI_ACTIVITY_KIND_MEMCPY",
     .columns = SQL_IN_STREAM
     ", bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, "
     "srcKind INTEGER, dstKind INTEGER, srcDeviceId INTEGER, srcContextId INTEGER, "
     "dstDeviceId INTEGER, dstContextId INTEGER, migrationCause INTEGER, graphNodeId INTEGER, "
     "virtualAddress INTEGER",
     .count_offset = offsetof(struct activity, copy_count),
     .times = 2,
     .slice_count = 1,
     .slices = {SLICE(ACTIVITY_COPIES, struct copy_record, copies, copy_columns)}},
    {.name = "CUPTI_ACTIVITY_KIND_MEMSET",
     .columns = SQL_IN_STREAM ", value INTEGER NOT NULL, bytes INTEGER NOT NULL, graphNodeId "
                              "INTEGER, memKind INTEGER",
     .count_offset = offsetof(struct activity, set_count),
     .times = 2,
     .slice_count = 1,
     .slices = {SLICE(ACTIVITY_SETS, struct set_record, sets, set_columns)}},
    {.name = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
     .columns = SQL_IN_STREAM ", syncType INTEGER NOT NULL, eventId INTEGER NOT NULL",
     .count_offset = offsetof(struct activity, sync_count),
     .times = 2,
     .slice_count = 1,
     .slices = {SLICE(ACTIVITY_SYNCS, struct sync_record, syncs, sync_columns)}},
    {.name = "CUPTI_ACTIVITY_KIND_RUNTIME",
     .columns = SQL_ON_THREAD ", nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, "
                              "callchainId INTEGER",
     .count_offset = offsetof(struct activity, call_count),
     .times = 2,
     .slice_count = 1,
     .slices = {SLICE(ACTIVITY_CALLS, struct call_record, calls, call_columns)}},
    {.name = "CUPTI_ACTIVITY_KIND_OVERHEAD",
     .columns = "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER, globalTid "
                "INTEGER, correlationId INTEGER, nameId INTEGER, overheadType INTEGER NOT NULL",
     .count_offset = offsetof(struct activity, overhead_count),
     .times = 2,
     .slice_count = 1,
     .slices = {SLICE(ACTIVITY_OVERHEADS, struct overhead_record, overheads, overhead_columns)}},
    {.name = "CUDA_GPU_MEMORY_USAGE_EVENTS",
     .columns = "start INTEGER NOT NULL, globalPid INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
                "contextId INTEGER NOT NULL, address INTEGER NOT NULL, pc INTEGER NOT NULL, "
                "bytes INTEGER NOT NULL, memKind INTEGER NOT NULL, memoryOperationType INTEGER "
                "NOT NULL, name TEXT, correlationId INTEGER, streamId INTEGER, "
                "localMemoryPoolAddress INTEGER, localMemoryPoolReleaseThreshold INTEGER, "
                "localMemoryPoolSize INTEGER, localMemoryPoolUtilizedSize INTEGER, "
                "importedMemoryPoolAddress INTEGER, importedMemoryPoolProcessId INTEGER",
     .count_offset = offsetof(struct activity, memory_count),
     .times = 1,
     .slice_count = 1,
     .slices = {SLICE(ACTIVITY_MEMORY, struct memory_record, memory, memory_columns)}},
    {.name = "CUDA_GPU_MEMORY_POOL_EVENTS",
     .columns = "start INTEGER NOT NULL, globalPid INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
                "address INTEGER NOT NULL, operationType INTEGER NOT NULL, poolType INTEGER NOT "
                "NULL, correlationId INTEGER, minBytesToKeep INTEGER, "
                "localMemoryPoolReleaseThreshold INTEGER, localMemoryPoolSize INTEGER, "
                "localMemoryPoolUtilizedSize INTEGER",
     .count_offset = offsetof(struct activity, pool_count),
     .times = 1,
     .slice_count = 1,
     .slices = {SLICE(ACTIVITY_POOLS, struct pool_record, pools, pool_columns)}},
    {.name = "CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION",
     .columns = "externalKind INTEGER NOT NULL, externalId INTEGER NOT NULL, correlationId INTEGER "
                "NOT NULL",
     .count_offset = offsetof(struct activity, correlation_count),
     .slice_count = 1,
     .slices = {SLICE(ACTIVITY_CORRELATIONS, struct correlation_record, correlations,
                      correlation_columns)}},
};
