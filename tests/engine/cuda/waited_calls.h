/* Makes each call of a kernel wait until it has run, and stop the program with its name if it
 * failed. Included before everything else where the kernels' tests are compiled for a GPU. */
#ifndef PSTAR_TESTS_ENGINE_CUDA_WAITED_CALLS_H
#define PSTAR_TESTS_ENGINE_CUDA_WAITED_CALLS_H

#include "engine/cuda/reduction.h"
#include "kernel_runs.h"

#define WAITED(kernel, ...) (kernel(__VA_ARGS__), kernel_runs_finish(#kernel))

#define cuda_adamw(...)                    WAITED(cuda_adamw, __VA_ARGS__)
#define cuda_attention_backward(...)       WAITED(cuda_attention_backward, __VA_ARGS__)
#define cuda_attention_forward(...)        WAITED(cuda_attention_forward, __VA_ARGS__)
#define cuda_block_squares(...)            WAITED(cuda_block_squares, __VA_ARGS__)
#define cuda_cap_logits(...)               WAITED(cuda_cap_logits, __VA_ARGS__)
#define cuda_clip(...)                     WAITED(cuda_clip, __VA_ARGS__)
#define cuda_dropout_backward(...)         WAITED(cuda_dropout_backward, __VA_ARGS__)
#define cuda_embed_forward(...)            WAITED(cuda_embed_forward, __VA_ARGS__)
#define cuda_embed_order(...)              WAITED(cuda_embed_order, __VA_ARGS__)
#define cuda_embed_positions(...)          WAITED(cuda_embed_positions, __VA_ARGS__)
#define cuda_embed_tokens(...)             WAITED(cuda_embed_tokens, __VA_ARGS__)
#define cuda_flush_squares(...)            WAITED(cuda_flush_squares, __VA_ARGS__)
#define cuda_flush_updates(...)            WAITED(cuda_flush_updates, __VA_ARGS__)
#define cuda_gate_backward(...)            WAITED(cuda_gate_backward, __VA_ARGS__)
#define cuda_gate_forward(...)             WAITED(cuda_gate_forward, __VA_ARGS__)
#define cuda_gelu_backward_bias(...)       WAITED(cuda_gelu_backward_bias, __VA_ARGS__)
#define cuda_gelu_forward(...)             WAITED(cuda_gelu_forward, __VA_ARGS__)
#define cuda_grouped_backward(...)         WAITED(cuda_grouped_backward, __VA_ARGS__)
#define cuda_grouped_forward(...)          WAITED(cuda_grouped_forward, __VA_ARGS__)
#define cuda_linear_backward_bias(...)     WAITED(cuda_linear_backward_bias, __VA_ARGS__)
#define cuda_loss(...)                     WAITED(cuda_loss, __VA_ARGS__)
#define cuda_loss_backward(...)            WAITED(cuda_loss_backward, __VA_ARGS__)
#define cuda_norm_backward_input(...)      WAITED(cuda_norm_backward_input, __VA_ARGS__)
#define cuda_norm_backward_parameters(...) WAITED(cuda_norm_backward_parameters, __VA_ARGS__)
#define cuda_norm_forward(...)             WAITED(cuda_norm_forward, __VA_ARGS__)
#define cuda_reduction_add(...)            WAITED(cuda_reduction_add, __VA_ARGS__)
#define cuda_reduction_clear(...)          WAITED(cuda_reduction_clear, __VA_ARGS__)
#define cuda_residual_forward(...)         WAITED(cuda_residual_forward, __VA_ARGS__)
#define cuda_rms_backward_input(...)       WAITED(cuda_rms_backward_input, __VA_ARGS__)
#define cuda_rms_backward_weight(...)      WAITED(cuda_rms_backward_weight, __VA_ARGS__)
#define cuda_rms_forward(...)              WAITED(cuda_rms_forward, __VA_ARGS__)
#define cuda_scale(...)                    WAITED(cuda_scale, __VA_ARGS__)
#define cuda_sum_squares(...)              WAITED(cuda_sum_squares, __VA_ARGS__)
#define cuda_total_squares(...)            WAITED(cuda_total_squares, __VA_ARGS__)

#endif
