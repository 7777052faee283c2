/* Handmade buffers of CUPTI's activity records. */
#ifndef PSTAR_TESTS_COLLECT_CUPTI_BUFFER_H
#define PSTAR_TESTS_COLLECT_CUPTI_BUFFER_H

#include <cupti_activity.h>
#include <glib.h>

/* Returns the size of a record in the library of the headers; 0 for kinds that are not used here.
 */
static inline size_t cupti_buffer_bytes(CUpti_ActivityKind kind)
{
    switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
        return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
        return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
        return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_MEMORY2:
        return sizeof(CUpti_ActivityMemory4);
    case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
        return sizeof(CUpti_ActivityMemoryPool3);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
        return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
        return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
        return sizeof(CUpti_ActivityOverhead3);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
        return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_NAME:
        return sizeof(CUpti_ActivityName);
    default:
        return 0;
    }
}

/* Replaces cuptiActivityGetNextRecord if there is no library. */
static inline CUptiResult cupti_buffer_next(uint8_t *buffer, size_t valid_bytes,
                                            CUpti_Activity **record)
{
    uint8_t *next = !*record ? buffer : (uint8_t *)*record + cupti_buffer_bytes((*record)->kind);
    size_t left = (size_t)(buffer + valid_bytes - next);
    if (left < sizeof(CUpti_ActivityKind))
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    size_t bytes = cupti_buffer_bytes(((CUpti_Activity *)(void *)next)->kind);
    if (bytes == 0)
        return CUPTI_ERROR_INVALID_KIND;
    if (left < bytes)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)(void *)next;
    return CUPTI_SUCCESS;
}

#endif
