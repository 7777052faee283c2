#include "fake_runtime.h"

struct fake_runtime fake = {.random = 1};

void fake_cuda_fail(uint64_t nth, cudaError_t error)
{
    g_mutex_lock(&fake.lock);
    fake.calls_until_failure = nth;
    fake.to_come = error;
    fake.failure = cudaSuccess;
    g_mutex_unlock(&fake.lock);
}

void fake_cuda_delay(uint32_t microseconds)
{
    g_mutex_lock(&fake.lock);
    fake.delay = microseconds;
    g_mutex_unlock(&fake.lock);
}

uint64_t fake_cuda_calls(void)
{
    g_mutex_lock(&fake.lock);
    uint64_t calls = fake.calls;
    g_mutex_unlock(&fake.lock);
    return calls;
}

void fake_cuda_stop(bool stopped)
{
    g_mutex_lock(&fake.lock);
    fake.stopped = stopped;
    fake_call_streams();
    g_mutex_unlock(&fake.lock);
}

void fake_cuda_hold(uint64_t bytes)
{
    g_mutex_lock(&fake.lock);
    fake.held = bytes;
    g_mutex_unlock(&fake.lock);
}

/* Returns whether the call succeeds. */
bool fake_enter(cudaError_t *error)
{
    g_mutex_lock(&fake.lock);
    fake.calls++;
    if (fake.calls_until_failure && --fake.calls_until_failure == 0)
        fake.failure = fake.to_come;
    *error = fake.failure;
    g_mutex_unlock(&fake.lock);
    return *error == cudaSuccess;
}

void fake_maybe_wait(void)
{
    g_mutex_lock(&fake.lock);
    fake.random = fake.random * 1664525 + 1013904223;
    uint32_t drawn = fake.random >> 8, delay = fake.delay;
    g_mutex_unlock(&fake.lock);
    if (delay && drawn % 4 == 0)
        g_usleep(drawn / 4 % delay);
}

cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t error;
    *count = fake_enter(&error) ? FAKE_CUDA_DEVICES : 0;
    return error;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t error;
    g_assert_cmpint(device, <, FAKE_CUDA_DEVICES);
    fake_enter(&error);
    return error;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
    cudaError_t error;
    (void)device_flags, (void)flags;
    g_assert_cmpint(device, <, FAKE_CUDA_DEVICES);
    fake_enter(&error);
    return error;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    cudaError_t error;
    *properties = (struct cudaDeviceProp){.name = "no GPU"};
    g_assert_cmpint(device, ==, 0);
    fake_enter(&error);
    return error;
}

/* The engine asks for the number of multiprocessors; an H100's. */
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    cudaError_t error;
    g_assert_cmpint(attribute, ==, cudaDevAttrMultiProcessorCount);
    g_assert_cmpint(device, ==, 0);
    *value = 132;
    fake_enter(&error);
    return error;
}

cudaError_t cudaGetLastError(void)
{
    return fake.failure;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : "made to fail";
}
