#include "engine/cuda/failure.h"

#include <string.h>

bool cuda_failure_note(struct cuda_failure *failure, cudaError_t error, const char *call)
{
    if (error == cudaSuccess)
        return true;
    g_mutex_lock(&failure->lock);
    if (failure->error == cudaSuccess) {
        failure->error = error;
        failure->call = call;
    }
    g_mutex_unlock(&failure->lock);
    return false;
}

bool cuda_failure_check(struct cuda_failure *failure, enum device_error code, GError **error)
{
    g_mutex_lock(&failure->lock);
    cudaError_t found = failure->error;
    const char *call = failure->call;
    g_mutex_unlock(&failure->lock);
    if (found == cudaSuccess)
        return true;
    g_set_error(error, DEVICE_ERROR, code, "CUDA: %s (%.*s)", cudaGetErrorString(found),
                (int)strcspn(call, "("), call);
    return false;
}
