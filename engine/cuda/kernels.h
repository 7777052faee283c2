/* The kernels of the CUDA device (see engine/kernels.h), queued on the context's stream. Pointers
 * are device memory. The results `loss`, `sum`, `squares` and `scale` are memory that the device
 * writes. Tensors and buffers start at multiples of 16 bytes at least.
 *
 * Bits: sums run in an order that shapes alone fix, and keep the lanes, the blocks and the orders
 * of the CPU device. So all kernels give its bits, except the matrix products, the loss and
 * attention in bf16.
 *
 * The bytes beside a function are what it moves through device memory when caches hold a block's
 * own rows; E is an element's bytes. A function is one launch unless its comment says otherwise. */
#ifndef PSTAR_ENGINE_CUDA_KERNELS_H
#define PSTAR_ENGINE_CUDA_KERNELS_H

#include "engine/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t points to this */
struct cuda_products;

enum { CUDA_SCRATCH_LEAST = 8192 };

/* Updates of one step and one layout that wait to be one launch. Their number is limited by the
 * bytes of a launch's arguments. */
enum { CUDA_UPDATES = 48 };
struct cuda_updates {
    uint32_t count;
    bool clipped;
    struct adamw_step step;
    struct adamw_tensor tensors[CUDA_UPDATES];
};

/* Small gradients of one precision whose squares wait to be summed in one launch. */
enum { CUDA_SQUARES = 64, CUDA_SMALL_GRADIENT = 16384 /* elements */ };
struct cuda_small_gradient {
    uint64_t elements;
    const void *values;
    double *sum;
};
struct cuda_squares {
    uint32_t count;
    enum model_precision precision;
    struct cuda_small_gradient gradients[CUDA_SQUARES];
};

/* The stream and scratch in which kernels are queued. The kernels of one context run one after the
 * other. */
struct cuda_context {
    struct CUstream_st *stream;
    void *scratch; /* device memory for sums between two kernels: at least CUDA_SCRATCH_LEAST */
    uint64_t scratch_bytes;
    uint32_t *counter;            /* in device memory: 0 between kernels */
    uint32_t multiprocessors;     /* of the device */
    double *scale;                /* in device memory: what cuda_clip left */
    struct cuda_updates *updates; /* NULL: an update is queued at once */
    struct cuda_squares *squares; /* NULL: squares are summed at once */
    float *tables;                /* device memory for kernel_table */
    uint64_t table_bytes;
    struct cuda_products *products; /* for linear layers and the classifier */
};

static inline const struct cuda_context *cuda_context_of(const void *context)
{
    return (const struct cuda_context *)context;
}

/* ---- embedding ---- */

/* 3 N H E bytes. */
kernel_embed_forward cuda_embed_forward;
/* Compares every token with every other: N^2 comparisons, from caches. */
kernel_embed_order cuda_embed_order;
/* At most 3 N H E bytes, and V H of the gradient where it is set: it is cleared before the launch.
 */
kernel_embed_tokens cuda_embed_tokens;
kernel_embed_positions cuda_embed_positions;

/* ---- layer norm ---- */

/* 2 N H E bytes. */
kernel_norm_forward cuda_norm_forward;
/* 3 N H E bytes, or 4 where it adds. */
kernel_norm_backward_input cuda_norm_backward_input;
/* Two launches for each part of the rows whose sums fit the scratch: N H / 8 bytes for N rows.
 * 2 N H E bytes. */
kernel_norm_backward_parameters cuda_norm_backward_parameters;

/* ---- RMS norm, with the bytes and launches of layer norm ---- */

kernel_rms_forward cuda_rms_forward;
kernel_rms_backward_input cuda_rms_backward_input;
kernel_rms_backward_weight cuda_rms_backward_weight;

/* ---- matrix products, by cuBLASLt ---- */

kernel_linear_forward cuda_linear_forward;
kernel_linear_gelu cuda_linear_gelu;
kernel_linear_residual cuda_linear_residual;
/* N I E bytes more than cuda_linear_backward_input. */
kernel_linear_slope cuda_linear_slope;
kernel_linear_backward_input cuda_linear_backward_input;
/* Rounds as it stores, and does not use the workspace. */
kernel_linear_backward_weight cuda_linear_backward_weight;
kernel_product_forward cuda_product_forward;
kernel_product_backward_input cuda_product_backward_input;
kernel_linear_residual cuda_product_residual;
/* As cuda_linear_slope. */
kernel_linear_slope cuda_product_slope;
/* As cuda_linear_backward_weight. */
kernel_product_backward_weight cuda_product_backward_weight;
kernel_classifier_forward cuda_classifier_forward;
kernel_classifier_backward_input cuda_classifier_backward_input;
kernel_classifier_backward_weight cuda_classifier_backward_weight;

/* ---- the bias' gradient ---- */

/* Launches as cuda_norm_backward_parameters, N O / 16 bytes of sums. N O E bytes. */
kernel_linear_backward_bias cuda_linear_backward_bias;

/* ---- element by element ---- */

/* 2 E bytes an element. */
kernel_gelu_forward cuda_gelu_forward;
/* Launches as cuda_linear_backward_bias. 3 N O E bytes. */
kernel_gelu_backward_bias cuda_gelu_backward_bias;
/* 3 E bytes an element, and 5 E in the backward. */
kernel_gate_forward cuda_gate_forward;
kernel_gate_backward cuda_gate_backward;
/* 2 E bytes an element. */
kernel_scale cuda_scale;
kernel_cap_logits cuda_cap_logits;
kernel_residual_forward cuda_residual_forward;
kernel_dropout_backward cuda_dropout_backward;

/* ---- causal attention ---- */

enum { CUDA_HEAD_LIMIT = 256 }; /* the greatest D: tiles lie in shared memory */

/* 4 N H E bytes; the tiles of keys come from caches in addition. */
kernel_attention_forward cuda_attention_forward;
/* Three launches for each part of the heads whose sums fit the scratch: 4 T bytes a head. The
 * scratch must hold those of a group at least, the heads that share keys and values. */
kernel_attention_backward cuda_attention_backward;

/* (2 A + 2 K) N D E bytes; queries and keys turn in shared memory. The tables of cosines and sines
 * are device memory. */
kernel_grouped_forward cuda_grouped_forward;
/* As cuda_attention_backward. */
kernel_grouped_backward cuda_grouped_backward;

/* ---- loss ---- */

/* N V E bytes. */
kernel_loss cuda_loss;
/* 2 N V E bytes where the L2 cache holds the rows that are computed at a time, else 3. */
kernel_loss_backward cuda_loss_backward;

/* ---- gradients and their use ---- */

/* If the context has squares, it may only note a small gradient among them. */
kernel_sum_squares cuda_sum_squares;
/* Queues the sums that wait: one launch, and none if there are none. */
void cuda_flush_squares(const void *context);
/* 4 bytes an element. */
kernel_block_squares cuda_block_squares;
kernel_total_squares cuda_total_squares;
/* Stores the result in the context's scale too, where cuda_adamw reads it. */
kernel_clip cuda_clip;
/* 28 bytes an element in fp32, 28 in bf16 with the gradient in the parameter, 32 with a gradient of
 * its own. If the context has updates, it may only note the tensor among them. */
kernel_adamw cuda_adamw;
/* Queues the updates that wait: one launch, and none if there are none. */
void cuda_flush_updates(const void *context);

#ifdef __cplusplus
}
#endif

#endif
