#include "collect/driver.h"

#include <dlfcn.h>
#include <glib.h>
#include <stdbool.h>

void cuda_driver_find(struct cuda_driver *driver)
{
    void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
#define FIND(function) *(void **)&driver->function = !handle ? NULL : dlsym(handle, #function);
    CUDA_DRIVER_FUNCTIONS(FIND)
#undef FIND
}

static bool enter(const struct cuda_driver *driver, CUcontext context)
{
    return driver->cuCtxPushCurrent_v2 && driver->cuCtxPopCurrent_v2 &&
           driver->cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
}

static void leave(const struct cuda_driver *driver)
{
    CUcontext context;
    driver->cuCtxPopCurrent_v2(&context);
}

void cuda_driver_synchronize(const struct cuda_driver *driver, CUcontext context)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (!driver->cuCtxSynchronize || !enter(driver, context))
        return;
    bool exchanged = driver->cuThreadExchangeStreamCaptureMode &&
                     driver->cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
    driver->cuCtxSynchronize();
    if (exchanged)
        driver->cuThreadExchangeStreamCaptureMode(&mode);
    leave(driver);
}

bool cuda_driver_free_bytes(const struct cuda_driver *driver, CUcontext context, uint32_t *device,
                            uint64_t *bytes)
{
    size_t free_bytes = 0, all_bytes = 0;
    CUdevice number = 0;
    if (!driver->cuMemGetInfo_v2 || !driver->cuCtxGetDevice || !enter(driver, context))
        return false;
    bool ok = driver->cuCtxGetDevice(&number) == CUDA_SUCCESS &&
              driver->cuMemGetInfo_v2(&free_bytes, &all_bytes) == CUDA_SUCCESS;
    leave(driver);
    *device = (uint32_t)number;
    *bytes = free_bytes;
    return ok;
}

static char *uuid_text(const CUuuid *uuid)
{
    GString *text = g_string_new("GPU-");
    for (int i = 0; i < 16; i++)
        g_string_append_printf(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                               (unsigned char)uuid->bytes[i]);
    return g_string_free(text, FALSE);
}

static struct gpu_record describe(const struct cuda_driver *driver, int device)
{
    char name[256] = "";
    size_t bytes = 0;
    int multiprocessors = 0;
    CUuuid uuid;
    struct gpu_record gpu = {.id = (uint32_t)device};
    if (driver->cuDeviceGetName &&
        driver->cuDeviceGetName(name, sizeof name, device) == CUDA_SUCCESS)
        gpu.name = g_utf8_make_valid(name, -1);
    if (driver->cuDeviceTotalMem_v2 && driver->cuDeviceTotalMem_v2(&bytes, device) == CUDA_SUCCESS)
        gpu.memory_bytes = bytes;
    if (driver->cuDeviceGetAttribute &&
        driver->cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                     device) == CUDA_SUCCESS)
        gpu.multiprocessors = (uint32_t)multiprocessors;
    if (driver->cuDeviceGetUuid_v2 && driver->cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS)
        gpu.uuid = uuid_text(&uuid);
    return gpu;
}

struct gpu_record *cuda_driver_devices(const struct cuda_driver *driver, uint32_t *count)
{
    int devices = 0;
    if (!driver->cuDeviceGetCount || driver->cuDeviceGetCount(&devices) != CUDA_SUCCESS ||
        devices < 0)
        devices = 0;
    *count = (uint32_t)devices;
    struct gpu_record *gpus = devices == 0 ? NULL : g_new0(struct gpu_record, (gsize)devices);
    for (int device = 0; device < devices; device++)
        gpus[device] = describe(driver, device);
    return gpus;
}

struct device_bytes {
    uint32_t device;
    uint64_t free_bytes; /* before recording was turned on */
    uint64_t own_bytes;
};

struct own_memory {
    GMutex lock;     /* guards the fields below */
    GArray *devices; /* struct device_bytes, devices with a context */
};

struct own_memory *own_memory_new(void)
{
    struct own_memory *own = g_new0(struct own_memory, 1);
    g_mutex_init(&own->lock);
    own->devices = g_array_new(FALSE, FALSE, sizeof(struct device_bytes));
    return own;
}

/* Returns NULL if the device is unknown. */
static struct device_bytes *find(const struct own_memory *own, uint32_t device)
{
    for (guint i = 0; i < own->devices->len; i++) {
        struct device_bytes *there = &g_array_index(own->devices, struct device_bytes, i);
        if (there->device == device)
            return there;
    }
    return NULL;
}

void own_memory_before(struct own_memory *own, const struct cuda_driver *driver,
                       const GPtrArray *contexts)
{
    g_mutex_lock(&own->lock);
    for (guint i = 0; i < contexts->len; i++) {
        struct device_bytes found = {0};
        if (cuda_driver_free_bytes(driver, g_ptr_array_index(contexts, i), &found.device,
                                   &found.free_bytes) &&
            !find(own, found.device))
            g_array_append_val(own->devices, found);
    }
    g_mutex_unlock(&own->lock);
}

uint64_t own_memory_after(struct own_memory *own, const struct cuda_driver *driver,
                          const GPtrArray *contexts)
{
    uint64_t all = 0;
    g_mutex_lock(&own->lock);
    for (guint i = 0; i < contexts->len; i++) {
        uint32_t device;
        uint64_t left;
        struct device_bytes *there = NULL;
        if (cuda_driver_free_bytes(driver, g_ptr_array_index(contexts, i), &device, &left))
            there = find(own, device);
        if (there && there->free_bytes > left)
            there->own_bytes = there->free_bytes - left;
    }
    for (guint i = 0; i < own->devices->len; i++)
        all += g_array_index(own->devices, struct device_bytes, i).own_bytes;
    g_mutex_unlock(&own->lock);
    return all;
}

uint64_t own_memory_of(struct own_memory *own, uint32_t device)
{
    g_mutex_lock(&own->lock);
    const struct device_bytes *there = find(own, device);
    uint64_t bytes = !there ? 0 : there->own_bytes;
    g_mutex_unlock(&own->lock);
    return bytes;
}

/* The part of NVML's interface that is used. Few packages that have the library also have its
 * header. Function names carry the version. */
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

struct nvml_device {
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
    GArray *devices; /* struct nvml_device */
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
    nvml->devices = g_array_new(FALSE, FALSE, sizeof(struct nvml_device));
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
    struct nvml_device fresh = {.own_bytes = own_bytes};
    if (nvml->find(bus, &fresh.handle) != 0)
        return;
    for (int c = 0; c < COUNTERS; c++) {
        g_autofree char *name = g_strdup_printf("device%u_%s", device, counters[c]);
        fresh.names[c] = g_intern_string(name);
    }
    g_array_append_val(nvml->devices, fresh);
}

static void sample_link(const struct nvml *nvml, const struct nvml_device *device,
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
        const struct nvml_device *device = &g_array_index(nvml->devices, struct nvml_device, i);
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
