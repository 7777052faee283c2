#include "fake_runtime.h"

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    cudaError_t error;
    (void)flags;
    if (!fake_enter(&error))
        return error;
    *event = g_new0(struct CUevent_st, 1);
    g_atomic_int_inc(&fake.objects);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    g_free(event);
    g_atomic_int_add(&fake.objects, -1);
    return fake.failure;
}

static uint64_t records;

uint64_t fake_cuda_records(void)
{
    return records;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t error;
    if (!fake_enter(&error))
        return error;
    g_mutex_lock(&fake.lock);
    records++;
    fake_put(stream, &(struct piece){.kind = RECORD, .event = event, .number = ++event->recorded});
    g_mutex_unlock(&fake.lock);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    cudaError_t error;
    if (!fake_enter(&error))
        return error;
    g_mutex_lock(&fake.lock);
    bool complete = event->complete >= event->recorded;
    g_mutex_unlock(&fake.lock);
    return complete ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t error;
    if (!fake_enter(&error))
        return error;
    g_mutex_lock(&fake.lock);
    for (uint64_t number = event->recorded; event->complete < number;)
        g_cond_wait(&fake.changed, &fake.lock);
    g_mutex_unlock(&fake.lock);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end)
{
    cudaError_t error;
    if (!fake_enter(&error))
        return error;
    g_mutex_lock(&fake.lock);
    *milliseconds = (float)(end->time - begin->time) * 1e-3f;
    g_mutex_unlock(&fake.lock);
    return cudaSuccess;
}
