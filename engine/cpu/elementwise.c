#include "engine/cpu/context.h"
#include "engine/cpu/kernels.h"

void cpu_gelu_forward(const void *context, enum model_precision precision, uint64_t elements,
                      const void *pre, void *y)
{
    const struct cpu_context *cpu = context;
    struct simd_gelu arguments = {precision, pre, y};
    cpu_parallel(cpu, cpu->simd->gelu_forward, &arguments, elements, SIMD_TILE);
}

void cpu_gelu_backward(const struct cpu_context *cpu, enum model_precision precision,
                       uint64_t elements, const void *pre, void *dy)
{
    struct simd_gelu arguments = {precision, pre, dy};
    cpu_parallel(cpu, cpu->simd->gelu_backward, &arguments, elements, SIMD_TILE);
}

void cpu_gelu_backward_bias(const void *context, enum model_precision precision, uint32_t N,
                            uint32_t O, const void *pre, void *dy, enum kernel_gradient gradient,
                            void *dbias)
{
    cpu_gelu_backward(context, precision, (uint64_t)N * O, pre, dy);
    cpu_linear_backward_bias(context, precision, N, O, dy, gradient, dbias);
}

void cpu_residual_forward(const void *context, enum model_precision precision, uint32_t N,
                          uint32_t H, const void *residual, const struct kernel_dropout *dropout,
                          void *y)
{
    const struct cpu_context *cpu = context;
    struct simd_residual arguments = {precision, H, residual, y, cpu_dropout_of(dropout), y};
    cpu_parallel(cpu, cpu->simd->residual, &arguments, N, 1);
}

void cpu_dropout_backward(const void *context, enum model_precision precision, uint32_t N,
                          uint32_t H, const struct kernel_dropout *dropout, const void *dy,
                          void *masked)
{
    const struct cpu_context *cpu = context;
    struct simd_residual arguments = {precision, H, NULL, dy, cpu_dropout_of(dropout), masked};
    cpu_parallel(cpu, cpu->simd->residual, &arguments, N, 1);
}
