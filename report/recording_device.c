#include "report/recording.h"

#include <string.h>

static int strip_of_copy(uint32_t kind)
{
    switch (kind) {
    case COPY_HOST_TO_DEVICE:
    case COPY_HOST_TO_ARRAY:
    case COPY_UNIFIED_HOST_TO_DEVICE:
        return STRIP_H2D;
    case COPY_DEVICE_TO_HOST:
    case COPY_ARRAY_TO_HOST:
    case COPY_UNIFIED_DEVICE_TO_HOST:
        return STRIP_D2H;
    case COPY_PEER_TO_PEER:
        return STRIP_NETWORK;
    default:
        return STRIP_UNKNOWN;
    }
}

/* NCCL's and RCCL's: ncclDevKernel_AllGather_RING_LL, ncclKernel_...,
 * ncclAllReduceRingLLKernel_.... It runs until the other ranks' data is here, and computes nothing
 * but sums of it. */
static bool is_collective(const char *kernel)
{
    return g_str_has_prefix(kernel, "nccl") && strstr(kernel, "Kernel");
}

void recording_add_device(const struct recording *recording)
{
    const struct activity *activity = recording->activity;
    for (uint32_t k = 0; k < activity->kernel_count; k++) {
        const struct kernel_record *kernel = &activity->kernels[k];
        const struct window span = {kernel->start_ns, kernel->end_ns};
        const char *name = records_text(recording->records, kernel->short_name);
        recording_add_span(recording, is_collective(name) ? STRIP_NETWORK : STRIP_COMPUTE, &span,
                           name, STRIP_NO_PHASE, 0);
    }
    for (uint32_t c = 0; c < activity->copy_count; c++) {
        const struct copy_record *copy = &activity->copies[c];
        const struct window span = {copy->start_ns, copy->end_ns};
        int strip = strip_of_copy(copy->kind);
        if (strip != STRIP_UNKNOWN)
            recording_add_span(recording, (enum strip)strip, &span, copy_kind_label(copy->kind),
                               STRIP_NO_PHASE, copy->bytes);
    }
    recording->strips->gpu = true;
    recording->strips->known[STRIP_COMPUTE] = true;
    recording->strips->known[STRIP_H2D] = recording->strips->known[STRIP_D2H] = true;
    recording->strips->known[STRIP_NETWORK] = recording->strips->spans[STRIP_NETWORK]->len > 0;
}
