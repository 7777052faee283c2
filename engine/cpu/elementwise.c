#include "engine/cpu/context.h"
#include "engine/cpu/kernels.h"

void cpu_gelu_forward(const struct cpu_context *cpu, enum model_precision precision,
                      uint64_t elements, const void *pre, void *y)
{
    struct simd_gelu arguments = {precision, pre, y};
    cpu_parallel(cpu, cpu->simd->gelu_forward, &arguments, elements, SIMD_TILE);
}

void cpu_gelu_backward(const struct cpu_context *cpu, enum model_precision precision,
                       uint64_t elements, const void *pre, void *dy)
{
    struct simd_gelu arguments = {precision, pre, dy};
    cpu_parallel(cpu, cpu->simd->gelu_backward, &arguments, elements, SIMD_TILE);
}

void cpu_residual_forward(const struct cpu_context *cpu, enum model_precision precision, uint32_t N,
                          uint32_t H, const void *residual, const struct kernel_dropout *dropout,
                          void *y)
{
    struct simd_residual arguments = {precision, H, residual, y, cpu_dropout_of(dropout), y};
    cpu_parallel(cpu, cpu->simd->residual, &arguments, N, 1);
}

void cpu_dropout_backward(const struct cpu_context *cpu, enum model_precision precision, uint32_t N,
                          uint32_t H, const struct kernel_dropout *dropout, const void *dy,
                          void *masked)
{
    struct simd_residual arguments = {precision, H, NULL, dy, cpu_dropout_of(dropout), masked};
    cpu_parallel(cpu, cpu->simd->residual, &arguments, N, 1);
}
