/* Products of linear layers and of the classifier, and the path for machines without bf16. */
#include "engine/cpu/matmul.h"
#include "fixture.h"

#include <math.h>

/* Returns c[M,N] = a b + bias; a and b may be stored transposed. */
static double *reference(uint32_t M, uint32_t N, uint32_t K, const double *a, bool transposed_a,
                         const double *b, bool transposed_b, const double *bias)
{
    double *c = zeros((uint64_t)M * N);
    for (uint32_t m = 0; m < M; m++)
        for (uint32_t n = 0; n < N; n++) {
            double sum = bias ? bias[n] : 0;
            for (uint32_t k = 0; k < K; k++)
                sum += (transposed_a ? a[k * M + m] : a[m * K + k]) *
                       (transposed_b ? b[n * K + k] : b[k * N + n]);
            c[m * N + n] = sum;
        }
    return c;
}

static const struct {
    uint32_t N, I, O;
} shapes[] = {{1, 1, 1}, {17, 33, 5}, {64, 48, 96}, {3, 129, 257}, {130, 64, 1}};

static const double tolerance = 1e-5;

/* Asserts that the tensor holds `sums` of products and addends, which repeat. A single sum may be a
 * small difference of the two. */
static void assert_close_sums(struct tensor *tensor, const double *sums,
                              const struct tensor *addends, const char *what)
{
    double *terms = zeros(tensor->elements);
    for (uint64_t i = 0; i < tensor->elements; i++) {
        double addend = addends->value[i % addends->elements];
        terms[i] = fabs(addend) + fabs(sums[i] - addend);
    }
    assert_close_for(tensor, sums, terms, tolerance, what);
    g_free(terms);
}

static void check_linear(enum model_precision precision, uint32_t N, uint32_t I, uint32_t O)
{
    struct cpu_context *cpu = cpu_context_new(2);
    struct tensor *x = tensor_random(precision, (uint64_t)N * I, 1);
    struct tensor *weight = tensor_random(precision, (uint64_t)I * O, 1);
    struct tensor *bias = tensor_random(precision, O, 1);
    struct tensor *dy = tensor_random(precision, (uint64_t)N * O, 1);
    struct tensor *y = tensor_unset(precision, (uint64_t)N * O);
    struct tensor *dx = tensor_unset(precision, (uint64_t)N * I);
    struct tensor *dweight = tensor_unset(MODEL_FP32, (uint64_t)I * O);
    double *y_is = reference(N, O, I, x->value, false, weight->value, false, bias->value);
    double *dx_is = reference(N, I, O, dy->value, false, weight->value, true, NULL);
    double *dweight_is = reference(I, O, N, x->value, true, dy->value, false, NULL);
    cpu_linear_forward(cpu, precision, N, I, O, x->data, weight->data, bias->data, y->data);
    assert_close_sums(y, y_is, bias, "y");
    cpu_linear_backward_input(cpu, precision, N, I, O, dy->data, weight->data, dx->data);
    assert_close(dx, dx_is, tolerance, "dx");
    cpu_linear_backward_weight(cpu, precision, N, I, O, x->data, dy->data, KERNEL_GRADIENT_SET,
                               NULL, dweight->data, NULL);
    assert_close(dweight, dweight_is, tolerance, "dweight");
    cpu_linear_backward_weight(cpu, precision, N, I, O, x->data, dy->data, KERNEL_GRADIENT_ADD,
                               NULL, dweight->data, NULL);
    for (uint64_t i = 0; i < (uint64_t)I * O; i++)
        dweight_is[i] *= 2;
    assert_close(dweight, dweight_is, tolerance, "dweight added to");

    struct tensor *all[] = {x, weight, bias, dy, y, dx, dweight};
    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++)
        tensor_free(all[i]);
    g_free(y_is);
    g_free(dx_is);
    g_free(dweight_is);
    cpu_context_free(cpu);
}

static void linear_layers(enum model_precision precision)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(shapes); i++)
        check_linear(precision, shapes[i].N, shapes[i].I, shapes[i].O);
}

/* Puts the rows of logits, which lie apart, one behind the other. */
static struct tensor *gather(struct tensor *logits, uint32_t N, uint32_t V)
{
    double *values = zeros((uint64_t)N * V);
    tensor_read(logits);
    for (uint64_t n = 0; n < N; n++)
        memcpy(values + n * V, logits->value + n * model_logits_row(V), V * sizeof *values);
    struct tensor *gathered = tensor_from(logits->precision, (uint64_t)N * V, values);
    g_free(values);
    return gathered;
}

static void check_classifier(enum model_precision precision, uint32_t N, uint32_t H, uint32_t V,
                             bool biased)
{
    uint64_t apart = (uint64_t)N * model_logits_row(V);
    struct cpu_context *cpu = cpu_context_new(2);
    struct tensor *x = tensor_random(precision, (uint64_t)N * H, 1);
    struct tensor *weight = tensor_random(precision, (uint64_t)V * H, 1);
    struct tensor *bias = tensor_random(precision, V, 1);
    struct tensor *dlogits = tensor_random(precision, apart, 1);
    struct tensor *logits = tensor_unset(precision, apart), *dy = gather(dlogits, N, V);
    struct tensor *dx = tensor_unset(precision, (uint64_t)N * H);
    struct tensor *dweight = tensor_from(MODEL_FP32, (uint64_t)V * H, weight->value);
    double *logits_are = reference(N, V, H, x->value, false, weight->value, true,
                                   biased ? bias->value : NULL);
    double *dx_is = reference(N, H, V, dy->value, false, weight->value, false, NULL);
    double *dweight_is = reference(V, H, N, dy->value, true, x->value, false, NULL);
    for (uint64_t i = 0; i < (uint64_t)V * H; i++)
        dweight_is[i] += dweight->value[i];

    cpu_classifier_forward(cpu, precision, N, H, V, x->data, weight->data,
                           biased ? bias->data : NULL, logits->data);
    struct tensor *y = gather(logits, N, V);
    if (biased)
        assert_close_sums(y, logits_are, bias, "logits");
    else
        assert_close(y, logits_are, tolerance, "logits");
    cpu_classifier_backward_input(cpu, precision, N, H, V, dlogits->data, weight->data, dx->data);
    assert_close(dx, dx_is, tolerance, "dx");
    cpu_classifier_backward_weight(cpu, precision, N, H, V, x->data, dlogits->data,
                                   KERNEL_GRADIENT_ADD, NULL, dweight->data, NULL);
    assert_close_sums(dweight, dweight_is, weight, "dweight added to");

    struct tensor *all[] = {x, weight, bias, dlogits, dy, logits, y, dx, dweight};
    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++)
        tensor_free(all[i]);
    g_free(logits_are);
    g_free(dx_is);
    g_free(dweight_is);
    cpu_context_free(cpu);
}

static void classifiers(enum model_precision precision)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(shapes); i++)
        for (int biased = 0; biased < 2; biased++)
            check_classifier(precision, shapes[i].N, shapes[i].I, shapes[i].O, biased);
}

/* A product gives the same bits when it is repeated, and in another context. */
static void products_repeat(enum model_precision precision)
{
    enum { N = 70, I = 300, O = 200 };
    struct tensor *x = tensor_random(precision, N * I, 1);
    struct tensor *weight = tensor_random(precision, I * O, 1);
    struct tensor *bias = tensor_random(precision, O, 1);
    struct tensor *first = tensor_unset(precision, N * O), *again = tensor_unset(precision, N * O);
    for (unsigned threads = 1; threads <= 3; threads++) {
        struct cpu_context *a = cpu_context_new(threads), *b = cpu_context_new(threads);
        cpu_linear_forward(a, precision, N, I, O, x->data, weight->data, bias->data, first->data);
        for (int i = 0; i < 20; i++) {
            cpu_linear_forward(i % 2 ? a : b, precision, N, I, O, x->data, weight->data, bias->data,
                               again->data);
            g_assert_cmpmem(again->data, tensor_bytes(again), first->data, tensor_bytes(first));
        }
        uint64_t scratch = cpu_context_scratch_bytes(a);
        cpu_linear_forward(a, precision, N, I, O, x->data, weight->data, bias->data, again->data);
        g_assert_cmpuint(cpu_context_scratch_bytes(a), ==, scratch);
        cpu_context_free(a);
        cpu_context_free(b);
    }
    tensor_free(x);
    tensor_free(weight);
    tensor_free(bias);
    tensor_free(first);
    tensor_free(again);
}

/* The gradient that a micro-batch adds is what it would have stored. Rows of 600 and more terms are
 * summed in blocks; the first weight is larger than a panel. */
static void gradients_add_as_stored(enum model_precision precision)
{
    static const uint32_t sizes[][3] = {{600, 700, 2000}, {1000, 65, 130}, {17, 33, 5}};
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        uint32_t N = sizes[i][0], I = sizes[i][1], O = sizes[i][2];
        struct cpu_context *cpu = cpu_context_new(2);
        struct tensor *x = tensor_random(precision, (uint64_t)N * I, 1);
        struct tensor *dy = tensor_random(precision, (uint64_t)N * O, 1);
        struct tensor *stored = tensor_unset(MODEL_FP32, (uint64_t)I * O);
        struct tensor *sum = tensor_random(MODEL_FP32, (uint64_t)I * O, 1);
        float *expected = g_memdup2(sum->data, tensor_bytes(sum));
        cpu_linear_backward_weight(cpu, precision, N, I, O, x->data, dy->data, KERNEL_GRADIENT_SET,
                                   NULL, stored->data, NULL);
        cpu_linear_backward_weight(cpu, precision, N, I, O, x->data, dy->data, KERNEL_GRADIENT_ADD,
                                   NULL, sum->data, NULL);
        for (uint64_t e = 0; e < sum->elements; e++)
            expected[e] += ((const float *)stored->data)[e];
        g_assert_cmpmem(sum->data, tensor_bytes(sum), expected, tensor_bytes(sum));
        g_free(expected);
        tensor_free(x);
        tensor_free(dy);
        tensor_free(stored);
        tensor_free(sum);
        cpu_context_free(cpu);
    }
}

static void check_widened(struct matmul_shape shape)
{
    uint64_t a_elements = (uint64_t)shape.M * shape.K, b_elements = (uint64_t)shape.K * shape.N;
    struct tensor *a = tensor_random(MODEL_BF16, a_elements, 1);
    struct tensor *b = tensor_random(MODEL_BF16, b_elements, 1);
    struct tensor *bias = tensor_random(MODEL_BF16, shape.N, 1);
    struct tensor *c = tensor_random(shape.out, (uint64_t)shape.M * shape.N, 1);
    double *expected = reference(shape.M, shape.N, shape.K, a->value, shape.transposed_a, b->value,
                                 shape.transposed_b, shape.bias ? bias->value : NULL);
    float *scratch = g_malloc(WIDENED_MATMUL_BYTES);
    for (uint64_t i = 0; shape.add && i < c->elements; i++)
        expected[i] += c->value[i];
    widened_matmul(&shape, a->data, b->data, bias->data, c->data, scratch);
    assert_close(c, expected, tolerance, "widened");
    g_free(scratch);
    g_free(expected);
    tensor_free(a);
    tensor_free(b);
    tensor_free(bias);
    tensor_free(c);
}

static void widened_products(void)
{
    for (unsigned kind = 0; kind < 4; kind++) {
        struct matmul_shape shape = {.M = 37, .N = 530, .K = 19, .in = MODEL_BF16};
        shape.transposed_a = kind & 1;
        shape.transposed_b = kind >> 1;
        shape.out = MODEL_BF16;
        shape.bias = true;
        check_widened(shape);
        shape.M = 513;
        shape.N = 6;
        shape.K = 1030;
        shape.out = MODEL_FP32;
        shape.bias = false;
        shape.add = kind != 0;
        check_widened(shape);
    }
}

struct bias_case {
    struct tensor *dy, *dbias;
    uint32_t N, O, row;
    enum kernel_gradient gradient;
};

static void run_bias(struct cpu_context *cpu, void *argument)
{
    struct bias_case *c = argument;
    cpu_linear_backward_bias(cpu, c->dy->precision, c->N, c->O, c->row, c->dy->data, c->gradient,
                             c->dbias->data);
}

static void bias_gradients(enum model_precision precision)
{
    static const uint32_t sizes[][2] = {{1, 1}, {17, 5}, {65, 64}, {200, 131}};
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++)
        for (enum kernel_gradient gradient = 0; gradient <= KERNEL_GRADIENT_ADD_BF16; gradient++) {
            enum model_precision stored = gradient_precision(gradient);
            bool add = kernel_gradient_adds(gradient);
            uint32_t O = sizes[i][1], row = gradient % 2 ? O : model_logits_row(O);
            struct bias_case c = {NULL, NULL, sizes[i][0], O, row, gradient};
            c.dy = tensor_random(precision, c.N * row, 1);
            c.dbias = add ? tensor_random(stored, c.O, 1) : tensor_unset(stored, c.O);
            double *expected = zeros(c.O);
            for (uint32_t n = 0; n < c.N; n++)
                for (uint32_t o = 0; o < c.O; o++)
                    expected[o] += c.dy->value[n * row + o];
            for (uint32_t o = 0; add && o < c.O; o++)
                expected[o] += c.dbias->value[o];
            run_everywhere(run_bias, &c, &c.dbias, 1);
            assert_close(c.dbias, expected, tolerance, "dbias");
            g_free(expected);
            tensor_free(c.dy);
            tensor_free(c.dbias);
        }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_precision_test("/linear/layer", linear_layers);
    add_precision_test("/linear/classifier", classifiers);
    add_precision_test("/linear/repeat", products_repeat);
    add_precision_test("/linear/sums", gradients_add_as_stored);
    add_precision_test("/linear/bias", bias_gradients);
    g_test_add_func("/linear/widened", widened_products);
    return g_test_run();
}
