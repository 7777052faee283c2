/* Matrix products by cuBLASLt, all matrices row-major: c[M,N] = a[M,K] b[K,N], with
 * an epilogue. An algorithm is chosen once a shape, by the library's heuristic, and kept: it
 * depends on the shape and the GPU alone. In fp32 without TF32; sums in fp32 whatever the
 * precision. */
#ifndef PSTAR_ENGINE_CUDA_PRODUCTS_H
#define PSTAR_ENGINE_CUDA_PRODUCTS_H

#include "models/iteration.h"
#include <cuda_runtime_api.h>

enum product_epilogue {
    PRODUCT_PLAIN,
    PRODUCT_ADD,      /* to what c holds */
    PRODUCT_BIAS,     /* of `in`, added to each row */
    PRODUCT_RESIDUAL, /* c = residual + product with the bias, rounded once */
    PRODUCT_GELU /* c = gelu(pre), pre with the bias, stored too; gelu is of pre before its rounding
                  */
};

struct product_shape {
    uint32_t M, N, K;
    uint32_t a_row, c_row; /* elements from one stored row to the next; 0: they are contiguous */
    uint8_t transposed_a, transposed_b; /* stored [K,M], [N,K] */
    uint8_t in, out; /* enum model_precision: of a, b and bias; of c, residual and pre */
    uint8_t epilogue;
};

struct product {
    const void *a, *b, *bias, *residual; /* bias, residual: NULL where there is none */
    void *c, *pre;
};

struct cuda_products;

/* `workspace` is device memory that products share, at a multiple of 256 bytes; queued products use
 * it, one after the other on the stream. NULL where the library does not start. */
struct cuda_products *cuda_products_new(cudaStream_t stream, void *workspace,
                                        uint64_t workspace_bytes);
void cuda_products_free(struct cuda_products *products);

/* Whether the library has an algorithm for the shape. PRODUCT_GELU is not for all. */
bool cuda_products_have(struct cuda_products *products, const struct product_shape *shape);

/* Queues one launch, or two where the library splits K: the parts are added in the workspace in one
 * order. An error is kept for cuda_products_take_error; without an algorithm it is
 * cudaErrorNotSupported. */
void cuda_products_run(struct cuda_products *products, const struct product_shape *shape,
                       const struct product *product);

/* Returns the first error since the last call. */
cudaError_t cuda_products_take_error(struct cuda_products *products);

#endif
