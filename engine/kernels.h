/* The kernels that every device has: one function an operator, or a part of one. A device fills a
 * table of them, and engine/operators.c calls them for the operators of a model.
 *
 * A kernel's first argument is its device's context: a struct cpu_context or a struct cuda_context.
 * Pointers are memory that the device's kernels reach. Kernels allocate nothing, and keep nothing
 * but the matrix products of the context. On a GPU they are queued: what they return is there when
 * the stream has come so far.
 *
 * B sequences, T tokens a sequence, N = B*T rows, H width, A heads, D = H/A, I inputs, O outputs, V
 * vocabulary. All matrices are row-major and contiguous; rows of logits are model_logits_row apart.
 * Activations and parameters are of the precision's element (4 bytes in fp32, 2 in bf16) and are
 * void pointers; everything else says its type. Sums are in fp32 or wider in either precision.
 * Tensors start at multiples of 64 bytes at least.
 *
 * Bits: every kernel gives the same bits each time. All but the matrix products (linear,
 * classifier), the loss and attention in bf16 give the same bits on every device, at any number of
 * threads and with any vector extension. Stores in bf16 round as bf16_round does, except the
 * outputs of matrix products, which libraries round to nearest even. */
#ifndef PSTAR_ENGINE_KERNELS_H
#define PSTAR_ENGINE_KERNELS_H

#include "engine/adamw.h"
#include "engine/experts.h"
#include "engine/host_device.h"
#include "engine/random.h"
#include "models/iteration.h"
#include "traces/shard.h"

/* The ways in which a kernel stores a parameter's gradient. */
enum kernel_gradient {
    KERNEL_GRADIENT_SET,      /* fp32: overwrites every element, also where the gradient is zero */
    KERNEL_GRADIENT_ADD,      /* fp32: adds to the stored value */
    KERNEL_GRADIENT_SET_BF16, /* bf16: overwrites; sums in fp32 and rounds once */
    KERNEL_GRADIENT_ADD_BF16  /* bf16: widens the stored value, adds in fp32, rounds */
};

HOST_DEVICE static inline bool kernel_gradient_adds(enum kernel_gradient gradient)
{
    return gradient == KERNEL_GRADIENT_ADD || gradient == KERNEL_GRADIENT_ADD_BF16;
}

HOST_DEVICE static inline bool kernel_gradient_is_half(enum kernel_gradient gradient)
{
    return gradient == KERNEL_GRADIENT_SET_BF16 || gradient == KERNEL_GRADIENT_ADD_BF16;
}

/* Inverted dropout: an element stays, divided by 1 - probability, where its word is at least
 * probability * 2^32. Element [row, column] of [rows, columns] draws word row * C + column, where C
 * is `columns` rounded up to a multiple of 64. Kernels take NULL for no dropout. */
struct kernel_dropout {
    struct random_stream stream;
    double probability; /* in [0, 1) */
};

/* Squares of a gradient are summed in fp64, in at most this many blocks. The blocks depend on the
 * number of elements alone. A GPU gives each of them to one warp and sums in the same order. */
enum { KERNEL_SQUARES_BLOCKS = SHARD_BLOCKS };

/* A tensor for AdamW, or a piece of one. A pointer that the layout does not have is NULL.
 *   fp32:                      param fp32, gradient fp32
 *   bf16, 12 bytes an element: param bf16, the upper half of the master; rest, its other half
 *                              (bf16_join); gradient_bf16
 *   bf16, 14 bytes an element: param bf16 holds the gradient and receives the parameter; master
 *   bf16, 16 bytes an element: as 12, with a gradient in fp32
 *   bf16, 18 bytes an element: param bf16, gradient fp32, master
 * With a delay (model_job.delay) the parameter receives the master's old value, not its new one:
 *   fp32, 20 bytes an element: `delayed` fp32 receives what param was
 *   bf16, 14 or 18 bytes:      as above, with `lags` */
struct adamw_tensor {
    uint64_t elements;
    void *param;
    const float *gradient;
    const uint16_t *gradient_bf16;
    float *master;
    uint16_t *rest;
    float *exp_avg, *exp_avg_sq;
    float *delayed;
    bool lags;
};

/* ---- embedding: x[N,H] = dropout(wte[token] + wpe[n mod T]) ---- */

/* wpe is NULL in models with rotary positions. */
typedef void kernel_embed_forward(const void *context, enum model_precision precision, uint32_t N,
                                  uint32_t T, uint32_t H, const uint32_t *tokens, const void *wte,
                                  const void *wpe, const struct kernel_dropout *dropout, void *x);

/* order[N]: the rows sorted by token, and rows of one token ascending, each as token << 32 | row.
 * kernel_embed_tokens sums in this order. */
typedef void kernel_embed_order(const void *context, uint32_t N, const uint32_t *tokens,
                                uint64_t *order);

/* dwte[V,H] from dx[N,H]. Adding touches only the rows of tokens that occur. */
typedef void kernel_embed_tokens(const void *context, enum model_precision precision, uint32_t N,
                                 uint32_t H, uint32_t V, const uint64_t *order, const void *dx,
                                 const struct kernel_dropout *dropout,
                                 enum kernel_gradient gradient, void *dwte);

/* dwpe[P,H] of P positions; only the first T are used. */
typedef void kernel_embed_positions(const void *context, enum model_precision precision, uint32_t B,
                                    uint32_t T, uint32_t H, uint32_t P, const void *dx,
                                    const struct kernel_dropout *dropout,
                                    enum kernel_gradient gradient, void *dwpe);

/* ---- layer norm: stats fp32 [2,N], the means and then the inverses of the deviations ---- */

typedef void kernel_norm_forward(const void *context, enum model_precision precision, uint32_t N,
                                 uint32_t H, double epsilon, const void *weight, const void *bias,
                                 const void *x, void *y, float *stats);

/* Overwrites dx[N,H], or adds to it. */
typedef void kernel_norm_backward_input(const void *context, enum model_precision precision,
                                        uint32_t N, uint32_t H, const void *weight, const void *dy,
                                        const void *x, const float *stats, bool add, void *dx);

/* dweight[H] and dbias[H]. The gradient may overwrite the weight, so it comes after
 * kernel_norm_backward_input. */
typedef void kernel_norm_backward_parameters(const void *context, enum model_precision precision,
                                             uint32_t N, uint32_t H, const void *dy, const void *x,
                                             const float *stats, enum kernel_gradient gradient,
                                             void *dweight, void *dbias);

/* ---- RMS norm (Zhang, Sennrich 2019): y = (weight + offset) x / root mean square; stats fp32 [N],
 * the inverses of the root mean squares ---- */

typedef void kernel_rms_forward(const void *context, enum model_precision precision, uint32_t N,
                                uint32_t H, double epsilon, float offset, const void *weight,
                                const void *x, void *y, float *stats);

/* Overwrites dx[N,H], or adds to it. */
typedef void kernel_rms_backward_input(const void *context, enum model_precision precision,
                                       uint32_t N, uint32_t H, float offset, const void *weight,
                                       const void *dy, const void *x, const float *stats, bool add,
                                       void *dx);

/* dweight[H], which may overwrite the weight. */
typedef void kernel_rms_backward_weight(const void *context, enum model_precision precision,
                                        uint32_t N, uint32_t H, const void *dy, const void *x,
                                        const float *stats, enum kernel_gradient gradient,
                                        void *dweight);

/* ---- linear: y[N,O] = x[N,I] weight[I,O] + bias[O] ---- */

typedef void kernel_linear_forward(const void *context, enum model_precision precision, uint32_t N,
                                   uint32_t I, uint32_t O, const void *x, const void *weight,
                                   const void *bias, void *y);

/* pre = x weight + bias and y = gelu(pre), in its tanh form, in one product. Returns false, having
 * queued nothing, where the library has no such product for the shape: always the same answer for a
 * shape. */
typedef bool kernel_linear_gelu(const void *context, enum model_precision precision, uint32_t N,
                                uint32_t I, uint32_t O, const void *x, const void *weight,
                                const void *bias, void *pre, void *y);

/* y = residual + x weight + bias in one product; `bias` may be NULL. Returns false as
 * kernel_linear_gelu does. */
typedef bool kernel_linear_residual(const void *context, enum model_precision precision, uint32_t N,
                                    uint32_t I, uint32_t O, const void *x, const void *weight,
                                    const void *bias, const void *residual, void *y);

/* dpre[N,I] = gelu'(pre) (dy weight^T), in bf16 and in GELU's tanh form, in one product. Returns
 * false as kernel_linear_gelu does. */
typedef bool kernel_linear_slope(const void *context, uint32_t N, uint32_t I, uint32_t O,
                                 const void *dy, const void *weight, const void *pre, void *dpre);

/* dx[N,I] = dy weight^T */
typedef void kernel_linear_backward_input(const void *context, enum model_precision precision,
                                          uint32_t N, uint32_t I, uint32_t O, const void *dy,
                                          const void *weight, void *dx);

/* dweight[I,O] = x^T dy, summed in fp32 and rounded at most once, and the sum of its squares in
 * *squares, which may be NULL. A gradient in bf16 is never added to; its `workspace` fp32 [I,O] is
 * for devices that round after they have summed, and NULL for fp32. */
typedef void kernel_linear_backward_weight(const void *context, enum model_precision precision,
                                           uint32_t N, uint32_t I, uint32_t O, const void *x,
                                           const void *dy, enum kernel_gradient gradient,
                                           float *workspace, void *dweight, double *squares);

/* dbias[O]: the sums of dy's columns. Rows of dy are `row` elements apart. */
typedef void kernel_linear_backward_bias(const void *context, enum model_precision precision,
                                         uint32_t N, uint32_t O, uint32_t row, const void *dy,
                                         enum kernel_gradient gradient, void *dbias);

/* ---- the same with the weight transposed: y[N,O] = x[N,I] weight[O,I]^T + bias[O] ---- */

/* `bias` may be NULL. */
typedef void kernel_product_forward(const void *context, enum model_precision precision, uint32_t N,
                                    uint32_t I, uint32_t O, const void *x, const void *weight,
                                    const void *bias, void *y);

/* dx[N,I] = dy weight, overwritten or added to. */
typedef void kernel_product_backward_input(const void *context, enum model_precision precision,
                                           uint32_t N, uint32_t I, uint32_t O, const void *dy,
                                           const void *weight, bool add, void *dx);

/* dweight[O,I] = dy^T x, as kernel_linear_backward_weight. */
typedef void kernel_product_backward_weight(const void *context, enum model_precision precision,
                                            uint32_t N, uint32_t I, uint32_t O, const void *x,
                                            const void *dy, enum kernel_gradient gradient,
                                            float *workspace, void *dweight, double *squares);

/* ---- classifier: logits[N,V] = x[N,H] weight[V,H]^T + bias[V] ---- */

/* `bias` may be NULL. */
typedef void kernel_classifier_forward(const void *context, enum model_precision precision,
                                       uint32_t N, uint32_t H, uint32_t V, const void *x,
                                       const void *weight, const void *bias, void *logits);

/* dx[N,H] = dlogits weight */
typedef void kernel_classifier_backward_input(const void *context, enum model_precision precision,
                                              uint32_t N, uint32_t H, uint32_t V,
                                              const void *dlogits, const void *weight, void *dx);

/* dweight[V,H] = dlogits^T x, stored as kernel_linear_backward_weight does. */
typedef void kernel_classifier_backward_weight(const void *context, enum model_precision precision,
                                               uint32_t N, uint32_t H, uint32_t V, const void *x,
                                               const void *dlogits, enum kernel_gradient gradient,
                                               float *workspace, void *dweight, double *squares);

/* logits[N,V] become soft_cap(logits, cap). */
typedef void kernel_cap_logits(const void *context, enum model_precision precision, uint32_t N,
                               uint32_t V, float cap, void *logits);

/* ---- GELU in the form `of`, element by element ---- */

typedef void kernel_gelu_forward(const void *context, enum model_precision precision,
                                 enum model_activation of, uint64_t elements, const void *pre,
                                 void *y);

/* dy[N,O] becomes dy * gelu'(pre), and dbias[O], which may be NULL, the sums of its columns. */
typedef void kernel_gelu_backward_bias(const void *context, enum model_precision precision,
                                       enum model_activation of, uint32_t N, uint32_t O,
                                       const void *pre, void *dy, enum kernel_gradient gradient,
                                       void *dbias);

/* ---- gate: y[N,F] = activation(gate) up, element by element; SiLU(x) = x / (1 + exp(-x)) ---- */

/* Rows of gate and up are `row` elements apart. */
struct kernel_gate {
    enum model_activation activation;
    uint64_t N, F, row;
    const void *gate, *up;
};

/* Returns the same elements in one row where rows have no gaps between them. */
static inline struct kernel_gate kernel_gate_flat(const struct kernel_gate *gate)
{
    struct kernel_gate flat = *gate;
    if (gate->row == gate->F) {
        flat.F = flat.row = gate->N * gate->F;
        flat.N = 1;
    }
    return flat;
}

typedef void kernel_gate_forward(const void *context, enum model_precision precision,
                                 const struct kernel_gate *gate, void *y);

/* dgate and dup lie as gate and up do. dup may be dy where rows are F apart. */
typedef void kernel_gate_backward(const void *context, enum model_precision precision,
                                  const struct kernel_gate *gate, const void *dy, void *dgate,
                                  void *dup);

/* x times `factor`, element by element. */
typedef void kernel_scale(const void *context, enum model_precision precision, uint64_t elements,
                          float factor, void *x);

/* ---- residual and dropout, [N,H] ---- */

/* y = residual + dropout(y) */
typedef void kernel_residual_forward(const void *context, enum model_precision precision,
                                     uint32_t N, uint32_t H, const void *residual,
                                     const struct kernel_dropout *dropout, void *y);

/* masked = dy under the forward's mask; the two may be the same. */
typedef void kernel_dropout_backward(const void *context, enum model_precision precision,
                                     uint32_t N, uint32_t H, const struct kernel_dropout *dropout,
                                     const void *dy, void *masked);

/* ---- causal attention: qkv[N,3H], each row q, k, v, each of them [A,D] ---- */

enum kernel_qkv { KERNEL_Q, KERNEL_K, KERNEL_V };

/* Dropout is on the probabilities [B*A*T, T]. lse fp32 [B,A,T]. There is no workspace. */
typedef void kernel_attention_forward(const void *context, enum model_precision precision,
                                      uint32_t B, uint32_t T, uint32_t A, uint32_t D,
                                      const void *qkv, const struct kernel_dropout *dropout,
                                      void *o, float *lse);

/* Overwrites dqkv[N,3H]; computes the probabilities again from lse. */
typedef void kernel_attention_backward(const void *context, enum model_precision precision,
                                       uint32_t B, uint32_t T, uint32_t A, uint32_t D,
                                       const void *dout, const void *qkv, const void *o,
                                       const float *lse, const struct kernel_dropout *dropout,
                                       void *dqkv);

/* ---- causal attention of groups of heads: q[N,A,D], k[N,K,D], v[N,K,D]; head a reads keys and
 * values a / (A / K) ---- */

/* If q, k and v are parts of one matrix, its rows are `row` elements long, else that is 0; their
 * gradients then lie in one matrix alike. Heads are `apart` elements apart; 0 stands for D. A
 * position attends to itself and window - 1 before it; 0: to all before it. The first 2 * pairs
 * columns of queries and keys turn: column i and column i + pairs by the angle whose cosine and
 * sine are in the tables [T, pairs]. */
struct kernel_heads {
    uint32_t B, T, A, K, D, row, apart, window, pairs;
    float scale; /* of the scores; 0 stands for 1 / sqrt(D) */
    float cap;   /* of the scores, a soft one (engine/soft_cap.h); 0: none */
    const float *cosines, *sines;
};

typedef void kernel_grouped_forward(const void *context, enum model_precision precision,
                                    const struct kernel_heads *heads, const void *q, const void *k,
                                    const void *v, const struct kernel_dropout *dropout, void *o,
                                    float *lse);

/* Returns where kernels read `count` numbers that the host has made. Each call overwrites what the
 * call before it left. */
typedef const float *kernel_table(const void *context, uint64_t count, const float *values);

/* Overwrites dq, dk and dv. */
typedef void kernel_grouped_backward(const void *context, enum model_precision precision,
                                     const struct kernel_heads *heads, const void *dout,
                                     const void *q, const void *k, const void *v, const void *o,
                                     const float *lse, const struct kernel_dropout *dropout,
                                     void *dq, void *dk, void *dv);

/* ---- loss: the sum over N rows of the cross-entropy of logits[N,V] and targets[N] ---- */

/* A target that does not count. Its row's loss is 0, and so is the gradient of the row's logits. */
#define KERNEL_NO_TARGET UINT32_MAX

typedef void kernel_loss(const void *context, enum model_precision precision, uint32_t N,
                         uint32_t V, const uint32_t *targets, const void *logits, double *loss);

/* The logits also become their gradient, divided by `divisor`, which is the number of targets that
 * count in the whole step. If they have been capped, `cap` is above 0, and the gradient is that
 * before the cap. */
typedef void kernel_loss_backward(const void *context, enum model_precision precision, uint32_t N,
                                  uint32_t V, const uint32_t *targets, double divisor, float cap,
                                  void *logits, double *loss);

/* ---- gradients and their use ---- */

/* *sum: the squares of the gradient's elements, which are of `precision`, summed in fp64. */
typedef void kernel_sum_squares(const void *context, enum model_precision precision,
                                uint64_t elements, const void *gradient, double *sum);

/* Sums the squares of the blocks of `block` elements each of a shard of a gradient, whose elements
 * are of `precision` and whose first block is block `first` of the tensor. The last block may have
 * fewer elements. sums[KERNEL_SQUARES_BLOCKS] becomes 0 where the shard has no block. */
typedef void kernel_block_squares(const void *context, enum model_precision precision,
                                  uint64_t elements, uint64_t block, uint64_t first,
                                  const void *gradient, double *sums);

/* *total: what kernel_sum_squares gives for a tensor with these sums[KERNEL_SQUARES_BLOCKS], where
 * blocks that the tensor does not have are 0. Overwrites the sums. */
typedef void kernel_total_squares(const void *context, double *sums, double *total);

/* *scale: adamw_clip of the sum of squares[count], in order. */
typedef void kernel_clip(const void *context, uint32_t count, const double *squares, double clip,
                         double *scale);

/* `scale` is the result of the context's last kernel_clip. It may be NULL; then the step's own
 * gradient_scale is used. */
typedef void kernel_adamw(const void *context, const struct adamw_step *step, const double *scale,
                          const struct adamw_tensor *tensor);

/* The kernels of a device. The pointers marked so may be NULL. The device then has no fused kernel,
 * and its parts are called one after the other. */
struct kernels {
    kernel_embed_forward *embed_forward;
    kernel_embed_order *embed_order;
    kernel_embed_tokens *embed_tokens;
    kernel_embed_positions *embed_positions;
    kernel_norm_forward *norm_forward;
    kernel_norm_backward_input *norm_backward_input;
    kernel_norm_backward_parameters *norm_backward_parameters;
    kernel_linear_forward *linear_forward;
    kernel_linear_gelu *linear_gelu;         /* may be NULL */
    kernel_linear_residual *linear_residual; /* may be NULL */
    kernel_linear_slope *linear_slope;       /* may be NULL */
    kernel_linear_backward_input *linear_backward_input;
    kernel_linear_backward_weight *linear_backward_weight;
    kernel_linear_backward_bias *linear_backward_bias;
    kernel_classifier_forward *classifier_forward;
    kernel_classifier_backward_input *classifier_backward_input;
    kernel_classifier_backward_weight *classifier_backward_weight;
    kernel_gelu_forward *gelu_forward;
    kernel_gelu_backward_bias *gelu_backward_bias;
    kernel_residual_forward *residual_forward;
    kernel_dropout_backward *dropout_backward;
    kernel_attention_forward *attention_forward;
    kernel_attention_backward *attention_backward;
    kernel_loss *loss;
    kernel_loss_backward *loss_backward;
    kernel_sum_squares *sum_squares;
    kernel_block_squares *block_squares;
    kernel_total_squares *total_squares;
    kernel_clip *clip;
    kernel_adamw *adamw;

    kernel_rms_forward *rms_forward;
    kernel_rms_backward_input *rms_backward_input;
    kernel_rms_backward_weight *rms_backward_weight;
    kernel_product_forward *product_forward;
    kernel_linear_residual *product_residual; /* with the weight transposed; may be NULL */
    kernel_linear_slope *product_slope;       /* with the weight transposed; may be NULL */
    kernel_product_backward_input *product_backward_input;
    kernel_product_backward_weight *product_backward_weight;
    kernel_gate_forward *gate_forward;
    kernel_gate_backward *gate_backward;
    kernel_scale *scale;
    kernel_cap_logits *cap_logits;
    kernel_table *table; /* may be NULL: kernels read the host's memory */
    kernel_grouped_forward *grouped_forward;
    kernel_grouped_backward *grouped_backward;
    const struct expert_kernels *experts; /* may be NULL: the device has no mixtures of experts */
};

#endif
