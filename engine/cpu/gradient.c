#include "engine/cpu/context.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/pairwise.h"

enum { GRAIN = 1024 };

/* Blocks depend on the number of elements alone: so does the order of the sum. */
static double sum_of_blocks(const struct cpu_context *cpu, simd_loop *loop,
                            struct simd_squares arguments)
{
    double sums[KERNEL_SQUARES_BLOCKS] = {0};
    uint64_t tiles = (arguments.elements + SIMD_TILE - 1) / SIMD_TILE;
    arguments.block = (tiles + KERNEL_SQUARES_BLOCKS - 1) / KERNEL_SQUARES_BLOCKS * SIMD_TILE;
    arguments.sums = sums;
    if (tiles == 0)
        return 0;
    uint64_t blocks = (arguments.elements + arguments.block - 1) / arguments.block;
    cpu_parallel(cpu, loop, &arguments, blocks, 1);
    return pairwise_sum(KERNEL_SQUARES_BLOCKS, sums);
}

void cpu_sum_squares(const void *context, enum model_precision precision, uint64_t elements,
                     const void *gradient, double *sum)
{
    const struct cpu_context *cpu = context;
    struct simd_squares arguments = {
        .precision = precision, .elements = elements, .values = gradient};
    *sum = sum_of_blocks(cpu, cpu->simd->squares, arguments);
}

double cpu_round_gradient(const struct cpu_context *cpu, uint64_t elements, const float *values,
                          uint16_t *rounded)
{
    struct simd_squares arguments = {
        .precision = MODEL_FP32, .elements = elements, .values = values, .rounded = rounded};
    return sum_of_blocks(cpu, cpu->simd->round_squares, arguments);
}

void cpu_clip(const void *context, uint32_t count, const double *squares, double clip,
              double *scale)
{
    double sum = 0;
    (void)context;
    for (uint32_t i = 0; i < count; i++)
        sum += squares[i];
    *scale = adamw_clip(sum, clip);
}

void cpu_adamw(const void *context, const struct adamw_step *step, const double *scale,
               const struct adamw_tensor *tensor)
{
    const struct cpu_context *cpu = context;
    struct simd_adamw arguments = {*step, *tensor};
    if (scale)
        arguments.step.gradient_scale = (float)*scale;
    cpu_parallel(cpu, cpu->simd->adamw, &arguments, tensor->elements, GRAIN);
}

void cpu_round(const struct cpu_context *cpu, uint64_t elements, const float *values,
               uint16_t *rounded)
{
    struct simd_convert arguments = {values, rounded};
    cpu_parallel(cpu, cpu->simd->round, &arguments, elements, GRAIN);
}

void cpu_widen(const struct cpu_context *cpu, uint64_t elements, const uint16_t *halves,
               float *values)
{
    struct simd_convert arguments = {halves, values};
    cpu_parallel(cpu, cpu->simd->widen, &arguments, elements, GRAIN);
}
