/* A model's operators on a CUDA device: the dispatch of engine/operators.h over the kernels of
 * engine/cuda/kernels.h. */
#ifndef PSTAR_ENGINE_CUDA_OPERATORS_H
#define PSTAR_ENGINE_CUDA_OPERATORS_H

#include "engine/operation.h"
#include "engine/ranks.h"
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_operators;
struct cuda_products;

/* Returns whether each operator is waited for, because the environment variable PSTAR_CUDA_SYNC is
 * 1. */
static inline bool cuda_operators_wait(void)
{
    return g_strcmp0(g_getenv("PSTAR_CUDA_SYNC"), "1") == 0;
}

/* Returns whether there are kernels for the model. Fails with DEVICE_ERROR_MODEL if not. */
bool cuda_operators_support(const struct model_config *config, GError **error);

/* For one stream and one thread at a time, on the current device. `arena` is device memory. Takes
 * once what the libraries, sums and tables (struct device_options) need beside the arena; nothing
 * is allocated later. Fails with DEVICE_ERROR_MEMORY if there is less. Free with
 * cuda_operators_free. */
struct cuda_operators *cuda_operators_new(uint8_t *arena, uint64_t table_bytes, cudaStream_t stream,
                                          GError **error);
void cuda_operators_free(struct cuda_operators *operators);

/* Queues the operator on the stream. `operation` is not needed after the call. Its pointers to
 * scalars (loss, norm) are memory that the device writes; they are valid when the stream has come
 * that far. Returns NULL, or what failed, with the operator, its shape and the library's status;
 * free with g_free. An error of work that was queued before may appear here. If the environment
 * variable PSTAR_CUDA_SYNC is 1, the call returns when the operator has run, so that the error is
 * its own. */
char *cuda_operators_run(struct cuda_operators *operators, const struct operation *operation);

/* From now on updates, and squares of small gradients, may wait for those that follow, so that they
 * are one launch. If each operator is waited for, they do not. */
void cuda_operators_join(struct cuda_operators *operators);
/* Queues what waits. Must be called before anything but an operator is queued on the stream.
 * Returns NULL, or what failed; free with g_free. */
char *cuda_operators_flush(struct cuda_operators *operators);

/* Queues the clip of engine/device.h. Updates that run later and have a gradient_scale take the
 * last one queued. `squares` and `scale` are memory that the device reads and writes. */
cudaError_t cuda_operators_clip(struct cuda_operators *operators, const double *squares,
                                uint32_t count, double clip, double *scale);

/* ---- several ranks ---- */

/* Lets updates and reductions exchange with other ranks: updates on the operators' stream, where
 * `ranks` transfer, and reductions on the stream `network`, where `on_network` do. Both outlive the
 * operators. Takes what received gradients need: 2 MiB a rank. Fails with DEVICE_ERROR_MEMORY. */
bool cuda_operators_share(struct cuda_operators *operators, struct ranks *ranks,
                          struct ranks *on_network, cudaStream_t network, GError **error);
/* Queues a reduction (MODEL_REDUCE) on the stream `network`. Returns as cuda_operators_run. */
char *cuda_operators_reduce(struct cuda_operators *operators, const struct operation *operation);
/* Queues, behind an update, what operators_share_update (engine/operators.h) does. */
void cuda_operators_share_update(struct cuda_operators *operators,
                                 const struct operation *operation);

/* ---- matrix products by cuBLASLt, for engine/cuda/operators.c ---- */

/* `workspace` is device memory at a multiple of 256 bytes; queued products share it, one after the
 * other on the stream. Returns NULL if the library does not start. */
struct cuda_products *cuda_products_new(cudaStream_t stream, void *workspace,
                                        uint64_t workspace_bytes);

/* Times the algorithms of each product at its first use, once, and keeps the choice in the file,
 * where later runs find it. An algorithm fixes the order of sums, so runs with other choices have
 * other bits. Fails with G_FILE_ERROR. */
bool cuda_products_time(struct cuda_products *products, const char *path, GError **error);
/* Only takes choices that the file already has: ranks that time would choose differently. */
void cuda_products_fix(struct cuda_products *products);
void cuda_products_free(struct cuda_products *products);

/* Returns the first error since the last call, with its product's shape; NULL if there is none.
 * Free with g_free. */
char *cuda_products_take_error(struct cuda_products *products);

#ifdef __cplusplus
}
#endif

#endif
