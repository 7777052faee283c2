/* libcuda.so.1 with one device of 8 GiB. The handle of a kernel is its name. */
#include "tests/collect/fake/fake.h"

#include <cupti_driver_cbid.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct fake_tool *tool;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t busy_until_ns, allocated_bytes, next_address = UINT64_C(0x7f0000000000);
static uint32_t last_correlation;
static int context_storage;
static _Thread_local CUcontext current;
static bool initialised;

enum { MOST_ALLOCATIONS = 4096 };
static struct {
    CUdeviceptr address;
    size_t bytes;
} allocations[MOST_ALLOCATIONS];

void fake_watch(const struct fake_tool *watching)
{
    tool = watching;
}

bool fake_is(const char *word)
{
    const char *all = getenv("FAKE"), *found = !all ? NULL : strstr(all, word);
    return found && (found == all || found[-1] == ',') &&
           (found[strlen(word)] == '\0' || found[strlen(word)] == ',');
}

uint64_t fake_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Loads the library named by CUDA_INJECTION64_PATH, as the driver does. */
CUresult cuInit(unsigned flags)
{
    static bool done;
    (void)flags;
    const char *path = getenv("CUDA_INJECTION64_PATH");
    if (done || !path) {
        initialised = true;
        return CUDA_SUCCESS;
    }
    done = true;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*inject)(void) = NULL;
    if (library)
        *(void **)&inject = dlsym(library, "InitializeInjection");
    if (!inject || inject() != 1)
        fprintf(stderr, "fake driver: %s was not injected\n", path);
    initialised = true;
    return CUDA_SUCCESS;
}

/* Calls from within cuInit would wait forever for its locks. */
static void assert_initialised(void)
{
    if (!initialised) {
        fprintf(stderr, "fake driver: called before it is initialised\n");
        abort();
    }
}

struct call {
    uint32_t callback, correlation;
    uint64_t entered_ns;
    const char *symbol;
};

static struct call enter(uint32_t callback, const char *symbol)
{
    struct call call = {.callback = callback, .symbol = symbol, .entered_ns = fake_now()};
    pthread_mutex_lock(&lock);
    call.correlation = ++last_correlation;
    pthread_mutex_unlock(&lock);
    if (tool)
        tool->enter(callback, call.correlation, symbol);
    return call;
}

static CUresult leave(const struct call *call)
{
    if (tool)
        tool->leave(call->callback, call->correlation, call->symbol, call->entered_ns);
    return CUDA_SUCCESS;
}

/* Queues work of the given duration. */
static void run(struct fake_event event, const struct call *call, uint64_t duration_ns)
{
    pthread_mutex_lock(&lock);
    uint64_t now = fake_now();
    event.start_ns = now > busy_until_ns ? now : busy_until_ns;
    event.end_ns = event.start_ns + duration_ns;
    busy_until_ns = event.end_ns;
    event.correlation = call->correlation;
    event.stream = 7;
    pthread_mutex_unlock(&lock);
    if (tool)
        tool->event(&event);
}

static void tell(struct fake_event event, const struct call *call)
{
    event.start_ns = event.end_ns = fake_now();
    event.correlation = call->correlation;
    if (tool)
        tool->event(&event);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void **parameters, void **extra)
{
    (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z;
    (void)shared, (void)stream, (void)parameters, (void)extra;
    const char *name = (const char *)(void *)function;
    struct call call = enter(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, name);
    run((struct fake_event){.kind = FAKE_KERNEL, .name = name}, &call, grid_x * UINT64_C(1000));
    return leave(&call);
}

/* 1 GB/s. */
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    (void)from, (void)stream;
    struct call call = enter(CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2, NULL);
    run((struct fake_event){.kind = FAKE_COPY, .bytes = bytes, .address = to}, &call, bytes);
    return leave(&call);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream)
{
    (void)value, (void)stream;
    struct call call = enter(CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async, NULL);
    run((struct fake_event){.kind = FAKE_SET, .bytes = 4 * count, .address = to}, &call, 1000);
    return leave(&call);
}

static void wait_until_idle(const struct call *call)
{
    uint64_t begin = fake_now();
    while (fake_now() < busy_until_ns)
        usleep(50);
    struct fake_event event = {.kind = FAKE_SYNC, .start_ns = begin, .end_ns = fake_now()};
    event.correlation = call->correlation;
    if (tool && !fake_is("no-sync"))
        tool->event(&event);
}

CUresult cuCtxSynchronize(void)
{
    struct call call = enter(CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize, NULL);
    wait_until_idle(&call);
    return leave(&call);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    (void)stream;
    struct call call = enter(CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, NULL);
    wait_until_idle(&call);
    return leave(&call);
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
    struct call call = enter(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, NULL);
    pthread_mutex_lock(&lock);
    *address = next_address;
    next_address += (bytes + 511) & ~(size_t)511;
    for (int i = 0; i < MOST_ALLOCATIONS; i++)
        if (allocations[i].bytes == 0) {
            allocations[i].address = *address;
            allocations[i].bytes = bytes;
            break;
        }
    allocated_bytes += bytes;
    pthread_mutex_unlock(&lock);
    tell((struct fake_event){.kind = FAKE_ALLOCATION, .address = *address, .bytes = bytes}, &call);
    return leave(&call);
}

CUresult cuMemFree(CUdeviceptr address)
{
    struct call call = enter(CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2, NULL);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST_ALLOCATIONS; i++)
        if (allocations[i].address == address && allocations[i].bytes > 0) {
            allocated_bytes -= allocations[i].bytes;
            allocations[i].bytes = 0;
            break;
        }
    pthread_mutex_unlock(&lock);
    tell((struct fake_event){.kind = FAKE_RELEASE, .address = address}, &call);
    return leave(&call);
}

CUresult cuMemAllocHost(void **address, size_t bytes)
{
    struct call call = enter(CUPTI_DRIVER_TRACE_CBID_cuMemAllocHost_v2, NULL);
    *address = malloc(bytes);
    tell((struct fake_event){.kind = FAKE_ALLOCATION,
                             .address = (uint64_t)(uintptr_t)*address,
                             .bytes = bytes,
                             .pinned = true},
         &call);
    return leave(&call);
}

CUresult cuMemFreeHost(void *address)
{
    struct call call = enter(CUPTI_DRIVER_TRACE_CBID_cuMemFreeHost, NULL);
    tell((struct fake_event){.kind = FAKE_RELEASE,
                             .address = (uint64_t)(uintptr_t)address,
                             .pinned = true},
         &call);
    free(address);
    return leave(&call);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    (void)device;
    *context = (CUcontext)(void *)&context_storage;
    if (tool)
        tool->context(*context, true);
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    assert_initialised();
    current = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}

/* The profiler's own memory. */
void fake_take(size_t bytes)
{
    pthread_mutex_lock(&lock);
    allocated_bytes += bytes;
    pthread_mutex_unlock(&lock);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    (void)mode;
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *all_bytes)
{
    assert_initialised();
    *all_bytes = (size_t)8 << 30;
    *free_bytes = *all_bytes - allocated_bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    assert_initialised();
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    (void)device;
    snprintf(name, (size_t)bytes, "Fake device");
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = (size_t)8 << 30;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    *value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 12 : 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    (void)device;
    memset(uuid, 0xab, sizeof *uuid);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *bus, int bytes, CUdevice device)
{
    (void)device;
    snprintf(bus, (size_t)bytes, "0000:65:00.0");
    return CUDA_SUCCESS;
}
