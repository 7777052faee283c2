#include "collect/cuda_driver.h"

#include <dlfcn.h>

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
    bool good = driver->cuCtxGetDevice(&number) == CUDA_SUCCESS &&
                driver->cuMemGetInfo_v2(&free_bytes, &all_bytes) == CUDA_SUCCESS;
    leave(driver);
    *device = (uint32_t)number;
    *bytes = free_bytes;
    return good;
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
