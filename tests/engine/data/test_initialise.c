/* New weights: their distribution, and that pieces do not matter. */
#include "engine/weights.h"

#include <math.h>
#include <string.h>

enum { COUNT = 100000 };

static const struct model_config config = {
    .layers = 8, .width = 8, .heads = 2, .initializer_range = 0.02};

static void draw(const char *name, uint32_t tensor, uint64_t seed, float *values)
{
    initialise_values(&config, seed, tensor, name, 0, COUNT, values);
}

static void expect_normal(const char *name, double deviation)
{
    float *values = g_new(float, COUNT);
    draw(name, 3, 1, values);
    double sum = 0, squares = 0, fourth = 0;
    for (int i = 0; i < COUNT; i++) {
        double value = values[i] / deviation;
        sum += value;
        squares += value * value;
        fourth += value * value * value * value;
    }
    /* Five standard errors of each estimate. */
    g_assert_cmpfloat(fabs(sum / COUNT), <, 5 * sqrt(1.0 / COUNT));
    g_assert_cmpfloat(fabs(squares / COUNT - 1), <, 5 * sqrt(2.0 / COUNT));
    g_assert_cmpfloat(fabs(fourth / COUNT - 3), <, 5 * sqrt(96.0 / COUNT));
    g_free(values);
}

static void test_matrices(void)
{
    expect_normal("wte.weight", 0.02);
    expect_normal("wpe.weight", 0.02);
    expect_normal("h.0.attn.c_attn.weight", 0.02);
    expect_normal("h.7.mlp.c_fc.weight", 0.02);
    expect_normal("lm_head.weight", 0.02);
    expect_normal("h.0.attn.c_proj.weight", 0.02 / 4);
    expect_normal("h.7.mlp.c_proj.weight", 0.02 / 4);
}

static void expect_constant(const char *name, float constant)
{
    float values[100];
    initialise_values(&config, 1, 2, name, 5, 100, values);
    for (int i = 0; i < 100; i++)
        g_assert_cmpfloat(values[i], ==, constant);
}

static void test_norms_and_biases(void)
{
    expect_constant("h.0.ln_1.weight", 1);
    expect_constant("h.3.ln_2.weight", 1);
    expect_constant("ln_f.weight", 1);
    expect_constant("h.0.ln_1.bias", 0);
    expect_constant("ln_f.bias", 0);
    expect_constant("h.0.attn.c_attn.bias", 0);
    expect_constant("h.0.mlp.c_proj.bias", 0);
}

static void test_pieces(void)
{
    float *whole = g_new(float, COUNT), *pieces = g_new(float, COUNT);
    draw("wte.weight", 0, 1, whole);
    for (uint64_t first = 0; first < COUNT;) {
        uint64_t count = (uint64_t)g_test_rand_int_range(1, 1000);
        count = MIN(count, COUNT - first);
        initialise_values(&config, 1, 0, "wte.weight", first, count, pieces + first);
        first += count;
    }
    g_assert_cmpmem(pieces, COUNT * sizeof(float), whole, COUNT * sizeof(float));
    g_free(whole);
    g_free(pieces);
}

static void test_seeds_and_tensors_differ(void)
{
    float *values = g_new(float, COUNT), *other = g_new(float, COUNT);
    draw("wte.weight", 0, 1, values);
    draw("wte.weight", 0, 2, other);
    int same_seed = 0, same_tensor = 0;
    for (int i = 0; i < COUNT; i++)
        same_seed += values[i] == other[i];
    draw("wte.weight", 1, 1, other);
    for (int i = 0; i < COUNT; i++)
        same_tensor += values[i] == other[i];
    g_assert_cmpint(same_seed, <, 10);
    g_assert_cmpint(same_tensor, <, 10);
    g_free(values);
    g_free(other);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/initialise/matrices", test_matrices);
    g_test_add_func("/initialise/norms-and-biases", test_norms_and_biases);
    g_test_add_func("/initialise/pieces", test_pieces);
    g_test_add_func("/initialise/seeds-and-tensors-differ", test_seeds_and_tensors_differ);
    return g_test_run();
}
