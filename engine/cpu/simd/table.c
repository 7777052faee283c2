#include "engine/cpu/simd/loops.h"

#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)

const struct cpu_simd SIMD(cpu_simd) = {
    .name = TEXT(SIMD_NAME),
    .embed_forward = SIMD(embed_forward),
    .embed_tokens = SIMD(embed_tokens),
    .embed_positions = SIMD(embed_positions),
    .norm_forward = SIMD(norm_forward),
    .norm_input = SIMD(norm_input),
    .norm_parameters = SIMD(norm_parameters),
    .rms_forward = SIMD(rms_forward),
    .rms_input = SIMD(rms_input),
    .rms_weight = SIMD(rms_weight),
    .column_sums = SIMD(column_sums),
    .gelu_forward = SIMD(gelu_forward),
    .gelu_backward = SIMD(gelu_backward),
    .gate_forward = SIMD(gate_forward),
    .gate_backward = SIMD(gate_backward),
    .scale = SIMD(scale),
    .cap_logits = SIMD(cap_logits),
    .residual = SIMD(residual),
    .attention_forward = SIMD(attention_forward),
    .attention_backward_queries = SIMD(attention_backward_queries),
    .attention_backward_keys = SIMD(attention_backward_keys),
    .loss = SIMD(loss),
    .loss_backward = SIMD(loss_backward),
    .squares = SIMD(squares),
    .round_squares = SIMD(round_squares),
    .round = SIMD(round),
    .widen = SIMD(widen),
    .adamw = SIMD(adamw),
};
