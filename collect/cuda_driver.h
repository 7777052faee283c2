/* What the collector asks of CUDA's driver, in a program that has loaded it. */
#ifndef PSTAR_COLLECT_CUDA_DRIVER_H
#define PSTAR_COLLECT_CUDA_DRIVER_H

#include "traces/activity/activity.h"

#include <cuda.h>

#define CUDA_DRIVER_FUNCTIONS(entry)                                                             \
    entry(cuCtxPushCurrent_v2) entry(cuCtxPopCurrent_v2) entry(cuCtxSynchronize)                 \
        entry(cuCtxGetCurrent) entry(cuCtxGetDevice) entry(cuThreadExchangeStreamCaptureMode)    \
            entry(cuMemGetInfo_v2) entry(cuDeviceGetCount) entry(cuDeviceGetName)                \
                entry(cuDeviceTotalMem_v2) entry(cuDeviceGetAttribute) entry(cuDeviceGetUuid_v2) \
                    entry(cuDeviceGetPCIBusId)

struct cuda_driver {
#define CUDA_DRIVER_FIELD(function) __typeof__ (&(function))(function); /* NULL: not there */
    CUDA_DRIVER_FUNCTIONS(CUDA_DRIVER_FIELD)
#undef CUDA_DRIVER_FIELD
};

/* Of the driver that the program has loaded: none is loaded here. */
void cuda_driver_find(struct cuda_driver *driver);

/* Waits for all that was asked of a context. A stream that is being captured stays so. */
void cuda_driver_synchronize(const struct cuda_driver *driver, CUcontext context);

/* A context's device, and its bytes that are free; false: not known. */
bool cuda_driver_free_bytes(const struct cuda_driver *driver, CUcontext context, uint32_t *device,
                            uint64_t *bytes);

/* The devices that the program sees: *count rows, to be freed with g_free, their texts too. */
struct gpu_record *cuda_driver_devices(const struct cuda_driver *driver, uint32_t *count);

#endif
