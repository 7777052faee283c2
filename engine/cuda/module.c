/* The library that holds the CUDA device. Programs load it when a run asks for that device
 * (engine/devices.h), so they need no CUDA otherwise. */
#include "engine/cuda/device.h"
#include "engine/devices.h"

__attribute__((visibility("default"))) const struct device_ops *pstar_device(void)
{
    return &device_cuda;
}
