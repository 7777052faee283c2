/* The model's operators on a CUDA device: an operation's addresses become pointers into the arena,
 * and its kind the kernels of engine/cuda/kernels.h and matrix products of cuBLASLt. */
#ifndef PSTAR_ENGINE_CUDA_OPERATORS_H
#define PSTAR_ENGINE_CUDA_OPERATORS_H

#include "engine/operation.h"
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_operators;
struct cuda_products;

/* Whether there are kernels for the model; fails with DEVICE_ERROR_MODEL where not. */
bool cuda_operators_support(const struct model_config *config, GError **error);

/* For one stream and one thread at a time, on the current device. `arena` is device memory. Takes
 * what the libraries and reductions need beside the arena once: nothing is allocated later.
 * DEVICE_ERROR_MEMORY where there is not that much. Free with cuda_operators_free. */
struct cuda_operators *cuda_operators_new(uint8_t *arena, cudaStream_t stream, GError **error);
void cuda_operators_free(struct cuda_operators *operators);

/* Queues the operator on the stream. `operation` may go when it returns; the pointers to scalars in
 * it (loss, norm) are memory that the device writes, valid when the stream has come that far. */
cudaError_t cuda_operators_run(struct cuda_operators *operators, const struct operation *operation);

/* Queues the clip of engine/device.h: updates that are run later and have a gradient_scale take
 * the last that was queued. `squares` and `scale` as the scalars of cuda_operators_run. */
cudaError_t cuda_operators_clip(struct cuda_operators *operators, const double *squares,
                                uint32_t count, double clip, double *scale);

/* ---- matrix products by cuBLASLt, for cuda_operators itself ---- */

/* `workspace` is device memory that products share, at a multiple of 256 bytes; queued products use
 * it, one after the other on the stream. NULL where the library does not start. */
struct cuda_products *cuda_products_new(cudaStream_t stream, void *workspace,
                                        uint64_t workspace_bytes);
void cuda_products_free(struct cuda_products *products);

/* Returns the first error since the last call. */
cudaError_t cuda_products_take_error(struct cuda_products *products);

#ifdef __cplusplus
}
#endif

#endif
