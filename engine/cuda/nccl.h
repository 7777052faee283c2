/* NCCL, loaded when several ranks train on GPUs, so that one GPU needs none. */
#ifndef PSTAR_ENGINE_CUDA_NCCL_H
#define PSTAR_ENGINE_CUDA_NCCL_H

#include <glib.h>
#include <nccl.h>
#include <stdbool.h>

/* Its functions, as nccl.h documents them. */
struct nccl {
    ncclResult_t (*get_unique_id)(ncclUniqueId *id);
    ncclResult_t (*comm_init_rank)(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank);
    ncclResult_t (*comm_destroy)(ncclComm_t comm);
    ncclResult_t (*group_start)(void);
    ncclResult_t (*group_end)(void);
    ncclResult_t (*send)(const void *from, size_t count, ncclDataType_t type, int peer,
                         ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*receive)(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                            cudaStream_t stream);
    const char *(*get_error_string)(ncclResult_t result);
};

/* Finds the functions in libnccl.so.2. Fails with DEVICE_ERROR_NONE_HERE if it is not installed. */
bool nccl_load(struct nccl *nccl, GError **error);

#endif
