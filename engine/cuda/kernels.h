/* The arithmetic of the CUDA device but for its matrix products: the functions of
 * engine/cpu/kernels.h of the same names, with the same arguments and meaning, queued on a stream.
 * Pointers are device memory, of tensors and buffers at multiples of 16 bytes at least.
 *
 * Bits: every function gives the same bits each time; sums run in an order that shapes alone fix.
 * All but the loss and attention in bf16 give the bits of the CPU device, whose lanes, blocks and
 * orders of summation they keep; so does attention in fp32.
 *
 * Bytes said beside a function are what it moves through device memory when caches hold a block's
 * own rows; E is an element's bytes. One launch each, unless said otherwise. */
#ifndef PSTAR_ENGINE_CUDA_KERNELS_H
#define PSTAR_ENGINE_CUDA_KERNELS_H

#include "engine/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t points to one */

enum { CUDA_SCRATCH_LEAST = 8192 };

/* Where kernels are queued. Those of one context run one after the other. */
struct cuda_context {
    struct CUstream_st *stream;
    void *scratch; /* device memory for sums between two kernels: at least CUDA_SCRATCH_LEAST */
    uint64_t scratch_bytes;
    uint32_t *counter;        /* of device memory: 0 between kernels */
    uint32_t multiprocessors; /* of the device */
    double *scale;            /* of device memory: what cuda_clip left */
};

/* ---- embedding ---- */

/* 3 N H E bytes. */
void cuda_embed_forward(const struct cuda_context *cuda, enum model_precision precision, uint32_t N,
                        uint32_t T, uint32_t H, const uint32_t *tokens, const void *wte,
                        const void *wpe, const struct kernel_dropout *dropout, void *x);
/* Compares every token with every other: N^2 comparisons, from caches. */
void cuda_embed_order(const struct cuda_context *cuda, uint32_t N, const uint32_t *tokens,
                      uint64_t *order);
/* 3 N H E bytes at most, and V H of the gradient's where it is set: a clearing before the launch.
 */
void cuda_embed_backward_tokens(const struct cuda_context *cuda, enum model_precision precision,
                                uint32_t N, uint32_t H, uint32_t V, const uint64_t *order,
                                const void *dx, const struct kernel_dropout *dropout,
                                enum kernel_gradient gradient, void *dwte);
void cuda_embed_backward_positions(const struct cuda_context *cuda, enum model_precision precision,
                                   uint32_t B, uint32_t T, uint32_t H, uint32_t P, const void *dx,
                                   const struct kernel_dropout *dropout,
                                   enum kernel_gradient gradient, void *dwpe);

/* ---- layer norm ---- */

/* 2 N H E bytes. */
void cuda_norm_forward(const struct cuda_context *cuda, enum model_precision precision, uint32_t N,
                       uint32_t H, double epsilon, const void *weight, const void *bias,
                       const void *x, void *y, float *stats);
/* 3 N H E bytes, 4 where it adds. */
void cuda_norm_backward_input(const struct cuda_context *cuda, enum model_precision precision,
                              uint32_t N, uint32_t H, const void *weight, const void *dy,
                              const void *x, const float *stats, bool add, void *dx);
/* Two launches for as many rows as the scratch holds sums of: N H / 8 bytes for N rows. 2 N H E
 * bytes. */
void cuda_norm_backward_parameters(const struct cuda_context *cuda, enum model_precision precision,
                                   uint32_t N, uint32_t H, const void *dy, const void *x,
                                   const float *stats, enum kernel_gradient gradient, void *dweight,
                                   void *dbias);

/* ---- linear: the bias' gradient ---- */

/* Launches as cuda_norm_backward_parameters, N O / 16 bytes of sums. N O E bytes. */
void cuda_linear_backward_bias(const struct cuda_context *cuda, enum model_precision precision,
                               uint32_t N, uint32_t O, const void *dy,
                               enum kernel_gradient gradient, void *dbias);

/* ---- GELU, residual and dropout ---- */

void cuda_gelu_forward(const struct cuda_context *cuda, enum model_precision precision,
                       uint64_t elements, const void *pre, void *y);
/* cpu_gelu_backward, and cpu_linear_backward_bias of what it leaves in dy: launches as
 * cuda_linear_backward_bias. 3 N O E bytes. */
void cuda_gelu_backward_bias(const struct cuda_context *cuda, enum model_precision precision,
                             uint32_t N, uint32_t O, const void *pre, void *dy,
                             enum kernel_gradient gradient, void *dbias);
void cuda_residual_forward(const struct cuda_context *cuda, enum model_precision precision,
                           uint32_t N, uint32_t H, const void *residual,
                           const struct kernel_dropout *dropout, void *y);
void cuda_dropout_backward(const struct cuda_context *cuda, enum model_precision precision,
                           uint32_t N, uint32_t H, const struct kernel_dropout *dropout,
                           const void *dy, void *masked);

/* ---- causal attention ---- */

enum { CUDA_HEAD_LIMIT = 128 }; /* of D: tiles lie in shared memory */

/* 4 N H E bytes, the tiles of keys beside from caches. */
void cuda_attention_forward(const struct cuda_context *cuda, enum model_precision precision,
                            uint32_t B, uint32_t T, uint32_t A, uint32_t D, const void *qkv,
                            const struct kernel_dropout *dropout, void *o, float *lse);
/* Three launches for as many sequences as the scratch holds sums of: 4 A T bytes each, and no fewer
 * than one. */
void cuda_attention_backward(const struct cuda_context *cuda, enum model_precision precision,
                             uint32_t B, uint32_t T, uint32_t A, uint32_t D, const void *dout,
                             const void *qkv, const void *o, const float *lse,
                             const struct kernel_dropout *dropout, void *dqkv);

/* ---- loss: `loss` is memory that the device writes; rows of logits as model_logits_row ---- */

/* N V E bytes. */
void cuda_loss(const struct cuda_context *cuda, enum model_precision precision, uint32_t N,
               uint32_t V, const uint32_t *targets, const void *logits, double *loss);
/* 2 N V E bytes where the L2 cache holds the rows that are computed at a time, else 3. */
void cuda_loss_backward(const struct cuda_context *cuda, enum model_precision precision, uint32_t N,
                        uint32_t V, const uint32_t *targets, double divisor, void *logits,
                        double *loss);

/* ---- gradients and their use: `sum` is memory that the device writes ---- */

void cuda_sum_squares(const struct cuda_context *cuda, enum model_precision precision,
                      uint64_t elements, const void *gradient, double *sum);
/* adamw_clip of the sum of squares[count], in order, goes to the context's scale and to *scale;
 * both are memory that the device reads and writes. */
void cuda_clip(const struct cuda_context *cuda, uint32_t count, const double *squares, double clip,
               double *scale);
/* `clipped`: with the context's scale instead of the step's. 28 bytes an element in fp32, 28 in
 * bf16 with the gradient in the parameter, 32 with a gradient of its own. */
void cuda_adamw(const struct cuda_context *cuda, const struct adamw_step *step, bool clipped,
                const struct kernel_adamw *tensor);

#ifdef __cplusplus
}
#endif

#endif
