#include "engine/cpu/context.h"

#include "engine/host/cores.h"

struct cpu_context *cpu_context_with(unsigned threads, const struct cpu_simd *simd)
{
    g_assert(threads >= 1);
    struct cpu_context *cpu = g_new0(struct cpu_context, 1);
    cpu->threads = threads;
    cpu->simd = simd;
    cpu->matmul = matmul_library_new(threads);
    return cpu;
}

struct cpu_context *cpu_context_new(unsigned threads)
{
    return cpu_context_with(threads, cpu_simd_list()[0]);
}

void cpu_context_keep_near(struct cpu_context *cpu, const struct nodes *nodes)
{
    cpu->nodes = nodes;
}

void cpu_context_free(struct cpu_context *cpu)
{
    if (!cpu)
        return;
    matmul_library_free(cpu->matmul);
    g_free(cpu);
}

unsigned cpu_context_threads(const struct cpu_context *cpu)
{
    return cpu->threads;
}

const char *cpu_context_simd(const struct cpu_context *cpu)
{
    return cpu->simd->name;
}

uint64_t cpu_context_scratch_bytes(const struct cpu_context *cpu)
{
    return matmul_library_bytes(cpu->matmul);
}

void cpu_parallel(const struct cpu_context *cpu, simd_loop *loop, const void *arguments,
                  uint64_t items, uint64_t grain)
{
    uint64_t threads = cpu->threads;
    uint64_t grains = (items + grain - 1) / grain;
    if (grains < threads)
        threads = grains;
#pragma omp parallel for num_threads(threads) schedule(static, 1) if (threads > 1)
    for (uint64_t part = 0; part < threads; part++) {
        uint64_t first = part * grains / threads * grain;
        uint64_t end = (part + 1) * grains / threads * grain;
        /* Each time: which thread has which part is the runtime's choice. */
        if (cpu->nodes)
            cores_bind(&cpu->nodes->cores[nodes_of_part(cpu->nodes, part, threads)]);
        loop(arguments, first, end < items ? end : items);
    }
}

void cpu_parallel_uneven(const struct cpu_context *cpu, simd_loop *loop, const void *arguments,
                         uint64_t items)
{
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic, 1) if (cpu->threads > 1)
    for (uint64_t item = 0; item < items; item++)
        loop(arguments, item, item + 1);
}

struct simd_dropout cpu_dropout_of(const struct kernel_dropout *dropout)
{
    if (!dropout || dropout->probability <= 0)
        return (struct simd_dropout){.scale = 0};
    g_assert(dropout->probability < 1);
    return (struct simd_dropout){
        .stream = dropout->stream,
        .threshold = (uint32_t)(dropout->probability * 0x1p32),
        .scale = (float)(1 / (1 - dropout->probability)),
    };
}

const struct kernels cpu_kernels = {
    .embed_forward = cpu_embed_forward,
    .embed_order = cpu_embed_order,
    .embed_tokens = cpu_embed_tokens,
    .embed_positions = cpu_embed_positions,
    .norm_forward = cpu_norm_forward,
    .norm_backward_input = cpu_norm_backward_input,
    .norm_backward_parameters = cpu_norm_backward_parameters,
    .linear_forward = cpu_linear_forward,
    .linear_backward_input = cpu_linear_backward_input,
    .linear_backward_weight = cpu_linear_backward_weight,
    .linear_backward_bias = cpu_linear_backward_bias,
    .classifier_forward = cpu_classifier_forward,
    .classifier_backward_input = cpu_classifier_backward_input,
    .classifier_backward_weight = cpu_classifier_backward_weight,
    .gelu_forward = cpu_gelu_forward,
    .gelu_backward_bias = cpu_gelu_backward_bias,
    .residual_forward = cpu_residual_forward,
    .dropout_backward = cpu_dropout_backward,
    .attention_forward = cpu_attention_forward,
    .attention_backward = cpu_attention_backward,
    .loss = cpu_loss,
    .loss_backward = cpu_loss_backward,
    .sum_squares = cpu_sum_squares,
    .clip = cpu_clip,
    .adamw = cpu_adamw,
};
