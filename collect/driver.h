/* What the collector asks of CUDA's driver, in a program that has loaded it. */
#ifndef PSTAR_COLLECT_DRIVER_H
#define PSTAR_COLLECT_DRIVER_H

#include "traces/activity/activity.h"

#include <cuda.h>
#include <stdint.h>

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

/* Device memory that the recording takes itself: what is free before it is turned on, and no more
 * when it has been. */

struct own_memory;

struct own_memory *own_memory_new(void);

/* Before and after it is turned on; `contexts` of CUcontext, the same ones. The result is in bytes,
 * of all devices together. */
void own_memory_before(struct own_memory *own, const struct cuda_driver *driver,
                       const GPtrArray *contexts);
uint64_t own_memory_after(struct own_memory *own, const struct cuda_driver *driver,
                          const GPtrArray *contexts);

/* Of one device, from any thread; 0 until after. */
uint64_t own_memory_of(struct own_memory *own, uint32_t device);

/* What NVIDIA's management library says of the devices that a program sees. */

struct nvml;

/* NULL where there is no library, or it does not work. */
struct nvml *nvml_new(void);
void nvml_free(struct nvml *nvml); /* NULL is allowed */

/* Adds the device that lies at a place of the PCI bus ("0000:65:00.0"), by the number that the
 * program has for it; `own_bytes` of its memory are the collector's. */
void nvml_add(struct nvml *nvml, uint32_t device, const char *bus, uint64_t own_bytes);

/* Calls `take` for each counter of each device that the library knows: "device0_busy_percent" (a
 * kernel ran, over the library's own period), "device0_memory_busy_percent",
 * "device0_used_bytes" (of all processes, less the collector's own), "device0_pcie_sent_bytes" and
 * "device0_pcie_received_bytes" (since some time; they wrap). The names stay valid. */
void nvml_sample(struct nvml *nvml, void (*take)(void *data, const char *counter, uint64_t value),
                 void *data);

#endif
