#include "engine/cpu/context.h"
#include "engine/cpu/kernels.h"

enum { BLOCKS = 64 }; /* of rows: the order of the sum, whatever the threads */

static double mean_loss(const struct cpu_context *cpu, simd_loop *loop, struct simd_loss arguments)
{
    double losses[BLOCKS], sum = 0;
    arguments.blocks = BLOCKS;
    arguments.losses = losses;
    cpu_parallel(cpu, loop, &arguments, BLOCKS, 1);
    for (int block = 0; block < BLOCKS; block++)
        sum += losses[block];
    return sum / arguments.N;
}

void cpu_loss(const void *context, enum model_precision precision, uint32_t N, uint32_t V,
              const uint32_t *targets, const void *logits, double *loss)
{
    const struct cpu_context *cpu = context;
    struct simd_loss arguments = {.precision = precision,
                                  .N = N,
                                  .V = V,
                                  .row = model_logits_row(V),
                                  .targets = targets,
                                  .logits = logits};
    *loss = mean_loss(cpu, cpu->simd->loss, arguments);
}

void cpu_loss_backward(const void *context, enum model_precision precision, uint32_t N, uint32_t V,
                       const uint32_t *targets, double divisor, void *logits, double *loss)
{
    const struct cpu_context *cpu = context;
    struct simd_loss arguments = {
        .precision = precision,
        .N = N,
        .V = V,
        .row = model_logits_row(V),
        .targets = targets,
        .scale = (float)(1 / divisor),
        .logits = logits,
        .gradient = logits,
    };
    *loss = mean_loss(cpu, cpu->simd->loss_backward, arguments);
}
