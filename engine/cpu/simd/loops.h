/* The name of what one compilation of this folder makes: SIMD_NAME is given by the build. */
#ifndef PSTAR_ENGINE_CPU_SIMD_LOOPS_H
#define PSTAR_ENGINE_CPU_SIMD_LOOPS_H

#include "engine/cpu/simd/simd.h"

#define SIMD_JOIN_(a, b) a##_##b
#define SIMD_JOIN(a, b)  SIMD_JOIN_(a, b)
#define SIMD(symbol)     SIMD_JOIN(symbol, SIMD_NAME)

simd_loop SIMD(embed_forward), SIMD(embed_tokens), SIMD(embed_positions);
simd_loop SIMD(norm_forward), SIMD(norm_input), SIMD(norm_parameters);
simd_loop SIMD(column_sums);
simd_loop SIMD(gelu_forward), SIMD(gelu_backward);
simd_loop SIMD(residual);
simd_loop SIMD(attention_forward), SIMD(attention_backward_queries), SIMD(attention_backward_keys);
simd_loop SIMD(loss), SIMD(loss_backward);
simd_loop SIMD(squares), SIMD(round_squares), SIMD(round), SIMD(widen);
simd_loop SIMD(adamw);
extern const struct cpu_simd SIMD(cpu_simd);

#endif
