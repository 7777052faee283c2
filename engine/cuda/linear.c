/* The matrix products of linear layers and of the classifier. */
#include "engine/cuda/kernels.h"
#include "engine/cuda/products.h"

static void multiply(const void *context, struct product_shape shape, struct product product)
{
    cuda_products_run(cuda_context_of(context)->products, &shape, &product);
}

/* y[N,O] = x[N,I] weight[I,O] + bias[O] */
static struct product_shape forward_shape(enum model_precision precision, uint32_t N, uint32_t I,
                                          uint32_t O, enum product_epilogue epilogue)
{
    return (struct product_shape){.M = N,
                                  .N = O,
                                  .K = I,
                                  .in = (uint8_t)precision,
                                  .out = (uint8_t)precision,
                                  .epilogue = (uint8_t)epilogue};
}

void cuda_linear_forward(const void *context, enum model_precision precision, uint32_t N,
                         uint32_t I, uint32_t O, const void *x, const void *weight,
                         const void *bias, void *y)
{
    multiply(context, forward_shape(precision, N, I, O, PRODUCT_BIAS),
             (struct product){.a = x, .b = weight, .bias = bias, .c = y});
}

bool cuda_linear_gelu(const void *context, enum model_precision precision, uint32_t N, uint32_t I,
                      uint32_t O, const void *x, const void *weight, const void *bias, void *pre,
                      void *y)
{
    struct product_shape fused = forward_shape(precision, N, I, O, PRODUCT_GELU);
    if (!cuda_products_have(cuda_context_of(context)->products, &fused))
        return false;
    multiply(context, fused,
             (struct product){.a = x, .b = weight, .bias = bias, .c = y, .pre = pre});
    return true;
}

bool cuda_linear_residual(const void *context, enum model_precision precision, uint32_t N,
                          uint32_t I, uint32_t O, const void *x, const void *weight,
                          const void *bias, const void *residual, void *y)
{
    struct product_shape fused = forward_shape(precision, N, I, O, PRODUCT_RESIDUAL);
    if (!cuda_products_have(cuda_context_of(context)->products, &fused))
        return false;
    multiply(context, fused,
             (struct product){.a = x, .b = weight, .bias = bias, .residual = residual, .c = y});
    return true;
}

void cuda_linear_backward_input(const void *context, enum model_precision precision, uint32_t N,
                                uint32_t I, uint32_t O, const void *dy, const void *weight,
                                void *dx)
{
    multiply(context,
             (struct product_shape){.M = N,
                                    .N = I,
                                    .K = O,
                                    .transposed_b = true,
                                    .in = (uint8_t)precision,
                                    .out = (uint8_t)precision},
             (struct product){.a = dy, .b = weight, .c = dx});
}

/* dweight = a^T b */
static void multiply_weight(const void *context, struct product_shape shape, const void *a,
                            const void *b, enum kernel_gradient gradient, void *dweight,
                            double *squares)
{
    bool half = gradient == KERNEL_GRADIENT_SET_BF16 || gradient == KERNEL_GRADIENT_ADD_BF16;
    enum model_precision stored = half ? MODEL_BF16 : MODEL_FP32;
    shape.transposed_a = true;
    shape.out = (uint8_t)stored;
    shape.epilogue = gradient == KERNEL_GRADIENT_ADD ? PRODUCT_ADD : PRODUCT_PLAIN;
    multiply(context, shape, (struct product){.a = a, .b = b, .c = dweight});
    if (squares)
        cuda_sum_squares(context, stored, (uint64_t)shape.M * shape.N, dweight, squares);
}

void cuda_linear_backward_weight(const void *context, enum model_precision precision, uint32_t N,
                                 uint32_t I, uint32_t O, const void *x, const void *dy,
                                 enum kernel_gradient gradient, float *workspace, void *dweight,
                                 double *squares)
{
    (void)workspace;
    multiply_weight(context,
                    (struct product_shape){.M = I, .N = O, .K = N, .in = (uint8_t)precision}, x, dy,
                    gradient, dweight, squares);
}

/* logits[N,V] = x[N,H] weight[V,H]^T, rows of logits apart */
void cuda_classifier_forward(const void *context, enum model_precision precision, uint32_t N,
                             uint32_t H, uint32_t V, const void *x, const void *weight,
                             void *logits)
{
    multiply(context,
             (struct product_shape){.M = N,
                                    .N = V,
                                    .K = H,
                                    .c_row = model_logits_row(V),
                                    .transposed_b = true,
                                    .in = (uint8_t)precision,
                                    .out = (uint8_t)precision},
             (struct product){.a = x, .b = weight, .c = logits});
}

void cuda_classifier_backward_input(const void *context, enum model_precision precision, uint32_t N,
                                    uint32_t H, uint32_t V, const void *dlogits, const void *weight,
                                    void *dx)
{
    multiply(context,
             (struct product_shape){.M = N,
                                    .N = H,
                                    .K = V,
                                    .a_row = model_logits_row(V),
                                    .in = (uint8_t)precision,
                                    .out = (uint8_t)precision},
             (struct product){.a = dlogits, .b = weight, .c = dx});
}

void cuda_classifier_backward_weight(const void *context, enum model_precision precision,
                                     uint32_t N, uint32_t H, uint32_t V, const void *x,
                                     const void *dlogits, enum kernel_gradient gradient,
                                     float *workspace, void *dweight, double *squares)
{
    (void)workspace;
    multiply_weight(
        context,
        (struct product_shape){
            .M = V, .N = H, .K = N, .a_row = model_logits_row(V), .in = (uint8_t)precision},
        dlogits, x, gradient, dweight, squares);
}
