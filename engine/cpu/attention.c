#include "engine/cpu/context.h"
#include "engine/cpu/kernels.h"

void cpu_attention_forward(const void *context, enum model_precision precision, uint32_t B,
                           uint32_t T, uint32_t A, uint32_t D, const void *qkv,
                           const struct kernel_dropout *dropout, void *o, float *lse)
{
    const struct cpu_context *cpu = context;
    g_assert(D <= CPU_HEAD_LIMIT);
    struct simd_attention arguments = {
        .precision = precision,
        .T = T,
        .A = A,
        .D = D,
        .qkv = qkv,
        .dropout = cpu_dropout_of(dropout),
        .o = o,
        .lse = lse,
    };
    cpu_parallel_uneven(cpu, cpu->simd->attention_forward, &arguments,
                        (uint64_t)B * A * simd_tiles(T));
}

void cpu_attention_backward(const void *context, enum model_precision precision, uint32_t B,
                            uint32_t T, uint32_t A, uint32_t D, const void *dout, const void *qkv,
                            const void *o, const float *lse, const struct kernel_dropout *dropout,
                            void *dqkv)
{
    const struct cpu_context *cpu = context;
    g_assert(D <= CPU_HEAD_LIMIT);
    struct simd_attention arguments = {
        .precision = precision,
        .T = T,
        .A = A,
        .D = D,
        .qkv = qkv,
        .dout = dout,
        .o_read = o,
        .lse_read = lse,
        .dropout = cpu_dropout_of(dropout),
        .dqkv = dqkv,
    };
    uint64_t items = (uint64_t)B * A * simd_tiles(T);
    cpu_parallel_uneven(cpu, cpu->simd->attention_backward_queries, &arguments, items);
    cpu_parallel_uneven(cpu, cpu->simd->attention_backward_keys, &arguments, items);
}
