#include "engine/cuda/stalls.h"

/* More than a stream has queued, of which every piece may wait once. */
enum { RING = 512 };

struct cuda_stalls {
    struct cuda_failure *failure;
    cudaEvent_t begin[RING], end[RING];
    uint64_t first, next; /* those that are not in the sum yet */
    double seconds;
};

struct cuda_stalls *cuda_stalls_new(struct cuda_failure *failure)
{
    struct cuda_stalls *stalls = g_new0(struct cuda_stalls, 1);
    stalls->failure = failure;
    for (int i = 0; i < RING; i++) {
        if (CUDA_TRY(failure, cudaEventCreate(&stalls->begin[i])) &&
            CUDA_TRY(failure, cudaEventCreate(&stalls->end[i])))
            continue;
        cuda_stalls_free(stalls);
        return NULL;
    }
    return stalls;
}

void cuda_stalls_free(struct cuda_stalls *stalls)
{
    for (int i = 0; stalls && i < RING; i++) {
        if (stalls->begin[i])
            cudaEventDestroy(stalls->begin[i]);
        if (stalls->end[i])
            cudaEventDestroy(stalls->end[i]);
    }
    g_free(stalls);
}

static void add_first(struct cuda_stalls *stalls)
{
    uint64_t place = stalls->first++ % RING;
    float milliseconds = 0;
    if (CUDA_TRY(stalls->failure, cudaEventSynchronize(stalls->end[place])) &&
        CUDA_TRY(stalls->failure,
                 cudaEventElapsedTime(&milliseconds, stalls->begin[place], stalls->end[place])))
        stalls->seconds += milliseconds * 1e-3;
}

void cuda_stalls_begin(struct cuda_stalls *stalls, cudaStream_t stream)
{
    if (stalls->next - stalls->first == RING)
        add_first(stalls);
    CUDA_TRY(stalls->failure, cudaEventRecord(stalls->begin[stalls->next % RING], stream));
}

void cuda_stalls_end(struct cuda_stalls *stalls, cudaStream_t stream)
{
    CUDA_TRY(stalls->failure, cudaEventRecord(stalls->end[stalls->next++ % RING], stream));
}

static bool first_is_over(const struct cuda_stalls *stalls)
{
    cudaError_t state = cudaEventQuery(stalls->end[stalls->first % RING]);
    if (state == cudaErrorNotReady)
        (void)cudaGetLastError(); /* it is no error */
    return state != cudaErrorNotReady;
}

double cuda_stalls_seconds(struct cuda_stalls *stalls)
{
    while (stalls->first < stalls->next && first_is_over(stalls))
        add_first(stalls);
    return stalls->seconds;
}
