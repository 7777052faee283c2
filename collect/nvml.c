#include "collect/nvml.h"

#include <dlfcn.h>
#include <glib.h>
#include <stdbool.h>

/* NVML's interface, as far as it is used: its header comes with few of the packages that have the
 * library. The names of its functions carry the version. */
typedef void *nvml_handle;

struct nvml_utilization {
    unsigned kernels, memory; /* percent */
};

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_field {
    unsigned id, scope;
    long long time, latency;
    unsigned type;
    int result;
    union {
        double real;
        unsigned narrow;
        unsigned long wide;
        unsigned long long widest;
    } value;
};

enum { PCIE_SENT = 197, PCIE_RECEIVED = 198, TYPE_NARROW = 1 };

enum counter { BUSY, MEMORY_BUSY, USED, SENT, RECEIVED, COUNTERS };

struct device {
    nvml_handle handle;
    uint64_t own_bytes;
    const char *names[COUNTERS];
};

struct nvml {
    int (*init)(void);
    int (*shut_down)(void);
    int (*find)(const char *bus, nvml_handle *handle);
    int (*utilization)(nvml_handle handle, struct nvml_utilization *utilization);
    int (*memory)(nvml_handle handle, struct nvml_memory *memory);
    int (*fields)(nvml_handle handle, int count, struct nvml_field *fields);
    GArray *devices; /* of struct device */
};

struct nvml *nvml_new(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        return NULL;
    struct nvml *nvml = g_new0(struct nvml, 1);
    *(void **)&nvml->init = dlsym(library, "nvmlInit_v2");
    *(void **)&nvml->shut_down = dlsym(library, "nvmlShutdown");
    *(void **)&nvml->find = dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&nvml->utilization = dlsym(library, "nvmlDeviceGetUtilizationRates");
    *(void **)&nvml->memory = dlsym(library, "nvmlDeviceGetMemoryInfo");
    *(void **)&nvml->fields = dlsym(library, "nvmlDeviceGetFieldValues");
    if (!nvml->init || !nvml->shut_down || !nvml->find || nvml->init() != 0) {
        g_free(nvml);
        return NULL;
    }
    nvml->devices = g_array_new(FALSE, FALSE, sizeof(struct device));
    return nvml;
}

void nvml_free(struct nvml *nvml)
{
    if (!nvml)
        return;
    nvml->shut_down();
    g_array_unref(nvml->devices);
    g_free(nvml);
}

void nvml_add(struct nvml *nvml, uint32_t device, const char *bus, uint64_t own_bytes)
{
    static const char *const counters[COUNTERS] = {"busy_percent", "memory_busy_percent",
                                                   "used_bytes", "pcie_sent_bytes",
                                                   "pcie_received_bytes"};
    struct device fresh = {.own_bytes = own_bytes};
    if (nvml->find(bus, &fresh.handle) != 0)
        return;
    for (int c = 0; c < COUNTERS; c++) {
        g_autofree char *name = g_strdup_printf("device%u_%s", device, counters[c]);
        fresh.names[c] = g_intern_string(name);
    }
    g_array_append_val(nvml->devices, fresh);
}

static void sample_link(const struct nvml *nvml, const struct device *device,
                        void (*take)(void *, const char *, uint64_t), void *data)
{
    struct nvml_field fields[] = {{.id = PCIE_SENT}, {.id = PCIE_RECEIVED}};
    if (!nvml->fields || nvml->fields(device->handle, 2, fields) != 0)
        return;
    for (int f = 0; f < 2; f++)
        if (fields[f].result == 0)
            take(data, device->names[SENT + f],
                 fields[f].type == TYPE_NARROW ? fields[f].value.narrow : fields[f].value.widest);
}

void nvml_sample(struct nvml *nvml, void (*take)(void *, const char *, uint64_t), void *data)
{
    for (guint i = 0; i < nvml->devices->len; i++) {
        const struct device *device = &g_array_index(nvml->devices, struct device, i);
        struct nvml_utilization utilization;
        struct nvml_memory memory;
        if (nvml->utilization && nvml->utilization(device->handle, &utilization) == 0) {
            take(data, device->names[BUSY], utilization.kernels);
            take(data, device->names[MEMORY_BUSY], utilization.memory);
        }
        if (nvml->memory && nvml->memory(device->handle, &memory) == 0)
            take(data, device->names[USED],
                 memory.used - MIN(device->own_bytes, (uint64_t)memory.used));
        sample_link(nvml, device, take, data);
    }
}
