#include "engine/cpu/context.h"
#include "engine/cpu/kernels.h"

void cpu_norm_forward(const void *context, enum model_precision precision, uint32_t N, uint32_t H,
                      double epsilon, const void *weight, const void *bias, const void *x, void *y,
                      float *stats)
{
    const struct cpu_context *cpu = context;
    struct simd_norm_forward arguments = {precision, N, H, (float)epsilon, weight,
                                          bias,      x, y, stats};
    cpu_parallel(cpu, cpu->simd->norm_forward, &arguments, N, 1);
}

void cpu_norm_backward_input(const void *context, enum model_precision precision, uint32_t N,
                             uint32_t H, const void *weight, const void *dy, const void *x,
                             const float *stats, bool add, void *dx)
{
    const struct cpu_context *cpu = context;
    struct simd_norm_input arguments = {precision, N, H, weight, dy, x, stats, add, dx};
    cpu_parallel(cpu, cpu->simd->norm_input, &arguments, N, 1);
}

void cpu_norm_backward_parameters(const void *context, enum model_precision precision, uint32_t N,
                                  uint32_t H, const void *dy, const void *x, const float *stats,
                                  enum kernel_gradient gradient, void *dweight, void *dbias)
{
    const struct cpu_context *cpu = context;
    struct simd_norm_parameters arguments = {precision, N,        H,       dy,   x,
                                             stats,     gradient, dweight, dbias};
    cpu_parallel(cpu, cpu->simd->norm_parameters, &arguments, simd_tiles(H), 1);
}
