#include "kernel_runs.h"

#include <cuda_runtime_api.h>
#include <glib.h>
#include <string.h>

/* Pinning takes long for each piece, so there is one, used from its beginning again when all pieces
 * of a test are free. */
enum { ALIGNMENT = 256, POOL_BYTES = 256 << 20 };

static struct {
    uint8_t *begin;
    uint64_t used;
    uint32_t live;
} pool;

bool kernel_runs_can(void)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0)
        return true;
    g_printerr("no GPU: %s\n", cudaGetErrorString(error));
    return false;
}

void *kernel_runs_new(uint64_t bytes)
{
    uint64_t taken = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!pool.begin) {
        cudaError_t error = cudaHostAlloc((void **)&pool.begin, POOL_BYTES, cudaHostAllocMapped);
        if (error != cudaSuccess)
            g_error("cannot pin %d MiB: %s", POOL_BYTES >> 20, cudaGetErrorString(error));
    }
    g_assert_cmpuint(pool.used + taken, <=, POOL_BYTES);
    void *memory = pool.begin + pool.used;
    pool.used += taken;
    pool.live++;
    return memset(memory, 0, bytes);
}

void kernel_runs_free(void *memory)
{
    if (memory && --pool.live == 0)
        pool.used = 0;
}

void kernel_runs_finish(const char *kernel)
{
    cudaError_t launched = cudaGetLastError();
    cudaError_t error = launched == cudaSuccess ? cudaDeviceSynchronize() : launched;
    if (error != cudaSuccess)
        g_error("%s: %s (%s)", kernel, cudaGetErrorString(error), cudaGetErrorName(error));
}
