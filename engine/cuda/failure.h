/* The first call of the CUDA runtime that failed. Errors of queued work come with whichever call is
 * next, so later ones say nothing new. */
#ifndef PSTAR_ENGINE_CUDA_FAILURE_H
#define PSTAR_ENGINE_CUDA_FAILURE_H

#include "engine/device.h"
#include <cuda_runtime_api.h>

struct cuda_failure {
    GMutex lock;
    cudaError_t error; /* cudaSuccess: none */
    const char *call;
};

/* Any thread. Whether there is none, in this call. */
bool cuda_failure_note(struct cuda_failure *failure, cudaError_t error, const char *call);

/* Sets the error from the first failure; false where there is one. */
bool cuda_failure_check(struct cuda_failure *failure, enum device_error code, GError **error);

#define CUDA_TRY(failure, call) cuda_failure_note(failure, call, #call)

#endif
