#include "collect/cupti_sizes.h"

#include <stddef.h>
#include <string.h>

G_DEFINE_QUARK(pstar_cupti_error, cupti_error)

/* The last field that is read lies in both where the newer has it, so that one reading serves. */
#define SAME_UP_TO(newer, older, field)                              \
    _Static_assert(offsetof(newer, field) == offsetof(older, field), \
                   #older " is not the beginning of " #newer)

SAME_UP_TO(CUpti_ActivityKernel10, CUpti_ActivityKernel9, localMemoryTotal_v2);
SAME_UP_TO(CUpti_ActivityKernel10, CUpti_ActivityKernel9, graphNodeId);
SAME_UP_TO(CUpti_ActivityMemcpy6, CUpti_ActivityMemcpy5, graphNodeId);
SAME_UP_TO(CUpti_ActivityMemory4, CUpti_ActivityMemory3, memoryPoolConfig.utilizedSize);
SAME_UP_TO(CUpti_ActivityMemoryPool3, CUpti_ActivityMemoryPool2, utilizedSize);
SAME_UP_TO(CUpti_ActivitySynchronization2, CUpti_ActivitySynchronization, cudaEventId);
SAME_UP_TO(CUpti_ActivityOverhead3, CUpti_ActivityOverhead2, correlationId);

/* From version to version records grow at their end. */
enum { MOST_VERSIONS = 5 };

static const struct {
    CUpti_ActivityKind kind;
    const char *name;
    size_t bytes[MOST_VERSIONS]; /* from CUDA 12.0 to 13.5 */
} expected[] = {
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
     "kernels",
     {sizeof(CUpti_ActivityKernel9), sizeof(CUpti_ActivityKernel10),
      /* CUpti_ActivityKernel11 to 13: priority, execution model, the graph it came from */
      224, 232, 248}},
    {CUPTI_ACTIVITY_KIND_MEMCPY,
     "copies",
     {sizeof(CUpti_ActivityMemcpy5), sizeof(CUpti_ActivityMemcpy6), 112 /* the graph */}},
    {CUPTI_ACTIVITY_KIND_MEMCPY2, "copies between devices", {sizeof(CUpti_ActivityMemcpyPtoP4)}},
    {CUPTI_ACTIVITY_KIND_MEMSET, "memsets", {sizeof(CUpti_ActivityMemset4), 104 /* the graph */}},
    {CUPTI_ACTIVITY_KIND_MEMORY2,
     "allocations",
     {sizeof(CUpti_ActivityMemory3), sizeof(CUpti_ActivityMemory4)}},
    {CUPTI_ACTIVITY_KIND_MEMORY_POOL,
     "memory pools",
     {sizeof(CUpti_ActivityMemoryPool2), sizeof(CUpti_ActivityMemoryPool3)}},
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
     "synchronisations",
     {sizeof(CUpti_ActivitySynchronization), sizeof(CUpti_ActivitySynchronization2)}},
    {CUPTI_ACTIVITY_KIND_RUNTIME, "runtime calls", {sizeof(CUpti_ActivityAPI)}},
    {CUPTI_ACTIVITY_KIND_DRIVER, "driver calls", {sizeof(CUpti_ActivityAPI)}},
    {CUPTI_ACTIVITY_KIND_OVERHEAD,
     "overheads",
     {sizeof(CUpti_ActivityOverhead2), sizeof(CUpti_ActivityOverhead3)}},
    {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
     "external correlations",
     {sizeof(CUpti_ActivityExternalCorrelation)}},
};

/* From a record to the next in a buffer that holds the kind wherever one may begin. */
static CUptiResult measure(cupti_next_record next, CUpti_ActivityKind kind, size_t *bytes)
{
    _Alignas(8) uint8_t buffer[1024] = {0};
    CUpti_Activity *record = NULL;
    for (size_t at = 0; at < sizeof buffer; at += 8)
        *(CUpti_ActivityKind *)(void *)(buffer + at) = kind;
    CUptiResult result = next(buffer, sizeof buffer, &record);
    if (result == CUPTI_SUCCESS)
        result = next(buffer, sizeof buffer, &record);
    *bytes = result == CUPTI_SUCCESS ? (size_t)((uint8_t *)record - buffer) : 0;
    return result;
}

bool cupti_sizes_measure(cupti_next_record next, size_t *bytes, GError **error)
{
    memset(bytes, 0, CUPTI_ACTIVITY_KIND_COUNT * sizeof *bytes);
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
        size_t measured;
        CUptiResult result = measure(next, expected[i].kind, &measured);
        bool known = false;
        for (int version = 0; version < MOST_VERSIONS; version++)
            known = known || (measured > 0 && measured == expected[i].bytes[version]);
        if (result != CUPTI_SUCCESS)
            g_set_error(error, CUPTI_ERROR, CUPTI_ERROR_CALL,
                        "libcupti does not walk through records of %s (CUPTI error %d)",
                        expected[i].name, (int)result);
        else if (!known)
            g_set_error(error, CUPTI_ERROR, CUPTI_ERROR_RECORDS,
                        "libcupti's records of %s have %zu bytes, which is of no version that this "
                        "collector can read",
                        expected[i].name, measured);
        if (!known)
            return false;
        bytes[expected[i].kind] = measured;
    }
    return true;
}
