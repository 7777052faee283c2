/* The kernels of the CPU device and of operators on the host (see engine/kernels.h). They have run
 * when they return. */
#ifndef PSTAR_ENGINE_CPU_KERNELS_H
#define PSTAR_ENGINE_CPU_KERNELS_H

#include "engine/host/cores.h"
#include "engine/kernels.h"

/* The threads, the vector extension in use, and the matrix products made so far, one for each
 * shape. Only one thread may call with a context at a time; the device and the host's optimizer
 * each have their own. */
struct cpu_context;

/* `threads` >= 1. Free with cpu_context_free. */
struct cpu_context *cpu_context_new(unsigned threads);
/* Does the same for loops of the calling thread, and creates their threads. */
struct cpu_context *cpu_context_start(unsigned threads);
/* Creates the threads of all loops that the calling thread will run. If the system refuses them,
 * the process ends as without memory, by a fatal message, where OpenMP's library would end it by
 * one of its own. */
void cpu_context_make_threads(const struct cpu_context *cpu);
/* Runs threads on the nodes that their parts are for, from now on. `nodes` must outlive the
 * context; NULL leaves threads where the system puts them. */
void cpu_context_keep_near(struct cpu_context *cpu, const struct nodes *nodes);
void cpu_context_free(struct cpu_context *cpu);

unsigned cpu_context_threads(const struct cpu_context *cpu);
/* Returns the best vector extension that was compiled and that this machine has: "avx512", "avx2",
 * "neon" or "generic". */
const char *cpu_context_simd(const struct cpu_context *cpu);
/* Returns the bytes that the context holds for its matrix products: in bf16 about 2 MiB for GPT-2,
 * and where gradients are added about 4 MiB (engine/cpu/matmul.h). They grow with the first use of
 * a shape and never after. They count as memory of libraries, not of an arena. In fp32 the library
 * takes and frees at most 10 MiB a thread during a product. */
uint64_t cpu_context_scratch_bytes(const struct cpu_context *cpu);

extern const struct kernels cpu_kernels;

kernel_embed_forward cpu_embed_forward;
kernel_embed_order cpu_embed_order;
kernel_embed_tokens cpu_embed_tokens;
kernel_embed_positions cpu_embed_positions;
kernel_norm_forward cpu_norm_forward;
kernel_norm_backward_input cpu_norm_backward_input;
kernel_norm_backward_parameters cpu_norm_backward_parameters;
kernel_linear_forward cpu_linear_forward;
kernel_linear_backward_input cpu_linear_backward_input;
kernel_linear_backward_weight cpu_linear_backward_weight;
kernel_linear_backward_bias cpu_linear_backward_bias;
kernel_classifier_forward cpu_classifier_forward;
kernel_classifier_backward_input cpu_classifier_backward_input;
kernel_classifier_backward_weight cpu_classifier_backward_weight;
kernel_gelu_forward cpu_gelu_forward;
kernel_gelu_backward_bias cpu_gelu_backward_bias;
kernel_residual_forward cpu_residual_forward;
kernel_dropout_backward cpu_dropout_backward;
kernel_attention_forward cpu_attention_forward;
kernel_attention_backward cpu_attention_backward;
kernel_loss cpu_loss;
kernel_loss_backward cpu_loss_backward;
kernel_sum_squares cpu_sum_squares;
kernel_block_squares cpu_block_squares;
kernel_total_squares cpu_total_squares;
kernel_clip cpu_clip;
kernel_adamw cpu_adamw;
kernel_rms_forward cpu_rms_forward;
kernel_rms_backward_input cpu_rms_backward_input;
kernel_rms_backward_weight cpu_rms_backward_weight;
kernel_product_forward cpu_product_forward;
kernel_product_backward_input cpu_product_backward_input;
kernel_product_backward_weight cpu_product_backward_weight;
kernel_gate_forward cpu_gate_forward;
kernel_gate_backward cpu_gate_backward;
kernel_scale cpu_scale;
kernel_cap_logits cpu_cap_logits;
kernel_grouped_forward cpu_grouped_forward;
kernel_grouped_backward cpu_grouped_backward;

/* The greatest D of attention: tiles lie on the threads' stacks, of at most 1 MiB. */
enum { CPU_HEAD_LIMIT = 512 };

/* ---- kernels beside the table ---- */

/* dy becomes dy * gelu'(pre). */
void cpu_gelu_backward(const struct cpu_context *cpu, enum model_precision precision,
                       enum model_activation of, uint64_t elements, const void *pre, void *dy);

/* Sets rounded[i] to bf16_round(values[i]). Returns the sum of the squares of the rounded values,
 * as cpu_sum_squares computes it. The arrays do not overlap. */
double cpu_round_gradient(const struct cpu_context *cpu, uint64_t elements, const float *values,
                          uint16_t *rounded);

/* Convert bf16 parameters from their fp32 masters, and fp32 from bf16, for loading and saving. */
void cpu_round(const struct cpu_context *cpu, uint64_t elements, const float *values,
               uint16_t *rounded);
void cpu_widen(const struct cpu_context *cpu, uint64_t elements, const uint16_t *halves,
               float *values);

#endif
