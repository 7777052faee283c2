/* Times of matrix products by shape: figures counted by hand, and laws that hold for every shape.
 * The seed is drawn and printed. */
#include "models/matrix_product.h"
#include "models/synth.h"
#include "small_model.h"

#include <string.h>

#define KERNEL 5e-6 /* seconds of a kernel beside its waves */

enum { A100 = 108 };

/* A device that computes one operation a second, so that a kernel's microseconds do not count. */
static struct platform_point slow_point = {1, 1};
static const struct platform_curve slow = {&slow_point, 1, NULL};

/* A100's rate in bf16. */
static struct platform_point fast_point = {3.12e14, 1};
static const struct platform_curve fast = {&fast_point, 1, NULL};

static double nominal(const struct platform_curve *curve, const struct matrix_product *shape)
{
    return platform_seconds(curve, 2.0 * (double)shape->rows * (double)shape->outputs *
                                       (double)shape->inner);
}

/* Returns the product's operations, as a share of those that the device could do meanwhile. */
static double efficiency(uint64_t rows, uint64_t outputs, uint64_t inner)
{
    const struct matrix_product shape = {rows, outputs, inner};
    return nominal(&slow, &shape) / product_seconds(&slow, A100, &shape);
}

/* The largest tile loads 6 * (1 / 256 + 1 / 128) times as long as it computes, one of 128 x 128
 * 6 * 2 / 128, one of 64 x 64 6 * 2 / 64. */
static double share(double a, double b)
{
    return (1 + 6 * (1.0 / 256 + 1.0 / 128)) / (1 + 6 * (1 / a + 1 / b));
}

static void expect(double value, double expected)
{
    g_assert_cmpfloat_with_epsilon(value, expected, 1e-9);
}

static void test_counted(void)
{
    expect(efficiency(A100 * 256, 128, 512), 1);     /* one wave of the largest tiles */
    expect(efficiency(128, A100 * 256, 512), 1);     /* and of those that lie across */
    expect(efficiency(2 * A100 * 256, 128, 512), 1); /* two waves */
    /* Half a wave of 128 x 64, in two parts. A column alone needs whole tiles. */
    expect(efficiency(A100 * 64, 64, 512), share(128, 64));
    expect(efficiency(A100 * 64, 1, 512), share(128, 64) / 64);
    /* 36 tiles of 128 x 128 fill all multiprocessors in three parts. */
    expect(efficiency(768, 768, 512), share(128, 128));
    /* With a row beyond a wave there are 433 tiles of 64 x 128. In four parts they take 17 waves
     * instead of 16 and a little. */
    double rows = A100 * 256;
    expect(efficiency(A100 * 256 + 1, 128, 512), (rows + 1) / rows * 16 / 17 * share(64, 128));
}

/* Splits cost a second kernel, which short inner dimensions are not worth. */
static void test_kernels(void)
{
    const struct matrix_product wave = {A100 * 256, 128, 4096}, tiny = {64, 64, 64};
    const struct matrix_product deep = {768, 768, 1 << 16};
    expect(product_seconds(&fast, A100, &wave) / (nominal(&fast, &wave) + KERNEL), 1);
    double one_tile = A100 * nominal(&fast, &tiny) / share(64, 64);
    expect(product_seconds(&fast, A100, &tiny) / (one_tile + KERNEL), 1);
    double split = nominal(&fast, &deep) / share(128, 128) + 2 * KERNEL;
    expect(product_seconds(&fast, A100, &deep) / split, 1);
}

/* More rows, outputs or inner columns never take less time, and no product is faster than its
 * operations at the rate. */
static void test_laws(void)
{
    uint32_t seed = g_test_rand_int();
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    g_test_message("seed %u", seed);
    for (int i = 0; i < 20000; i++) {
        uint64_t size[3];
        for (int k = 0; k < 3; k++)
            size[k] = (uint64_t)g_rand_int_range(rand, 1, 1 << g_rand_int_range(rand, 1, 16));
        const struct platform_curve *curve = g_rand_boolean(rand) ? &fast : &slow;
        uint32_t multiprocessors = (uint32_t)g_rand_int_range(rand, 1, 200);
        const struct matrix_product shape = {size[0], size[1], size[2]};
        double seconds = product_seconds(curve, multiprocessors, &shape);
        g_assert_cmpfloat(seconds, >=, nominal(curve, &shape) * (1 - 1e-12));
        size[g_rand_int_range(rand, 0, 3)] += (uint64_t)g_rand_int_range(rand, 1, 300);
        const struct matrix_product more = {size[0], size[1], size[2]};
        g_assert_cmpfloat(product_seconds(curve, multiprocessors, &more), >=,
                          seconds * (1 - 1e-12));
    }
}

static struct platform *machine(uint32_t multiprocessors)
{
    GError *error = NULL;
    struct platform *platform = platform_read(PROJECT_DIR "/platforms/a100-40gb.json", &error);
    g_assert_no_error(error);
    g_clear_pointer(&platform->framework.source, g_free);
    platform->multiprocessors.count = multiprocessors;
    platform->compute[1].points[0].seconds = 1e9; /* bytes take no time beside it */
    return platform;
}

/* Returns the duration of the first operator of this name. */
static double duration(const struct trace *trace, const char *name)
{
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (g_str_equal(trace->operators[m].name, name))
            return (double)trace->operators[m].duration_ns;
    g_error("no operator is called %s", name);
}

static struct trace *synthesise(const struct model_config *config, const struct model_job *job,
                                uint32_t multiprocessors)
{
    GError *error = NULL;
    struct platform *platform = machine(multiprocessors);
    struct trace *trace = model_synthesise(config, job, platform, &error);
    g_assert_no_error(error);
    platform_free(platform);
    return trace;
}

/* Returns what the shape adds to the nanoseconds of a product on the machine. */
static double added(uint64_t rows, uint64_t outputs, uint64_t inner)
{
    struct platform *platform = machine(A100);
    const struct matrix_product shape = {rows, outputs, inner};
    const struct platform_curve *compute = &platform->compute[1];
    double seconds = product_seconds(compute, A100, &shape) - nominal(compute, &shape);
    platform_free(platform);
    return seconds * 1e9;
}

/* A linear layer is one product forward and two backward. Nothing else changes, and nothing at all
 * on a machine that does not say how many multiprocessors it has. */
static void test_operators(void)
{
    struct model_config config = small_model(true, 0);
    struct model_job job = small_job(MODEL_BF16, 1);
    struct trace *with = synthesise(&config, &job, A100), *without = synthesise(&config, &job, 0);
    const char *const same[] = {"forward h.1.attn", "forward h.1.ln_1", "backward h.1.attn",
                                "update h.1.ln_1.weight"};
    uint64_t rows = 2 * 4, width = 8, inner = 24;
    double forward = added(rows, inner, width);
    double backward = added(rows, width, inner) + added(width, inner, rows);
    expect(duration(with, "forward h.1.mlp.c_fc") /
               (duration(without, "forward h.1.mlp.c_fc") + forward),
           1);
    expect(duration(with, "backward h.1.mlp.c_fc") /
               (duration(without, "backward h.1.mlp.c_fc") + backward),
           1);
    for (size_t i = 0; i < G_N_ELEMENTS(same); i++)
        g_assert_cmpfloat(duration(with, same[i]), ==, duration(without, same[i]));
    trace_free(with);
    trace_free(without);
}

/* A frozen weight has no gradient, and so no product. */
static void test_frozen(void)
{
    struct model_config config = small_model(true, 0);
    struct model_job job = small_job(MODEL_BF16, 1);
    g_autofree uint8_t *frozen = g_new0(uint8_t, model_tensor_count(&config));
    memset(frozen + 3, 1, model_tensor_count(&config) - 3); /* but the tables and the first norm */
    job.choices.frozen = frozen;
    struct trace *with = synthesise(&config, &job, A100), *without = synthesise(&config, &job, 0);
    expect(duration(with, "backward h.1.mlp.c_fc") /
               (duration(without, "backward h.1.mlp.c_fc") + added(8, 8, 24)),
           1);
    trace_free(with);
    trace_free(without);
}

/* An expert's products have the expert's rows: of eight rows that go through two of four experts,
 * each has four. */
static void test_experts(void)
{
    struct model_config config = small_model(false, 0);
    struct model_job job = small_job(MODEL_BF16, 1);
    set_family(&family_mixtral, 4, 3, &config);
    struct trace *with = synthesise(&config, &job, A100), *without = synthesise(&config, &job, 0);
    const char *expert = "forward layers.1.mlp.experts.1.down_proj";
    uint64_t rows = 8 * (uint64_t)config.experts_per_token / config.experts;
    expect(duration(with, expert) /
               (duration(without, expert) + added(rows, config.width, config.inner)),
           1);
    trace_free(with);
    trace_free(without);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/matrix-product/counted", test_counted);
    g_test_add_func("/matrix-product/kernels", test_kernels);
    g_test_add_func("/matrix-product/laws", test_laws);
    g_test_add_func("/matrix-product/operators", test_operators);
    g_test_add_func("/matrix-product/frozen", test_frozen);
    g_test_add_func("/matrix-product/experts", test_experts);
    return g_test_run();
}
