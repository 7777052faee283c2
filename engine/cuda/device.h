/* The CUDA device. */
#ifndef PSTAR_ENGINE_CUDA_DEVICE_H
#define PSTAR_ENGINE_CUDA_DEVICE_H

#include "engine/device.h"

extern const struct device_ops device_cuda;

/* ---- for the device itself ---- */

/* Measures the room for an arena with the device open and a matrix product of each precision done,
 * so that the context, the libraries' kernels and workspaces and the device's own buffers exist.
 * Closes the device again. Fails as opening the device does, or with DEVICE_ERROR_WORK. */
bool cuda_capacity_measure(struct device_capacity *capacity, GError **error);

/* Returns the operations a second of a large matrix product on random numbers, the best of a few,
 * on the current device and in memory of its own. Returns 0 if there is not enough memory. */
double cuda_peak_flops(enum model_precision precision);

#endif
