#include "engine/cuda/capacity.h"

#include "engine/cuda/device.h"
#include "engine/probe/probe_product.h"

#include <cuda_runtime_api.h>

enum {
    WIDTH = 512,
    ARENA_BYTES = 8 << 20, /* a multiple of what the driver gives out at a time */
    LATER_BYTES = 64 << 20 /* for kernels that are loaded when a shape first asks for them */
};

static void multiply(struct device *device, enum model_precision precision)
{
    static const struct mover_after none = {.queue = {0}};
    struct probe_product product;
    g_assert(probe_product_bytes(precision, WIDTH, WIDTH, WIDTH) <= ARENA_BYTES);
    probe_product_init(&product, device, precision, WIDTH, WIDTH, WIDTH);
    device->ops->compute(device, &product.operation, &none);
    device->ops->drain(device);
}

static bool read_capacity(struct device_capacity *capacity, GError **error)
{
    size_t available = 0, total = 0;
    cudaError_t failed = cudaMemGetInfo(&available, &total);
    if (failed != cudaSuccess) {
        g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_WORK, "cudaMemGetInfo: %s",
                    cudaGetErrorString(failed));
        return false;
    }
    uint64_t free_bytes = (uint64_t)available + ARENA_BYTES;
    capacity->bytes = free_bytes > LATER_BYTES ? free_bytes - LATER_BYTES : 0;
    capacity->library_bytes = total - capacity->bytes;
    return true;
}

bool cuda_capacity_measure(struct device_capacity *capacity, GError **error)
{
    const struct device_options options = {.arena_bytes = ARENA_BYTES, .threads = 1};
    struct device *device = device_cuda.open(&options, error);
    if (!device)
        return false;
    multiply(device, MODEL_FP32);
    multiply(device, MODEL_BF16);
    bool measured = device->ops->check(device, error) && read_capacity(capacity, error);
    device->ops->close(device);
    return measured;
}
