/* The CUDA device. */
#ifndef PSTAR_ENGINE_CUDA_DEVICE_H
#define PSTAR_ENGINE_CUDA_DEVICE_H

#include "engine/device.h"

extern const struct device_ops device_cuda;

#endif
