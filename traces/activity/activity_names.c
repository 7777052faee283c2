/* The enumerations of the activity records: their labels, and the tables that spell them out for
 * scripts, with the names that Nsight Systems gives them. */
#include "traces/activity/activity.h"
#include "traces/activity/activity_tables.h"

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
