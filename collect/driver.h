/* Asks CUDA's driver and NVIDIA's management library (NVML) about devices and memory. */
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
#define CUDA_DRIVER_FIELD(function) __typeof__ (&(function))(function); /* NULL if missing */
    CUDA_DRIVER_FUNCTIONS(CUDA_DRIVER_FIELD)
#undef CUDA_DRIVER_FIELD
};

/* Finds the functions of the driver that the program has loaded. Does not load a driver. */
void cuda_driver_find(struct cuda_driver *driver);

/* Waits for all work of a context. A stream that is being captured stays in capture mode. */
void cuda_driver_synchronize(const struct cuda_driver *driver, CUcontext context);

/* Sets the device of a context and its free bytes. Returns false if they are unknown. */
bool cuda_driver_free_bytes(const struct cuda_driver *driver, CUcontext context, uint32_t *device,
                            uint64_t *bytes);

/* Returns *count devices that the program sees. Free with gpu_records_free. */
struct gpu_record *cuda_driver_devices(const struct cuda_driver *driver, uint32_t *count);

/* Measures the device memory that recording itself takes, as the drop in free memory when it is
 * turned on. */

struct own_memory;

struct own_memory *own_memory_new(void);

/* Call these before and after turning recording on, with the same `contexts` (CUcontext).
 * own_memory_after returns the bytes of all devices together. */
void own_memory_before(struct own_memory *own, const struct cuda_driver *driver,
                       const GPtrArray *contexts);
uint64_t own_memory_after(struct own_memory *own, const struct cuda_driver *driver,
                          const GPtrArray *contexts);

/* Returns the bytes of one device; 0 before own_memory_after. May be called from any thread. */
uint64_t own_memory_of(struct own_memory *own, uint32_t device);

/* Counters of the devices that the program sees, from NVML. */

struct nvml;

/* Returns NULL if there is no library or it does not work. */
struct nvml *nvml_new(void);
void nvml_free(struct nvml *nvml); /* may be NULL */

/* Adds the device at a PCI address ("0000:65:00.0") under the program's number for it. `own_bytes`
 * of its memory belong to the collector. */
void nvml_add(struct nvml *nvml, uint32_t device, const char *bus, uint64_t own_bytes);

/* Calls `take` for each counter of each device that the library knows: "device0_busy_percent"
 * (share of the library's own period in which a kernel ran), "device0_memory_busy_percent",
 * "device0_used_bytes" (all processes, without the collector), "device0_pcie_sent_bytes" and
 * "device0_pcie_received_bytes" (since an unknown time; they wrap). The names stay valid. */
void nvml_sample(struct nvml *nvml, void (*take)(void *data, const char *counter, uint64_t value),
                 void *data);

#endif
