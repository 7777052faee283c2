/* The library that holds the CUDA device: programs load it when a run asks for that device, and
 * need no CUDA where none does (engine/devices.h). */
#include "engine/cuda/device.h"
#include "engine/devices.h"

__attribute__((visibility("default"))) const struct device_ops *pstar_device(void)
{
    return &device_cuda;
}
