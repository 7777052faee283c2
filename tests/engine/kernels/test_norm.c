#include "fixture.h"

#include <math.h>

static const double epsilon = 1e-5;

struct norm {
    enum model_precision precision;
    uint32_t N, H;
    bool add;
    enum kernel_gradient gradient;
    struct tensor *x, *weight, *bias, *y, *stats;
    struct tensor *dy, *dx, *dweight, *dbias;
};

/* Computes y of one row in fp64. */
static void reference_row(uint32_t H, const double *x, const double *weight, const double *bias,
                          double *y, double *mean, double *inverse)
{
    double sum = 0, squares = 0;
    for (uint32_t h = 0; h < H; h++)
        sum += x[h];
    *mean = sum / H;
    for (uint32_t h = 0; h < H; h++)
        squares += (x[h] - *mean) * (x[h] - *mean);
    *inverse = 1 / sqrt(squares / H + epsilon);
    for (uint32_t h = 0; h < H; h++)
        y[h] = (x[h] - *mean) * *inverse * weight[h] + bias[h];
}

/* Adds one row's part to dweight and dbias. */
static void reference_row_backward(uint32_t H, const double *x, const double *weight,
                                   const double *dy, double mean, double inverse, double *dx,
                                   double *dweight, double *dbias)
{
    double mean_g = 0, mean_normal = 0;
    for (uint32_t h = 0; h < H; h++) {
        mean_g += dy[h] * weight[h] / H;
        mean_normal += dy[h] * weight[h] * (x[h] - mean) * inverse / H;
    }
    for (uint32_t h = 0; h < H; h++) {
        double normal = (x[h] - mean) * inverse;
        dx[h] = (dy[h] * weight[h] - mean_g - normal * mean_normal) * inverse;
        dweight[h] += dy[h] * normal;
        dbias[h] += dy[h];
    }
}

struct row_loss {
    uint32_t H;
    const double *weight, *bias, *dy;
};

static double loss_of_row(const double *x, const void *argument)
{
    const struct row_loss *r = argument;
    double *y = zeros(r->H), mean, inverse, loss = 0;
    reference_row(r->H, x, r->weight, r->bias, y, &mean, &inverse);
    for (uint32_t h = 0; h < r->H; h++)
        loss += y[h] * r->dy[h];
    g_free(y);
    return loss;
}

static void reference_agrees_with_differences(void)
{
    enum { H = 23 };
    struct tensor *x = tensor_random(MODEL_FP32, H, 1), *weight = tensor_random(MODEL_FP32, H, 1);
    struct tensor *bias = tensor_random(MODEL_FP32, H, 1), *dy = tensor_random(MODEL_FP32, H, 1);
    double y[H], dx[H], dweight[H] = {0}, dbias[H] = {0}, mean, inverse;
    struct row_loss argument = {H, weight->value, bias->value, dy->value};
    reference_row(H, x->value, weight->value, bias->value, y, &mean, &inverse);
    reference_row_backward(H, x->value, weight->value, dy->value, mean, inverse, dx, dweight,
                           dbias);
    assert_gradient(loss_of_row, &argument, x->value, dx, H);
    tensor_free(x);
    tensor_free(weight);
    tensor_free(bias);
    tensor_free(dy);
}

static void run_forward(struct cpu_context *cpu, void *argument)
{
    struct norm *n = argument;
    cpu_norm_forward(cpu, n->precision, n->N, n->H, epsilon, n->weight->data, n->bias->data,
                     n->x->data, n->y->data, n->stats->data);
}

static void run_input(struct cpu_context *cpu, void *argument)
{
    struct norm *n = argument;
    cpu_norm_backward_input(cpu, n->precision, n->N, n->H, n->weight->data, n->dy->data, n->x->data,
                            n->stats->data, n->add, n->dx->data);
}

static void run_parameters(struct cpu_context *cpu, void *argument)
{
    struct norm *n = argument;
    cpu_norm_backward_parameters(cpu, n->precision, n->N, n->H, n->dy->data, n->x->data,
                                 n->stats->data, n->gradient, n->dweight->data, n->dbias->data);
}

static void check_backward(struct norm *n, double *dx, double *dweight, double *dbias)
{
    for (uint64_t i = 0; n->add && i < n->dx->elements; i++)
        dx[i] += n->dx->value[i];
    for (uint32_t h = 0; kernel_gradient_adds(n->gradient) && h < n->H; h++) {
        dweight[h] += n->dweight->value[h];
        dbias[h] += n->dbias->value[h];
    }
    run_everywhere(run_input, n, &n->dx, 1);
    assert_close(n->dx, dx, 3e-6, "dx");
    run_everywhere(run_parameters, n, (struct tensor *[]){n->dweight, n->dbias}, 2);
    assert_close(n->dweight, dweight, 3e-6, "dweight");
    assert_close(n->dbias, dbias, 3e-6, "dbias");
}

static void check(struct norm n)
{
    uint64_t elements = (uint64_t)n.N * n.H;
    enum model_precision stored = gradient_precision(n.gradient);
    n.x = tensor_random(n.precision, elements, 2);
    n.weight = tensor_random(n.precision, n.H, 1);
    n.bias = tensor_random(n.precision, n.H, 1);
    n.dy = tensor_random(n.precision, elements, 1);
    n.y = tensor_unset(n.precision, elements);
    n.stats = tensor_unset(MODEL_FP32, 2 * n.N);
    n.dx = n.add ? tensor_random(n.precision, elements, 1) : tensor_unset(n.precision, elements);
    bool adds = kernel_gradient_adds(n.gradient);
    n.dweight = adds ? tensor_random(stored, n.H, 1) : tensor_unset(stored, n.H);
    n.dbias = adds ? tensor_random(stored, n.H, 1) : tensor_unset(stored, n.H);

    double *y = zeros(elements), *dx = zeros(elements), *stats = zeros(2 * n.N);
    double *dweight = zeros(n.H), *dbias = zeros(n.H);
    for (uint32_t r = 0; r < n.N; r++) {
        uint64_t at = (uint64_t)r * n.H;
        reference_row(n.H, n.x->value + at, n.weight->value, n.bias->value, y + at, &stats[r],
                      &stats[n.N + r]);
        reference_row_backward(n.H, n.x->value + at, n.weight->value, n.dy->value + at, stats[r],
                               stats[n.N + r], dx + at, dweight, dbias);
    }
    run_everywhere(run_forward, &n, (struct tensor *[]){n.y, n.stats}, 2);
    assert_close(n.y, y, 2e-6, "y");
    assert_close(n.stats, stats, 2e-6, "stats");
    check_backward(&n, dx, dweight, dbias);

    struct tensor *all[] = {n.x, n.weight, n.bias, n.dy, n.y, n.stats, n.dx, n.dweight, n.dbias};
    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++)
        tensor_free(all[i]);
    g_free(y);
    g_free(dx);
    g_free(stats);
    g_free(dweight);
    g_free(dbias);
}

static void norms(enum model_precision precision)
{
    static const uint32_t sizes[][2] = {{1, 17}, {17, 65}, {5, 64}, {131, 48}, {2, 1000}};
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++)
        for (enum kernel_gradient gradient = 0; gradient <= KERNEL_GRADIENT_ADD_BF16; gradient++)
            check((struct norm){.precision = precision,
                                .N = sizes[i][0],
                                .H = sizes[i][1],
                                .add = gradient % 2,
                                .gradient = gradient});
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/norm/reference", reference_agrees_with_differences);
    add_precision_test("/norm", norms);
    return g_test_run();
}
