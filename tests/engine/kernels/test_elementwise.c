/* GELU, residual connections and dropout. */
#include "fixture.h"

#include <math.h>

struct elementwise {
    enum model_activation of;
    uint32_t N, H;
    struct tensor *from, *y;
    const struct kernel_dropout *dropout;
};

static double gelu(enum model_activation of, double x)
{
    if (of == MODEL_GELU_EXACT)
        return 0.5 * x * erfc(-x / sqrt(2));
    return 0.5 * x * (1 + tanh(sqrt(2 / G_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(enum model_activation of, double x)
{
    if (of == MODEL_GELU_EXACT)
        return 0.5 * erfc(-x / sqrt(2)) + x * exp(-0.5 * x * x) / sqrt(2 * G_PI);
    double t = tanh(sqrt(2 / G_PI) * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / G_PI) * (1 + 3 * 0.044715 * x * x);
}

static const enum model_activation forms[] = {MODEL_GELU_TANH, MODEL_GELU_EXACT};

static double gelu_loss(const double *x, const void *argument)
{
    return gelu(*(const enum model_activation *)argument, *x);
}

static void gelu_reference_agrees_with_differences(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(forms); i++)
        for (double x = -4; x < 4; x += 0.37) {
            double slope = gelu_slope(forms[i], x);
            assert_gradient(gelu_loss, &forms[i], &x, &slope, 1);
        }
}

static void run_gelu_forward(struct cpu_context *cpu, void *argument)
{
    struct elementwise *e = argument;
    cpu_gelu_forward(cpu, e->y->precision, e->of, e->y->elements, e->from->data, e->y->data);
}

static void run_gelu_backward(struct cpu_context *cpu, void *argument)
{
    struct elementwise *e = argument;
    cpu_gelu_backward(cpu, e->y->precision, e->of, e->y->elements, e->from->data, e->y->data);
}

/* A single value is at least 0: at -0.75 the slope is 0, and any rounding is many times the
 * result. */
static struct tensor *gelu_values(enum model_precision precision, uint64_t elements,
                                  double deviation)
{
    struct tensor *random = tensor_random(precision, elements, deviation);
    if (elements > 1)
        return random;
    double value = fabs(random->value[0]);
    tensor_free(random);
    return tensor_from(precision, 1, &value);
}

static void check_gelu(enum model_activation of, enum model_precision precision, uint64_t elements,
                       double deviation)
{
    struct elementwise e = {.of = of,
                            .from = gelu_values(precision, elements, deviation),
                            .y = tensor_unset(precision, elements)};
    double *y = zeros(elements), *dx = zeros(elements);
    for (uint64_t i = 0; i < elements; i++)
        y[i] = gelu(of, e.from->value[i]);
    run_everywhere(run_gelu_forward, &e, &e.y, 1);
    assert_close(e.y, y, 1e-6, "gelu");
    tensor_free(e.y);
    e.y = tensor_random(precision, elements, 1);
    for (uint64_t i = 0; i < elements; i++)
        dx[i] = e.y->value[i] * gelu_slope(of, e.from->value[i]);
    run_everywhere(run_gelu_backward, &e, &e.y, 1);
    assert_close(e.y, dx, 1e-6, "gelu's gradient");
    tensor_free(e.from);
    tensor_free(e.y);
    g_free(y);
    g_free(dx);
}

static void gelus(enum model_precision precision)
{
    static const uint64_t sizes[] = {1, 17, 64, 1000, 4096 + 3};
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        for (unsigned f = 0; f < G_N_ELEMENTS(forms); f++) {
            check_gelu(forms[f], precision, sizes[i], 1);
            if (sizes[i] > 17) /* a few elements may all be far below zero */
                check_gelu(forms[f], precision, sizes[i], 30);
        }
    }
}

static void run_residual(struct cpu_context *cpu, void *argument)
{
    struct elementwise *e = argument;
    cpu_residual_forward(cpu, e->y->precision, e->N, e->H, e->from->data, e->dropout, e->y->data);
}

static void run_dropout_backward(struct cpu_context *cpu, void *argument)
{
    struct elementwise *e = argument;
    cpu_dropout_backward(cpu, e->y->precision, e->N, e->H, e->dropout, e->from->data, e->y->data);
}

static void check_residual(enum model_precision precision, uint32_t N, uint32_t H,
                           const struct kernel_dropout *dropout)
{
    uint64_t elements = (uint64_t)N * H;
    struct elementwise e = {.N = N,
                            .H = H,
                            .from = tensor_random(precision, elements, 1),
                            .y = tensor_random(precision, elements, 1),
                            .dropout = dropout};
    double *mask = dropout_mask(dropout, N, H), *y = zeros(elements), *masked = zeros(elements);
    for (uint64_t i = 0; i < elements; i++) {
        y[i] = e.from->value[i] + mask[i] * e.y->value[i];
        masked[i] = mask[i] * e.from->value[i];
    }
    run_everywhere(run_residual, &e, &e.y, 1);
    assert_close(e.y, y, 1e-6, "residual");
    run_everywhere(run_dropout_backward, &e, &e.y, 1);
    assert_close(e.y, masked, 1e-6, "masked");
    tensor_free(e.from);
    tensor_free(e.y);
    g_free(mask);
    g_free(y);
    g_free(masked);
}

static void residuals(enum model_precision precision)
{
    static const uint32_t sizes[][2] = {{1, 17}, {17, 65}, {3, 128}, {70, 33}};
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        struct kernel_dropout dropout = {{(uint64_t)g_test_rand_int() << 20, random_token(1000), 9},
                                         0.3};
        check_residual(precision, sizes[i][0], sizes[i][1], &dropout);
        check_residual(precision, sizes[i][0], sizes[i][1], NULL);
    }
}

/* Far from zero the gate is exactly 0 or 1. */
static void gelu_has_its_limits(void)
{
    float x[] = {-1e30f, -100, -20, 20, 100, 1e10f, 0, -0.0f}, y[8];
    struct cpu_context *cpu = cpu_context_new(1);
    for (unsigned f = 0; f < G_N_ELEMENTS(forms); f++) {
        cpu_gelu_forward(cpu, MODEL_FP32, forms[f], G_N_ELEMENTS(x), x, y);
        for (unsigned i = 0; i < 3; i++)
            g_assert_cmpfloat(fabsf(y[i]), <, 1e-7f);
        for (unsigned i = 3; i < 6; i++)
            g_assert_cmpfloat(y[i], ==, x[i]);
        g_assert_cmpfloat(y[6], ==, 0);
        g_assert_cmpfloat(y[7], ==, 0);
    }
    cpu_context_free(cpu);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/gelu/reference", gelu_reference_agrees_with_differences);
    g_test_add_func("/gelu/limits", gelu_has_its_limits);
    add_precision_test("/gelu", gelus);
    add_precision_test("/residual", residuals);
    return g_test_run();
}
