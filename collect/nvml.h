/* What NVIDIA's management library says of the devices that a program sees. */
#ifndef PSTAR_COLLECT_NVML_H
#define PSTAR_COLLECT_NVML_H

#include <stdint.h>

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
