/* The arithmetic of the CPU device: one function an operator or a part of one. Pure functions of
 * their arguments: they allocate nothing, and keep nothing but the context's matrix products.
 *
 * B sequences, T tokens a sequence, N = B*T rows, H width, A heads, D = H/A, I inputs, O outputs, V
 * vocabulary. All matrices are row-major and contiguous. Activations and parameters are of the
 * precision's element (4 bytes fp32, 2 bf16; void pointers), everything else says its type. Sums
 * are in fp32 or wider whatever the precision. Tensors start at multiples of 64 bytes at least.
 *
 * Bits: at one number of threads every function gives the same bits each time. All but the matrix
 * products (linear, classifier) give the same bits at any number of threads and for any vector
 * extension of the machine. Stores in bf16 round as bf16_round does, except the outputs of matrix
 * products, which the library rounds to nearest even. */
#ifndef PSTAR_ENGINE_CPU_KERNELS_H
#define PSTAR_ENGINE_CPU_KERNELS_H

#include "engine/host/nodes.h"
#include "engine/kernels.h"

/* Threads, the vector extension in use, and the matrix products made so far, one a shape. For one
 * caller at a time; callers on several threads (device, host optimizer) each make their own. */
struct cpu_context;

/* `threads` >= 1. Free with cpu_context_free. */
struct cpu_context *cpu_context_new(unsigned threads);
/* From now on threads run on the nodes that their parts are for, which outlive the context. NULL:
 * wherever the system has them. */
void cpu_context_keep_near(struct cpu_context *cpu, const struct nodes *nodes);
void cpu_context_free(struct cpu_context *cpu);

unsigned cpu_context_threads(const struct cpu_context *cpu);
/* "avx512", "avx2", "neon", "generic": what this machine has of what was compiled. */
const char *cpu_context_simd(const struct cpu_context *cpu);
/* Bytes that the context holds for the bf16 matrix products met so far: grows with the first use of
 * a shape and never after. About 2 MiB for GPT-2; part of what libraries hold, not of any arena. In
 * fp32 the library takes and frees at most 10 MiB a thread during a product. */
uint64_t cpu_context_scratch_bytes(const struct cpu_context *cpu);

/* ---- embedding: x[N,H] = dropout(wte[token] + wpe[n mod T]) ---- */

void cpu_embed_forward(const struct cpu_context *cpu, enum model_precision precision, uint32_t N,
                       uint32_t T, uint32_t H, const uint32_t *tokens, const void *wte,
                       const void *wpe, const struct kernel_dropout *dropout, void *x);

/* order[N]: the rows sorted by token, rows of one token ascending, as token << 32 | row. The order
 * in which cpu_embed_backward_tokens sums; once a micro-batch. */
void cpu_embed_order(uint32_t N, const uint32_t *tokens, uint64_t *order);

/* dwte[V,H] of the kind of `gradient`, from dx[N,H]. Adding touches only the rows of tokens met. */
void cpu_embed_backward_tokens(const struct cpu_context *cpu, enum model_precision precision,
                               uint32_t N, uint32_t H, uint32_t V, const uint64_t *order,
                               const void *dx, const struct kernel_dropout *dropout,
                               enum kernel_gradient gradient, void *dwte);

/* dwpe[P,H], P positions of which the first T were used. */
void cpu_embed_backward_positions(const struct cpu_context *cpu, enum model_precision precision,
                                  uint32_t B, uint32_t T, uint32_t H, uint32_t P, const void *dx,
                                  const struct kernel_dropout *dropout,
                                  enum kernel_gradient gradient, void *dwpe);

/* ---- layer norm: stats fp32 [2,N], the means and then the inverses of the deviations ---- */

void cpu_norm_forward(const struct cpu_context *cpu, enum model_precision precision, uint32_t N,
                      uint32_t H, double epsilon, const void *weight, const void *bias,
                      const void *x, void *y, float *stats);

/* dx[N,H] is overwritten, or added to. */
void cpu_norm_backward_input(const struct cpu_context *cpu, enum model_precision precision,
                             uint32_t N, uint32_t H, const void *weight, const void *dy,
                             const void *x, const float *stats, bool add, void *dx);

/* dweight[H], dbias[H] of the kind of `gradient`. The weight may be overwritten by its own
 * gradient: after cpu_norm_backward_input. */
void cpu_norm_backward_parameters(const struct cpu_context *cpu, enum model_precision precision,
                                  uint32_t N, uint32_t H, const void *dy, const void *x,
                                  const float *stats, enum kernel_gradient gradient, void *dweight,
                                  void *dbias);

/* ---- linear: y[N,O] = x[N,I] weight[I,O] + bias[O] ---- */

void cpu_linear_forward(struct cpu_context *cpu, enum model_precision precision, uint32_t N,
                        uint32_t I, uint32_t O, const void *x, const void *weight, const void *bias,
                        void *y);
/* dx[N,I] = dy weight^T */
void cpu_linear_backward_input(struct cpu_context *cpu, enum model_precision precision, uint32_t N,
                               uint32_t I, uint32_t O, const void *dy, const void *weight,
                               void *dx);
/* dweight[I,O] fp32 = x^T dy, or added to. */
void cpu_linear_backward_weight(struct cpu_context *cpu, enum model_precision precision, uint32_t N,
                                uint32_t I, uint32_t O, const void *x, const void *dy, bool add,
                                float *dweight);
/* dbias[O] of the kind of `gradient`: the columns of dy summed. */
void cpu_linear_backward_bias(const struct cpu_context *cpu, enum model_precision precision,
                              uint32_t N, uint32_t O, const void *dy, enum kernel_gradient gradient,
                              void *dbias);

/* ---- classifier: logits[N,V] = x[N,H] weight[V,H]^T; rows of logits as model_logits_row ---- */

void cpu_classifier_forward(struct cpu_context *cpu, enum model_precision precision, uint32_t N,
                            uint32_t H, uint32_t V, const void *x, const void *weight,
                            void *logits);
/* dx[N,H] = dlogits weight */
void cpu_classifier_backward_input(struct cpu_context *cpu, enum model_precision precision,
                                   uint32_t N, uint32_t H, uint32_t V, const void *dlogits,
                                   const void *weight, void *dx);
/* dweight[V,H] fp32 = dlogits^T x, or added to. */
void cpu_classifier_backward_weight(struct cpu_context *cpu, enum model_precision precision,
                                    uint32_t N, uint32_t H, uint32_t V, const void *x,
                                    const void *dlogits, bool add, float *dweight);

/* ---- GELU, tanh form, element by element ---- */

void cpu_gelu_forward(const struct cpu_context *cpu, enum model_precision precision,
                      uint64_t elements, const void *pre, void *y);
/* dy becomes dy * gelu'(pre). */
void cpu_gelu_backward(const struct cpu_context *cpu, enum model_precision precision,
                       uint64_t elements, const void *pre, void *dy);

/* ---- residual and dropout, [N,H] ---- */

/* y = residual + dropout(y) */
void cpu_residual_forward(const struct cpu_context *cpu, enum model_precision precision, uint32_t N,
                          uint32_t H, const void *residual, const struct kernel_dropout *dropout,
                          void *y);
/* masked = dy under the forward's mask; may be dy itself. */
void cpu_dropout_backward(const struct cpu_context *cpu, enum model_precision precision, uint32_t N,
                          uint32_t H, const struct kernel_dropout *dropout, const void *dy,
                          void *masked);

/* ---- causal attention: qkv[N,3H], each row q, k, v, each of them [A,D] ---- */

enum { CPU_HEAD_LIMIT = 512 }; /* of D: tiles lie on the threads' stacks, 1 MiB at most */

/* Dropout is on the probabilities [B*A*T, T]. lse fp32 [B,A,T]. There is no workspace. */
void cpu_attention_forward(const struct cpu_context *cpu, enum model_precision precision,
                           uint32_t B, uint32_t T, uint32_t A, uint32_t D, const void *qkv,
                           const struct kernel_dropout *dropout, void *o, float *lse);
/* dqkv[N,3H] is overwritten; the probabilities are computed again from lse. */
void cpu_attention_backward(const struct cpu_context *cpu, enum model_precision precision,
                            uint32_t B, uint32_t T, uint32_t A, uint32_t D, const void *dout,
                            const void *qkv, const void *o, const float *lse,
                            const struct kernel_dropout *dropout, void *dqkv);

/* ---- loss: the mean over N rows of the cross-entropy of logits[N,V] and targets[N]; rows of
 * logits as model_logits_row ---- */

double cpu_loss(const struct cpu_context *cpu, enum model_precision precision, uint32_t N,
                uint32_t V, const uint32_t *targets, const void *logits);
/* The same, and the logits become their gradient divided by `divisor` (N * micro_batches). */
double cpu_loss_backward(const struct cpu_context *cpu, enum model_precision precision, uint32_t N,
                         uint32_t V, const uint32_t *targets, double divisor, void *logits);

/* ---- gradients and their use ---- */

/* The sum of the squares in fp64, in KERNEL_SQUARES_BLOCKS blocks at most. `precision`: of the
 * gradient's elements. */
double cpu_sum_squares(const struct cpu_context *cpu, enum model_precision precision,
                       uint64_t elements, const void *gradient);

/* rounded[i] = bf16_round(values[i]); returns the sum of the squares of the rounded values, as
 * cpu_sum_squares of them would. The arrays do not overlap. */
double cpu_round_gradient(const struct cpu_context *cpu, uint64_t elements, const float *values,
                          uint16_t *rounded);

void cpu_adamw(const struct cpu_context *cpu, const struct adamw_step *step,
               const struct kernel_adamw *tensor);

/* bf16 parameters from their fp32 masters, and fp32 from bf16: loading and saving. */
void cpu_round(const struct cpu_context *cpu, uint64_t elements, const float *values,
               uint16_t *rounded);
void cpu_widen(const struct cpu_context *cpu, uint64_t elements, const uint16_t *halves,
               float *values);

#endif
