#include "fixture.h"

#include "engine/bf16.h"
#include <inttypes.h>
#include <math.h>

static double random_normal_value(void)
{
    double radius = sqrt(-2 * log(g_test_rand_double_range(1e-9, 1)));
    return radius * cos(g_test_rand_double_range(0, 6.283185307179586));
}

static uint64_t element_bytes(enum model_precision precision)
{
    return precision == MODEL_BF16 ? sizeof(uint16_t) : sizeof(float);
}

uint64_t tensor_bytes(const struct tensor *tensor)
{
    return tensor->elements * element_bytes(tensor->precision);
}

void tensor_read(struct tensor *tensor)
{
    for (uint64_t i = 0; i < tensor->elements; i++)
        tensor->value[i] = tensor->precision == MODEL_BF16
                               ? (double)bf16_widen(((uint16_t *)tensor->data)[i])
                               : (double)((float *)tensor->data)[i];
}

struct tensor *tensor_from(enum model_precision precision, uint64_t elements, const double *values)
{
    struct tensor *tensor = g_new(struct tensor, 1);
    *tensor = (struct tensor){precision, elements, NULL, g_new(double, elements)};
    tensor->data = g_malloc(tensor_bytes(tensor));
    for (uint64_t i = 0; i < elements; i++)
        if (precision == MODEL_BF16)
            ((uint16_t *)tensor->data)[i] = bf16_round((float)values[i]);
        else
            ((float *)tensor->data)[i] = (float)values[i];
    tensor_read(tensor);
    return tensor;
}

struct tensor *tensor_random(enum model_precision precision, uint64_t elements, double deviation)
{
    double *values = zeros(elements);
    for (uint64_t i = 0; i < elements; i++)
        values[i] = deviation * random_normal_value();
    struct tensor *tensor = tensor_from(precision, elements, values);
    g_free(values);
    return tensor;
}

struct tensor *tensor_unset(enum model_precision precision, uint64_t elements)
{
    double *values = zeros(elements);
    for (uint64_t i = 0; i < elements; i++)
        values[i] = NAN;
    struct tensor *tensor = tensor_from(precision, elements, values);
    g_free(values);
    return tensor;
}

void tensor_free(struct tensor *tensor)
{
    g_free(tensor->data);
    g_free(tensor->value);
    g_free(tensor);
}

void assert_close_for(struct tensor *tensor, const double *expected, const double *terms,
                      double tolerance, const char *what)
{
    double error = 0, norm = 0, greatest_error = 0, greatest = 0;
    double half_unit = tensor->precision == MODEL_BF16 ? 0x1p-8 : 0;
    tensor_read(tensor);
    for (uint64_t i = 0; i < tensor->elements; i++) {
        double difference = fabs(tensor->value[i] - expected[i]);
        if (isnan(difference))
            g_error("%s: element %" PRIu64 " is %g, not %g", what, i, tensor->value[i],
                    expected[i]);
        difference = fmax(0, difference - half_unit * fabs(expected[i]));
        error += difference * difference;
        norm += terms[i] * terms[i];
        greatest_error = fmax(greatest_error, difference);
        greatest = fmax(greatest, fabs(terms[i]));
    }
    if (sqrt(error) > tolerance * sqrt(norm) || greatest_error > 16 * tolerance * greatest)
        g_error("%s: off by %.3g of the norm, by %.3g of the greatest at worst (%.3g allowed)",
                what, sqrt(error / norm), greatest_error / greatest, tolerance);
}

void assert_close(struct tensor *tensor, const double *expected, double tolerance, const char *what)
{
    assert_close_for(tensor, expected, expected, tolerance, what);
}

/* Runs the kernel in one context, from the outputs' first contents. The first run's results are
 * kept, and later runs must give the same. */
static void run_in(struct cpu_context *cpu, kernel_run *run, void *argument,
                   struct tensor *const *outputs, unsigned count, void **before, void **after)
{
    for (unsigned i = 0; i < count; i++)
        memcpy(outputs[i]->data, before[i], tensor_bytes(outputs[i]));
    run(cpu, argument);
    for (unsigned i = 0; i < count; i++)
        if (!after[i])
            after[i] = g_memdup2(outputs[i]->data, tensor_bytes(outputs[i]));
        else if (memcmp(after[i], outputs[i]->data, tensor_bytes(outputs[i])) != 0)
            g_error("output %u: other bits with %s and %u threads", i, cpu_context_simd(cpu),
                    cpu_context_threads(cpu));
}

void run_everywhere(kernel_run *run, void *argument, struct tensor *const *outputs,
                    unsigned output_count)
{
    static const unsigned threads[] = {1, 2, 3, 7};
    void *before[4], *after[4] = {NULL};
    g_assert(output_count <= G_N_ELEMENTS(before));
    for (unsigned i = 0; i < output_count; i++)
        before[i] = g_memdup2(outputs[i]->data, tensor_bytes(outputs[i]));
    for (const struct cpu_simd *const *simd = cpu_simd_list(); *simd; simd++)
        for (unsigned t = 0; t < G_N_ELEMENTS(threads); t++) {
            struct cpu_context *cpu = cpu_context_with(threads[t], *simd);
            run_in(cpu, run, argument, outputs, output_count, before, after);
            cpu_context_free(cpu);
        }
    for (unsigned i = 0; i < output_count; i++) {
        g_free(before[i]);
        g_free(after[i]);
    }
}

struct precision_case {
    precision_test *test;
    enum model_precision precision;
};

static void run_precision_case(gconstpointer data)
{
    const struct precision_case *with = data;
    with->test(with->precision);
}

static void add_precision_case(const char *path, const char *suffix, precision_test *test,
                               enum model_precision precision)
{
    struct precision_case *with = g_new(struct precision_case, 1);
    char *name = g_strdup_printf("%s/%s", path, suffix);
    *with = (struct precision_case){test, precision};
    g_test_add_data_func_full(name, with, run_precision_case, g_free);
    g_free(name);
}

void add_precision_test(const char *path, precision_test *test)
{
    add_precision_case(path, "fp32", test, MODEL_FP32);
    add_precision_case(path, "bf16", test, MODEL_BF16);
}

enum model_precision gradient_precision(enum kernel_gradient gradient)
{
    return kernel_gradient_is_half(gradient) ? MODEL_BF16 : MODEL_FP32;
}

uint32_t random_token(uint32_t below)
{
    return (uint32_t)g_test_rand_int_range(0, (gint32)below);
}

uint32_t *random_tokens(uint32_t count, uint32_t below)
{
    uint32_t *tokens = g_new(uint32_t, count);
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = random_token(below);
    return tokens;
}

double *zeros(uint64_t count)
{
    return g_new0(double, count);
}

double *dropout_mask(const struct kernel_dropout *dropout, uint64_t rows, uint32_t columns)
{
    double *mask = zeros(rows * columns);
    uint64_t stride = (columns + 63) / 64 * 64;
    for (uint64_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < columns; c++) {
            double word = dropout ? random_word(&dropout->stream, r * stride + c) : 0;
            double p = dropout ? dropout->probability : 0;
            mask[r * columns + c] = word >= floor(p * 0x1p32) ? 1 / (1 - p) : 0;
        }
    return mask;
}

void assert_gradient(loss_function *loss, const void *argument, const double *at,
                     const double *gradient, uint64_t elements)
{
    const double h = 1e-5;
    double *moved = g_memdup2(at, elements * sizeof *at);
    for (int trial = 0; trial < 40; trial++) {
        uint32_t i = random_token((uint32_t)elements);
        moved[i] = at[i] + h;
        double above = loss(moved, argument);
        moved[i] = at[i] - h;
        double below = loss(moved, argument);
        moved[i] = at[i];
        double slope = (above - below) / (2 * h);
        if (!(fabs(slope - gradient[i]) <= 1e-7 * (1 + fabs(slope))))
            g_error("the reference's gradient %u is %.10g, by differences %.10g", i, gradient[i],
                    slope);
    }
    g_free(moved);
}
