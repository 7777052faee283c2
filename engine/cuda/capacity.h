/* What a GPU's memory has room for, beside all that is not the arena. */
#ifndef PSTAR_ENGINE_CUDA_CAPACITY_H
#define PSTAR_ENGINE_CUDA_CAPACITY_H

#include "engine/device.h"

/* Measured with the device open and a matrix product of each precision done, so that the context,
 * the libraries' kernels and workspaces and the device's own buffers are there; the device is
 * closed again. Errors are those of opening it, or DEVICE_ERROR_WORK. */
bool cuda_capacity_measure(struct device_capacity *capacity, GError **error);

#endif
