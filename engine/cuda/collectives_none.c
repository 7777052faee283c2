/* A build without NCCL's header: GPUs train on one rank. */
#include "engine/cuda/collectives.h"

struct cuda_collectives *cuda_collectives_open(struct ranks *ranks, struct cuda_failure *failure,
                                               GError **error)
{
    (void)ranks, (void)failure;
    g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_NONE_HERE,
                "several ranks on GPUs need NCCL, and this build was made without it");
    return NULL;
}

bool cuda_collectives_join(struct cuda_collectives *collectives, GError **error)
{
    (void)collectives, (void)error;
    return false;
}

void cuda_collectives_close(struct cuda_collectives *collectives)
{
    (void)collectives;
}

struct ranks *cuda_collectives_on(struct cuda_collectives *collectives, cudaStream_t stream)
{
    (void)collectives, (void)stream;
    return NULL;
}
