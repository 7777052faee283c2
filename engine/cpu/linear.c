#include "engine/cpu/context.h"
#include "engine/cpu/kernels.h"

void cpu_linear_forward(struct cpu_context *cpu, enum model_precision precision, uint32_t N,
                        uint32_t I, uint32_t O, const void *x, const void *weight, const void *bias,
                        void *y)
{
    struct matmul_shape shape = {
        .M = N, .N = O, .K = I, .in = precision, .out = precision, .bias = true};
    matmul_run(cpu->matmul, &shape, x, weight, bias, y);
}

void cpu_linear_backward_input(struct cpu_context *cpu, enum model_precision precision, uint32_t N,
                               uint32_t I, uint32_t O, const void *dy, const void *weight, void *dx)
{
    struct matmul_shape shape = {
        .M = N, .N = I, .K = O, .transposed_b = true, .in = precision, .out = precision};
    matmul_run(cpu->matmul, &shape, dy, weight, NULL, dx);
}

void cpu_linear_backward_weight(struct cpu_context *cpu, enum model_precision precision, uint32_t N,
                                uint32_t I, uint32_t O, const void *x, const void *dy, bool add,
                                float *dweight)
{
    struct matmul_shape shape = {.M = I,
                                 .N = O,
                                 .K = N,
                                 .transposed_a = true,
                                 .in = precision,
                                 .out = MODEL_FP32,
                                 .add = add};
    matmul_run(cpu->matmul, &shape, x, dy, NULL, dweight);
}

void cpu_linear_backward_bias(const struct cpu_context *cpu, enum model_precision precision,
                              uint32_t N, uint32_t O, const void *dy, enum kernel_gradient gradient,
                              void *dbias)
{
    struct simd_column_sums arguments = {precision, N, O, dy, gradient, dbias};
    cpu_parallel(cpu, cpu->simd->column_sums, &arguments, simd_tiles(O), 1);
}

void cpu_classifier_forward(struct cpu_context *cpu, enum model_precision precision, uint32_t N,
                            uint32_t H, uint32_t V, const void *x, const void *weight, void *logits)
{
    struct matmul_shape shape = {.M = N,
                                 .N = V,
                                 .K = H,
                                 .c_row = model_logits_row(V),
                                 .transposed_b = true,
                                 .in = precision,
                                 .out = precision};
    matmul_run(cpu->matmul, &shape, x, weight, NULL, logits);
}

void cpu_classifier_backward_input(struct cpu_context *cpu, enum model_precision precision,
                                   uint32_t N, uint32_t H, uint32_t V, const void *dlogits,
                                   const void *weight, void *dx)
{
    struct matmul_shape shape = {
        .M = N, .N = H, .K = V, .a_row = model_logits_row(V), .in = precision, .out = precision};
    matmul_run(cpu->matmul, &shape, dlogits, weight, NULL, dx);
}

void cpu_classifier_backward_weight(struct cpu_context *cpu, enum model_precision precision,
                                    uint32_t N, uint32_t H, uint32_t V, const void *x,
                                    const void *dlogits, bool add, float *dweight)
{
    struct matmul_shape shape = {.M = V,
                                 .N = H,
                                 .K = N,
                                 .a_row = model_logits_row(V),
                                 .transposed_a = true,
                                 .in = precision,
                                 .out = MODEL_FP32,
                                 .add = add};
    matmul_run(cpu->matmul, &shape, dlogits, x, NULL, dweight);
}
