#include "fixture.h"

#include <math.h>

struct loss {
    uint32_t N, V;
    uint32_t *targets;
    struct tensor *logits;
    double divisor;
    double result; /* the first run's; 0 before */
    float cap;     /* that the logits have been given; 0: none */
};

static double log_sum(uint32_t V, const double *logits)
{
    double max = -INFINITY, sum = 0;
    for (uint32_t v = 0; v < V; v++)
        max = fmax(max, logits[v]);
    for (uint32_t v = 0; v < V; v++)
        sum += exp(logits[v] - max);
    return max + log(fmax(sum, 1)); /* the greatest logit adds 1 */
}

static double reference(const struct loss *l, const double *logits, double *gradient)
{
    double sum = 0;
    for (uint32_t n = 0; n < l->N; n++) {
        uint64_t begin = (uint64_t)n * model_logits_row(l->V);
        const double *row = logits + begin;
        double total = log_sum(l->V, row);
        if (l->targets[n] == KERNEL_NO_TARGET) {
            for (uint32_t v = 0; gradient && v < l->V; v++)
                gradient[begin + v] = 0;
            continue;
        }
        sum += total - row[l->targets[n]];
        for (uint32_t v = 0; gradient && v < l->V; v++)
            gradient[begin + v] = (exp(row[v] - total) - (v == l->targets[n])) / l->divisor *
                                  (l->cap > 0 ? 1 - row[v] / l->cap * (row[v] / l->cap) : 1);
    }
    return sum;
}

static double loss_of(const double *logits, const void *argument)
{
    return reference(argument, logits, NULL);
}

static void reference_agrees_with_differences(void)
{
    enum { N = 5, V = 7, ELEMENTS = N * 64 };
    struct loss l = {N, V, random_tokens(N, V), tensor_random(MODEL_FP32, ELEMENTS, 1), 1, 0, 0};
    double gradient[ELEMENTS] = {0};
    g_assert_cmpuint(model_logits_row(V), ==, ELEMENTS / N);
    l.targets[1] = KERNEL_NO_TARGET;
    reference(&l, l.logits->value, gradient);
    assert_gradient(loss_of, &l, l.logits->value, gradient, ELEMENTS);
    g_free(l.targets);
    tensor_free(l.logits);
}

/* The loss has the same bits everywhere, with and without the gradient. */
static void run(struct cpu_context *cpu, void *argument)
{
    struct loss *l = argument;
    double before, result;
    cpu_loss(cpu, l->logits->precision, l->N, l->V, l->targets, l->logits->data, &before);
    cpu_loss_backward(cpu, l->logits->precision, l->N, l->V, l->targets, l->divisor, l->cap,
                      l->logits->data, &result);
    if (l->result == 0)
        l->result = result;
    g_assert_true(before == result && result == l->result);
}

/* Rows whose targets do not count keep no trace of what their logits were, infinite ones either. */
static void drop_targets(struct loss *l)
{
    for (uint32_t n = 1; n < l->N; n += 3) {
        uint64_t begin = (uint64_t)n * model_logits_row(l->V);
        l->targets[n] = KERNEL_NO_TARGET;
        for (uint32_t v = 0; v < l->V; v += 5)
            if (l->logits->precision == MODEL_BF16)
                ((uint16_t *)l->logits->data)[begin + v] = 0x7f80;
            else
                ((float *)l->logits->data)[begin + v] = INFINITY;
    }
    tensor_read(l->logits);
}

static void check(enum model_precision precision, uint32_t N, uint32_t V, double deviation,
                  float cap, bool masked)
{
    uint64_t elements = (uint64_t)N * model_logits_row(V);
    struct loss l = {
        N, V, random_tokens(N, V), tensor_random(precision, elements, deviation), 3.0 * N, 0, cap};
    if (masked)
        drop_targets(&l);
    double *gradient = g_memdup2(l.logits->value, elements * sizeof *gradient);
    double expected = reference(&l, l.logits->value, gradient);
    run_everywhere(run, &l, &l.logits, 1);
    g_assert_cmpfloat(fabs(l.result - expected), <=, 1e-6 * (1e-3 + fabs(expected)));
    assert_close(l.logits, gradient, 2e-6, "dlogits");
    g_free(l.targets);
    g_free(gradient);
    tensor_free(l.logits);
}

static void losses(enum model_precision precision)
{
    static const uint32_t sizes[][2] = {{1, 2}, {17, 65}, {130, 64}, {3, 5003}, {67, 256}};
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        check(precision, sizes[i][0], sizes[i][1], 1, i % 2 ? 7 : 0, false);
        check(precision, sizes[i][0], sizes[i][1], 1, i % 2 ? 7 : 0, true);
        if (sizes[i][0] > 3) /* in few rows p - 1 may be a rounding error of 1 everywhere */
            check(precision, sizes[i][0], sizes[i][1], 60, 0, false);
    }
}

static void run_cap(struct cpu_context *cpu, void *argument)
{
    struct loss *l = argument;
    cpu_cap_logits(cpu, l->logits->precision, l->N, l->V, l->cap, l->logits->data);
}

/* Numbers far below the cap, about it and far above it. What lies between rows stays. */
static void caps(enum model_precision precision)
{
    static const double deviations[] = {1e-3, 1, 10, 1e4};
    enum { N = 5, V = 131 };
    for (unsigned i = 0; i < G_N_ELEMENTS(deviations); i++) {
        uint32_t row = model_logits_row(V);
        struct loss l = {.N = N, .V = V, .cap = 30};
        l.logits = tensor_random(precision, (uint64_t)N * row, deviations[i]);
        double *expected = g_memdup2(l.logits->value, (size_t)N * row * sizeof *expected);
        for (uint32_t at = 0; at < N * row; at++)
            if (at % row < V)
                expected[at] = 30 * tanh(expected[at] / 30);
        run_everywhere(run_cap, &l, &l.logits, 1);
        assert_close(l.logits, expected, 1e-6, "capped logits");
        g_free(expected);
        tensor_free(l.logits);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/loss/reference", reference_agrees_with_differences);
    add_precision_test("/loss", losses);
    add_precision_test("/loss/caps", caps);
    return g_test_run();
}
