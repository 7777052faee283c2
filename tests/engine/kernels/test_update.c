/* AdamW, the norms of gradients, and conversions. */
#include "engine/bf16.h"
#include "fixture.h"

#include <math.h>

enum layout { IN_FP32, GRADIENT_IN_PARAM, GRADIENT_LIST, LAYOUTS };

struct update {
    enum layout layout;
    struct adamw_step step;
    uint64_t cut; /* the update is two calls, for [0, cut) and the rest */
    struct tensor *param, *gradient, *master, *exp_avg, *exp_avg_sq;
};

static const struct adamw_options options = {
    .learning_rate = 3e-3,
    .beta1 = 0.9,
    .beta2 = 0.95,
    .epsilon = 1e-8,
    .weight_decay = 0.1,
    .gradient_scale = 0.37,
};

static void *part(const struct tensor *tensor, uint64_t first)
{
    uint64_t width = tensor->precision == MODEL_BF16 ? 2 : 4;
    return (char *)tensor->data + first * width;
}

static void update_range(struct cpu_context *cpu, const struct update *u, uint64_t first,
                         uint64_t end)
{
    struct adamw_tensor tensor = {
        .elements = end - first,
        .param = part(u->param, first),
        .gradient = u->layout == GRADIENT_IN_PARAM ? NULL : part(u->gradient, first),
        .master = u->layout == IN_FP32 ? NULL : part(u->master, first),
        .exp_avg = part(u->exp_avg, first),
        .exp_avg_sq = part(u->exp_avg_sq, first),
    };
    cpu_adamw(cpu, &u->step, NULL, &tensor);
}

static void run(struct cpu_context *cpu, void *argument)
{
    struct update *u = argument;
    update_range(cpu, u, 0, u->cut);
    update_range(cpu, u, u->cut, u->param->elements);
}

/* AdamW as in its paper, in fp64. Updates the parameter and the moments in place. */
static void reference(uint64_t step, double *param, double gradient, double *m, double *v)
{
    double g = gradient * options.gradient_scale;
    *m = options.beta1 * *m + (1 - options.beta1) * g;
    *v = options.beta2 * *v + (1 - options.beta2) * g * g;
    double m_hat = *m / (1 - pow(options.beta1, (double)step));
    double v_hat = *v / (1 - pow(options.beta2, (double)step));
    *param -= options.learning_rate *
              (m_hat / (sqrt(v_hat) + options.epsilon) + options.weight_decay * *param);
}

static void check(enum layout layout, uint64_t elements, uint64_t step)
{
    enum model_precision precision = layout == IN_FP32 ? MODEL_FP32 : MODEL_BF16;
    struct update u = {.layout = layout, .step = adamw_step_of(&options, step)};
    u.master = tensor_random(MODEL_FP32, elements, 1);
    u.gradient = tensor_random(layout == GRADIENT_IN_PARAM ? MODEL_BF16 : MODEL_FP32, elements, 1);
    u.param = tensor_from(precision, elements,
                          layout == GRADIENT_IN_PARAM ? u.gradient->value : u.master->value);
    u.exp_avg = tensor_random(MODEL_FP32, elements, 0.1);
    u.exp_avg_sq = tensor_random(MODEL_FP32, elements, 0.1);
    for (uint64_t i = 0; i < elements; i++)
        ((float *)u.exp_avg_sq->data)[i] *= ((float *)u.exp_avg_sq->data)[i];
    tensor_read(u.exp_avg_sq);
    double *param = g_memdup2(u.master->value, elements * sizeof(double));
    double *m = g_memdup2(u.exp_avg->value, elements * sizeof(double));
    double *v = g_memdup2(u.exp_avg_sq->value, elements * sizeof(double));
    for (uint64_t i = 0; i < elements; i++)
        reference(step, &param[i], u.gradient->value[i], &m[i], &v[i]);
    u.cut = random_token((uint32_t)elements + 1);
    struct tensor *outputs[] = {u.param, u.exp_avg, u.exp_avg_sq, u.master};
    run_everywhere(run, &u, outputs, 4);
    assert_close(u.param, param, 1e-6, "param");
    assert_close(u.exp_avg, m, 1e-6, "exp_avg");
    assert_close(u.exp_avg_sq, v, 1e-6, "exp_avg_sq");
    if (layout != IN_FP32)
        assert_close(u.master, param, 1e-6, "master");
    for (unsigned i = 0; i < G_N_ELEMENTS(outputs); i++)
        tensor_free(outputs[i]);
    tensor_free(u.gradient);
    g_free(param);
    g_free(m);
    g_free(v);
}

static void adamw(void)
{
    static const uint64_t sizes[] = {17, 65, 1000, 5003};
    for (enum layout layout = 0; layout < LAYOUTS; layout++)
        for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
            check(layout, sizes[i], 1);
            check(layout, sizes[i], 1000);
        }
}

/* Two pieces give the same bits as one. */
static void adamw_does_not_depend_on_the_cut(void)
{
    enum { ELEMENTS = 3000 };
    struct cpu_context *cpu = cpu_context_new(2);
    struct update u = {.layout = IN_FP32, .step = adamw_step_of(&options, 7)};
    u.gradient = tensor_random(MODEL_FP32, ELEMENTS, 1);
    u.param = tensor_random(MODEL_FP32, ELEMENTS, 1);
    u.exp_avg = tensor_random(MODEL_FP32, ELEMENTS, 0);
    u.exp_avg_sq = tensor_random(MODEL_FP32, ELEMENTS, 0);
    u.cut = ELEMENTS;
    void *before = g_memdup2(u.param->data, tensor_bytes(u.param));
    run(cpu, &u);
    void *whole = g_memdup2(u.param->data, tensor_bytes(u.param));
    for (int trial = 0; trial < 20; trial++) {
        memcpy(u.param->data, before, tensor_bytes(u.param));
        memset(u.exp_avg->data, 0, tensor_bytes(u.exp_avg));
        memset(u.exp_avg_sq->data, 0, tensor_bytes(u.exp_avg_sq));
        u.cut = random_token(ELEMENTS);
        run(cpu, &u);
        g_assert_cmpmem(u.param->data, tensor_bytes(u.param), whole, tensor_bytes(u.param));
    }
    struct tensor *all[] = {u.param, u.gradient, u.exp_avg, u.exp_avg_sq};
    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++)
        tensor_free(all[i]);
    g_free(before);
    g_free(whole);
    cpu_context_free(cpu);
}

struct norm {
    struct tensor *values, *rounded, *sums;
};

static void run_squares(struct cpu_context *cpu, void *argument)
{
    struct norm *n = argument;
    double sums[3];
    cpu_sum_squares(cpu, n->values->precision, n->values->elements, n->values->data, &sums[0]);
    sums[1] = cpu_round_gradient(cpu, n->values->elements, n->values->data, n->rounded->data);
    cpu_sum_squares(cpu, MODEL_BF16, n->rounded->elements, n->rounded->data, &sums[2]);
    g_assert_true(sums[1] == sums[2]);
    memcpy(n->sums->data, sums, sizeof sums);
}

static void check_squares(uint64_t elements)
{
    struct norm n = {tensor_random(MODEL_FP32, elements, 1), tensor_unset(MODEL_BF16, elements),
                     tensor_unset(MODEL_FP32, 6)};
    double expected = 0, expected_rounded = 0, sums[3];
    run_everywhere(run_squares, &n, (struct tensor *[]){n.rounded, n.sums}, 2);
    tensor_read(n.rounded);
    for (uint64_t i = 0; i < elements; i++) {
        g_assert_cmphex(((uint16_t *)n.rounded->data)[i], ==,
                        bf16_round(((float *)n.values->data)[i]));
        expected += n.values->value[i] * n.values->value[i];
        expected_rounded += n.rounded->value[i] * n.rounded->value[i];
    }
    memcpy(sums, n.sums->data, sizeof sums);
    g_assert_cmpfloat(fabs(sums[0] - expected), <=, 1e-12 * expected);
    g_assert_cmpfloat(fabs(sums[1] - expected_rounded), <=, 1e-12 * expected_rounded);
    tensor_free(n.values);
    tensor_free(n.rounded);
    tensor_free(n.sums);
}

static void squares(void)
{
    static const uint64_t sizes[] = {1, 17, 64, 1000, 16384, 70001};
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++)
        check_squares(sizes[i]);
}

static void run_convert(struct cpu_context *cpu, void *argument)
{
    struct norm *n = argument;
    cpu_round(cpu, n->values->elements, n->values->data, n->rounded->data);
    cpu_widen(cpu, n->values->elements, n->rounded->data, n->sums->data);
}

static void conversions(void)
{
    enum { ELEMENTS = 3001 };
    struct norm n = {tensor_random(MODEL_FP32, ELEMENTS, 1), tensor_unset(MODEL_BF16, ELEMENTS),
                     tensor_unset(MODEL_FP32, ELEMENTS)};
    run_everywhere(run_convert, &n, (struct tensor *[]){n.rounded, n.sums}, 2);
    for (uint64_t i = 0; i < ELEMENTS; i++) {
        uint16_t half = bf16_round(((float *)n.values->data)[i]);
        g_assert_cmphex(((uint16_t *)n.rounded->data)[i], ==, half);
        g_assert_true(((float *)n.sums->data)[i] == bf16_widen(half));
    }
    tensor_free(n.values);
    tensor_free(n.rounded);
    tensor_free(n.sums);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/update/adamw", adamw);
    g_test_add_func("/update/cut", adamw_does_not_depend_on_the_cut);
    g_test_add_func("/update/squares", squares);
    g_test_add_func("/update/conversions", conversions);
    return g_test_run();
}
