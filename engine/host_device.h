/* Marks functions in headers that the CUDA device's kernels call too. */
#ifndef PSTAR_ENGINE_HOST_DEVICE_H
#define PSTAR_ENGINE_HOST_DEVICE_H

#ifdef __CUDACC__
#define HOST_DEVICE __host__ __device__
#else
#define HOST_DEVICE
#endif

#endif
