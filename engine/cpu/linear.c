#include "engine/cpu/context.h"
#include "engine/cpu/kernels.h"

void cpu_linear_forward(const void *context, enum model_precision precision, uint32_t N, uint32_t I,
                        uint32_t O, const void *x, const void *weight, const void *bias, void *y)
{
    const struct cpu_context *cpu = context;
    struct matmul_shape shape = {
        .M = N, .N = O, .K = I, .in = precision, .out = precision, .bias = true};
    matmul_run(cpu->matmul, &shape, x, weight, bias, y);
}

void cpu_linear_backward_input(const void *context, enum model_precision precision, uint32_t N,
                               uint32_t I, uint32_t O, const void *dy, const void *weight, void *dx)
{
    const struct cpu_context *cpu = context;
    struct matmul_shape shape = {
        .M = N, .N = I, .K = O, .transposed_b = true, .in = precision, .out = precision};
    matmul_run(cpu->matmul, &shape, dy, weight, NULL, dx);
}

/* c = a b in fp32: in `gradient`, or in the workspace for a gradient that is rounded once. */
static void weight_gradient(const struct cpu_context *cpu, struct matmul_shape shape, const void *a,
                            const void *b, enum kernel_gradient gradient, float *workspace,
                            void *dweight, double *squares)
{
    uint64_t elements = (uint64_t)shape.M * shape.N;
    shape.transposed_a = true;
    shape.out = MODEL_FP32;
    shape.add = gradient == KERNEL_GRADIENT_ADD;
    matmul_run(cpu->matmul, &shape, a, b, NULL, workspace ? workspace : dweight);
    if (workspace) {
        double sum = cpu_round_gradient(cpu, elements, workspace, dweight);
        if (squares)
            *squares = sum;
    } else if (squares) {
        cpu_sum_squares(cpu, MODEL_FP32, elements, dweight, squares);
    }
}

void cpu_linear_backward_weight(const void *context, enum model_precision precision, uint32_t N,
                                uint32_t I, uint32_t O, const void *x, const void *dy,
                                enum kernel_gradient gradient, float *workspace, void *dweight,
                                double *squares)
{
    struct matmul_shape shape = {.M = I, .N = O, .K = N, .in = precision};
    weight_gradient(context, shape, x, dy, gradient, workspace, dweight, squares);
}

void cpu_linear_backward_bias(const void *context, enum model_precision precision, uint32_t N,
                              uint32_t O, const void *dy, enum kernel_gradient gradient,
                              void *dbias)
{
    const struct cpu_context *cpu = context;
    struct simd_column_sums arguments = {precision, N, O, dy, gradient, dbias};
    cpu_parallel(cpu, cpu->simd->column_sums, &arguments, simd_tiles(O), 1);
}

void cpu_classifier_forward(const void *context, enum model_precision precision, uint32_t N,
                            uint32_t H, uint32_t V, const void *x, const void *weight, void *logits)
{
    const struct cpu_context *cpu = context;
    struct matmul_shape shape = {.M = N,
                                 .N = V,
                                 .K = H,
                                 .c_row = model_logits_row(V),
                                 .transposed_b = true,
                                 .in = precision,
                                 .out = precision};
    matmul_run(cpu->matmul, &shape, x, weight, NULL, logits);
}

void cpu_classifier_backward_input(const void *context, enum model_precision precision, uint32_t N,
                                   uint32_t H, uint32_t V, const void *dlogits, const void *weight,
                                   void *dx)
{
    const struct cpu_context *cpu = context;
    struct matmul_shape shape = {
        .M = N, .N = H, .K = V, .a_row = model_logits_row(V), .in = precision, .out = precision};
    matmul_run(cpu->matmul, &shape, dlogits, weight, NULL, dx);
}

void cpu_classifier_backward_weight(const void *context, enum model_precision precision, uint32_t N,
                                    uint32_t H, uint32_t V, const void *x, const void *dlogits,
                                    enum kernel_gradient gradient, float *workspace, void *dweight,
                                    double *squares)
{
    struct matmul_shape shape = {
        .M = V, .N = H, .K = N, .a_row = model_logits_row(V), .in = precision};
    weight_gradient(context, shape, dlogits, x, gradient, workspace, dweight, squares);
}
