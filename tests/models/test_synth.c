/* Synthetic traces: durations by counting, and 175B parameters in no time. */
#include "models/retime.h"
#include "models/synth.h"
#include "small_model.h"

#include <string.h>

static struct platform *machine(void)
{
    GError *error = NULL;
    struct platform *platform = platform_read(PROJECT_DIR "/platforms/a100-40gb.json", &error);
    g_assert_no_error(error);
    return platform;
}

/* Returns a machine on which the shape of a product does not change its time. */
static struct platform *shapeless_machine(void)
{
    struct platform *platform = machine();
    platform->multiprocessors.count = 0;
    return platform;
}

/* Returns a machine that nothing is known of but its nominal rates. */
static struct platform *nominal_machine(void)
{
    struct platform *platform = shapeless_machine();
    g_clear_pointer(&platform->framework.source, g_free);
    return platform;
}

static struct trace *synthesise(const struct model_config *config, const struct model_job *job,
                                const struct platform *platform)
{
    GError *error = NULL;
    struct trace *trace = model_synthesise(config, job, platform, &error);
    g_assert_no_error(error);
    return trace;
}

static double seconds(const struct trace *trace)
{
    uint64_t sum = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        sum += trace->operators[m].duration_ns;
    return (double)sum * 1e-9;
}

static void test_175b(void)
{
    GError *error = NULL;
    struct model_config *config =
        model_config_read(PROJECT_DIR "/models/configs/patrickstar-175b.json", &error);
    g_assert_no_error(error);
    struct platform *platform = nominal_machine();
    struct model_job job = {
        .choices = {.batch = 4, .micro_batches = 1}, .sequence = 1024, .precision = MODEL_BF16};
    struct trace *trace = synthesise(config, &job, platform);
    g_assert_cmpuint(trace_model_bytes(trace), ==, 14 * UINT64_C(174591676416));
    g_assert_true(trace_check(trace, "175B", &error));
    g_assert_true(trace->estimated);
    g_assert_cmpstr(trace->machine, ==, platform->name);

    /* Forward and backward by the usual count, 6 a token and parameter, and the pairs of attention;
     * the update by 26 bytes a parameter at the memory's rate. */
    double step = 6.0 * 4096 * 174591676416.0 + 14.0 * 96 * 4 * 1024 * 512.5 * 12288;
    double products = platform_seconds(&platform->compute[1], step);
    double update = platform_seconds(&platform->memory, 26.0 * 174591676416.0);
    g_assert_cmpfloat_with_epsilon(seconds(trace) / (products + update), 1, 0.05);
    trace_free(trace);
    platform_free(platform);
    model_config_free(config);
}

/* In a framework, products and attention take their operations at a share of the rate, and passes
 * over their bytes besides. An update passes over its bytes once; unfused, everything has the rates
 * as they are. */
static void test_framework(void)
{
    struct model_config config = small_model(true, 0);
    struct model_job job = small_job(MODEL_BF16, 1);
    struct platform *platform = shapeless_machine();
    platform->framework.products = 0.5;
    platform->framework.attention = 0.25;
    platform->framework.passes = 3;
    platform->compute[1].points[0].seconds = platform->memory.points[0].seconds = 1e5;
    double flop = platform_seconds(&platform->compute[1], 1) * 1e9;
    double byte = platform_seconds(&platform->memory, 1) * 1e9;
    for (int unfused = 0; unfused < 2; unfused++) {
        job.unfused = unfused;
        struct trace *trace = synthesise(&config, &job, platform);
        for (uint32_t m = 0; m < trace->operator_count; m++) {
            const struct trace_operator *op = &trace->operators[m];
            bool attention = g_str_has_suffix(op->name, ".attn");
            bool product = attention || g_str_has_suffix(op->name, ".c_attn");
            bool update = op->phase == TRACE_UPDATE_PHASE;
            if (!product && !update && !strstr(op->name, ".ln_1"))
                continue;
            double passes = update || unfused ? 1 : 3;
            double times = !product ? 0 : unfused ? 1 : attention ? 4 : 2;
            double expected = passes * byte * (double)op->bytes + times * flop * (double)op->flops;
            g_assert_cmpfloat_with_epsilon((double)op->duration_ns, expected, 1);
        }
        trace_free(trace);
    }
    platform_free(platform);
}

/* A product takes the longer of its operations and its bytes, a norm its bytes. */
static void test_bounds(void)
{
    struct model_config config = small_model(true, 0);
    struct model_job job = small_job(MODEL_FP32, 1);
    struct platform *platform = nominal_machine();
    struct trace *trace = synthesise(&config, &job, platform);
    const struct trace_operator *norm = &trace->operators[1], *product = &trace->operators[2];
    g_assert_cmpstr(norm->name, ==, "forward h.0.ln_1");
    g_assert_cmpstr(product->name, ==, "forward h.0.attn.c_attn");
    g_assert_cmpuint(norm->duration_ns, ==, 1); /* never 0, which would mean unknown */
    trace_free(trace);

    platform->compute[0].points[0].seconds = 1e6;
    platform->memory.points[0].seconds = 1e5;
    trace = synthesise(&config, &job, platform);
    norm = &trace->operators[1], product = &trace->operators[2];
    double by_flops = (double)product->flops * 1e15 / platform->compute[0].points[0].amount;
    double by_bytes = (double)norm->bytes * 1e14 / platform->memory.points[0].amount;
    g_assert_cmpuint(product->duration_ns, ==, (uint64_t)(by_flops + 0.5));
    g_assert_cmpuint(norm->duration_ns, ==, (uint64_t)(by_bytes + 0.5));
    trace_free(trace);
    platform_free(platform);
}

static const struct trace_buffer *buffer_of(const struct trace *trace, const char *name)
{
    for (uint32_t b = 0; b < trace->buffer_count; b++)
        if (g_str_equal(trace->buffers[b].name, name))
            return &trace->buffers[b];
    g_assert_not_reached();
}

static const struct trace_operator *operator_of(const struct trace *trace, const char *name)
{
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (g_str_equal(trace->operators[m].name, name))
            return &trace->operators[m];
    g_assert_not_reached();
}

/* Attention passes twice over the two arrays of scores in its workspace, and eight times over its
 * columns; backward, with dropout, also three times over the scores. */
static void assert_scores(const struct trace *trace, uint64_t scores, uint64_t columns)
{
    uint64_t operands = 2 * buffer_of(trace, "attn.scores")->bytes +
                        buffer_of(trace, "h.0.attn.probabilities")->bytes +
                        buffer_of(trace, "h.0.attn.qkv")->bytes +
                        buffer_of(trace, "h.0.attn")->bytes;
    uint64_t gradients = buffer_of(trace, "h.0.attn.dqkv")->bytes +
                         buffer_of(trace, "h.0.dattn")->bytes;
    g_assert_cmpuint(operator_of(trace, "forward h.0.attn")->bytes, ==, operands + 2 * 8 * columns);
    g_assert_cmpuint(operator_of(trace, "backward h.0.attn")->bytes, ==,
                     operands + gradients + 2 * 8 * columns + 2 * 3 * scores);
}

/* A recomputed layer runs to its end, so that backward takes a forward longer. */
static void test_unfused_recomputation(void)
{
    struct model_config config = small_model(true, 0.1);
    struct model_job job = small_job(MODEL_BF16, 1);
    uint8_t all[3] = {1, 1, 1};
    job.unfused = true;
    job.choices.recompute = all;
    struct platform *platform = nominal_machine();
    struct trace *trace = synthesise(&config, &job, platform);
    static const char *const modules[] = {"ln_1", "attn.c_attn", "attn",      "attn.c_proj",
                                          "ln_2", "mlp.c_fc",    "mlp.c_proj"};
    for (size_t i = 0; i < G_N_ELEMENTS(modules); i++) {
        g_autofree char *first = g_strconcat("forward h.1.", modules[i], NULL);
        g_autofree char *again = g_strconcat("recompute h.1.", modules[i], NULL);
        g_assert_cmpuint(operator_of(trace, again)->duration_ns, ==,
                         operator_of(trace, first)->duration_ns);
    }
    trace_free(trace);
    platform_free(platform);
}

/* Sums the durations of a layer's operators whose names begin with `verb`. */
static uint64_t pass_ns(const struct trace *trace, const char *verb, int32_t layer)
{
    uint64_t sum = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (trace->operators[m].layer == layer && g_str_has_prefix(trace->operators[m].name, verb))
            sum += trace->operators[m].duration_ns;
    return sum;
}

/* The host takes 10 us to launch a kernel. A layer has 25 kernels forward and 33 backward with
 * dropout; a pass takes that long where the device is faster, and its own time where it is slower.
 */
static void test_launches(void)
{
    struct model_config config = small_model(true, 0.1);
    struct model_job job = small_job(MODEL_BF16, 1);
    job.unfused = true;
    struct platform *platform = nominal_machine();
    platform->extra[PLATFORM_LAUNCH].points[0] = (struct platform_point){1, 1e-5};
    struct trace *launched = synthesise(&config, &job, platform);
    g_assert_cmpfloat_with_epsilon((double)pass_ns(launched, "forward", 1), 250e3, 10);
    g_assert_cmpfloat_with_epsilon((double)pass_ns(launched, "backward", 1), 330e3, 10);
    g_assert_cmpfloat_with_epsilon((double)operator_of(launched, "forward embeddings")->duration_ns,
                                   40e3, 1);
    trace_free(launched);

    platform->memory.points[0] = (struct platform_point){1, 1e-6};
    launched = synthesise(&config, &job, platform);
    platform->extra[PLATFORM_LAUNCH].count = 0;
    struct trace *device = synthesise(&config, &job, platform);
    g_assert_cmpuint(pass_ns(device, "forward", 1), >, 250000);
    for (uint32_t m = 0; m < device->operator_count; m++)
        if (device->operators[m].layer >= 0)
            g_assert_cmpuint(device->operators[m].duration_ns, ==,
                             launched->operators[m].duration_ns);
    trace_free(launched);
    trace_free(device);
    platform_free(platform);
}

/* Without fusion, products and passes add up, and attention's pairs lie in memory. */
static void test_unfused(void)
{
    struct model_config config = small_model(true, 0.1);
    struct model_job job = small_job(MODEL_BF16, 1), unfused = job;
    unfused.unfused = true;
    job.gelu_apart = true; /* as it is if nothing is fused */
    struct platform *platform = nominal_machine();
    platform->compute[1].points[0] = (struct platform_point){1, 1e-9};
    platform->memory.points[0] = (struct platform_point){1, 1e-9};
    platform->extra[PLATFORM_LAUNCH].points[0].seconds = 1e-12;
    struct trace *fused_trace = synthesise(&config, &job, platform);
    struct trace *trace = synthesise(&config, &unfused, platform);
    const uint64_t rows = (uint64_t)job.choices.batch * job.sequence, width = config.width;
    const uint64_t pairs = rows * job.sequence, scores = pairs * config.heads;

    /* bf16 probabilities, a mask of bytes, what dropout leaves; scores before and after a pass */
    uint64_t saved = 5 * scores, workspace = 2 * 2 * scores;
    g_assert_cmpuint(buffer_of(trace, "h.0.attn.probabilities")->bytes, ==,
                     (saved + 255) / 256 * 256);
    g_assert_cmpuint(buffer_of(trace, "attn.scores")->bytes, ==, (workspace + 255) / 256 * 256);
    g_assert_true(buffer_of(trace, "h.0.attn.probabilities")->saved);

    const struct trace_operator *attend = operator_of(trace, "forward h.0.attn");
    g_assert_cmpuint(attend->flops, ==, pairs * (4 * width + 5 * config.heads));
    /* Elements a row that are read and written beside the operands. Forward: a bias; a bias and
     * GELU; a bias, dropout and a sum. Backward: the second product and the bias's sum read the
     * gradient again, and the first product GELU's; a norm's operands again, and a sum. */
    const struct {
        const char *name;
        uint64_t passes, columns;
        bool product;
    } more[] = {{"forward h.0.attn.c_attn", 2, 3 * width, true},
                {"forward h.0.mlp.c_fc", 4, config.inner, true},
                {"forward h.0.mlp.c_proj", 6, width, true},
                {"backward h.0.attn.c_attn", 2, 3 * width, true},
                {"backward h.0.mlp.c_fc", 3, config.inner, true},
                {"backward h.0.mlp.c_proj", 2, width, true},
                {"backward h.0.ln_2", 4, width, false},
                {"backward ln_f", 2, width, false}};
    for (size_t i = 0; i < G_N_ELEMENTS(more); i++) {
        const struct trace_operator *op = operator_of(trace, more[i].name);
        const struct trace_operator *fused = operator_of(fused_trace, more[i].name);
        g_assert_cmpuint(op->flops, ==, fused->flops);
        g_assert_cmpuint(op->bytes, ==, fused->bytes + 2 * rows * more[i].passes * more[i].columns);
        g_assert_cmpuint(op->duration_ns, ==, op->bytes + (more[i].product ? op->flops : 0));
        g_assert_cmpuint(fused->duration_ns, ==,
                         MAX(more[i].product ? fused->flops : 0, fused->bytes));
    }
    assert_scores(trace, scores, rows * width);
    /* three copies of the logits in fp32, written and read */
    g_assert_cmpuint(buffer_of(trace, "loss.fp32")->bytes, ==, (rows * 11 * 12 + 255) / 256 * 256);
    g_assert_cmpuint(operator_of(trace, "forward loss")->bytes, ==,
                     operator_of(fused_trace, "forward loss")->bytes +
                         2 * buffer_of(trace, "loss.fp32")->bytes);
    trace_free(fused_trace);
    trace_free(trace);
    platform_free(platform);
}

static void test_host(void)
{
    struct model_config config = small_model(true, 0);
    struct model_job job = small_job(MODEL_FP32, 1);
    g_autofree uint8_t *every = model_every_tensor(&config);
    job.choices.host_embedding = true;
    job.choices.host_update = every;
    struct platform *platform = nominal_machine();
    platform->host_update.points[0] = (struct platform_point){1, 1e-6};
    struct trace *trace = synthesise(&config, &job, platform);
    const struct trace_operator *update =
        &trace->operators[trace->operator_count - trace->tensor_count];
    g_assert_cmpstr(update->name, ==, "update wte.weight");
    g_assert_cmpuint(update->duration_ns, ==, 88 * 1000);
    /* 896 bytes are those of 32 elements' update */
    g_assert_cmpuint(trace->operators[0].bytes, ==, 896);
    g_assert_cmpuint(trace->operators[0].duration_ns, ==, 32 * 1000);
    trace_free(trace);
    platform_free(platform);
}

/* Durations that no clock could add are cut to what a trace may hold. */
static void test_absurd_rates(void)
{
    struct model_config config = small_model(true, 0);
    struct model_job job = small_job(MODEL_FP32, 1);
    g_autofree uint8_t *every = model_every_tensor(&config);
    job.choices.host_update = every;
    struct platform *platform = nominal_machine();
    platform->host_update.points[0] = (struct platform_point){1, 1e300};
    platform->memory.points[0] = (struct platform_point){1, 1e18};
    struct trace *trace = synthesise(&config, &job, platform);
    GError *error = NULL;
    g_assert_true(trace_check(trace, "trace", &error));
    g_assert_no_error(error);
    for (uint32_t m = 0; m < trace->operator_count; m++)
        g_assert_cmpuint(trace->operators[m].duration_ns, ==,
                         trace_duration_ns(1e300, trace->operator_count));
    trace_free(trace);
    platform_free(platform);
}

static void test_without_platform(void)
{
    struct model_config config = small_model(true, 0);
    struct model_job job = small_job(MODEL_FP32, 1);
    struct trace *trace = synthesise(&config, &job, NULL);
    g_assert_cmpfloat(seconds(trace), ==, 0);
    g_assert_false(trace->estimated);
    trace_free(trace);

    GError *error = NULL;
    job.choices.batch = 0;
    g_assert_null(model_synthesise(&config, &job, NULL, &error));
    g_assert_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG);
    g_error_free(error);
}

/* Checks that a trace that is retimed is the one that is synthesised there. */
static void check_retimed(const struct model_config *config, const struct model_job *job,
                          const struct platform *here, const struct platform *there)
{
    GError *error = NULL;
    struct trace *moved = synthesise(config, job, here), *wanted = synthesise(config, job, there);
    g_assert_true(trace_retime(moved, there, trace_products(moved), &error));
    g_assert_no_error(error);
    g_assert_cmpstr(moved->machine, ==, wanted->machine);
    for (uint32_t m = 0; m < moved->operator_count; m++)
        g_assert_cmpuint(moved->operators[m].duration_ns, ==, wanted->operators[m].duration_ns);
    for (uint32_t m = 0; m < moved->operator_count; m++)
        moved->operators[m].flops = moved->operators[m].bytes = 0;
    g_assert_false(trace_retime(moved, there, MODEL_FP32, &error));
    g_assert_error(error, TRACE_ERROR, TRACE_ERROR_INVALID);
    g_clear_error(&error);
    trace_free(moved);
    trace_free(wanted);
}

static void test_retime(void)
{
    static const char *const models[] = {"gpt2", "llama-3.1-8b", "qwen3-8b", "mistral-7b-v0.3"};
    struct platform *here = machine();
    struct platform *there = platform_read(PROJECT_DIR "/platforms/rtx-4090.json", NULL);
    for (size_t i = 0; i < 4 * G_N_ELEMENTS(models); i++) {
        g_autofree char *path = g_strdup_printf(PROJECT_DIR "/models/configs/%s.json",
                                                models[i / 4]);
        struct model_config *config = model_config_read(path, NULL);
        g_assert_nonnull(config);
        g_autofree uint8_t *layers = g_malloc0(config->layers);
        g_autofree uint8_t *updates = model_every_tensor(config);
        memset(layers, 1, config->layers / 2);
        struct model_job job = {.choices = {.batch = 2,
                                            .micro_batches = 1 + i % 2,
                                            .recompute = layers,
                                            .host_embedding = i % 2,
                                            .host_update = i / 2 % 2 ? updates : NULL},
                                .sequence = 1024,
                                .precision = i / 2 % 2 ? MODEL_BF16 : MODEL_FP32};
        check_retimed(config, &job, here, there);
        check_retimed(config, &job, there, here);
        model_config_free(config);
    }
    platform_free(here);
    platform_free(there);
}

/* Products in another precision change nothing else of a model that is known: kernels are launched
 * as before, and attention has its share of the rate. */
static void test_retimed_products(void)
{
    struct model_config config = small_model(true, 0.1);
    struct model_job job = small_job(MODEL_FP32, 1);
    job.unfused = true;
    struct platform *platform = nominal_machine();
    platform->extra[PLATFORM_LAUNCH].points[0] = (struct platform_point){1, 1e-5};
    struct trace *trace = synthesise(&config, &job, platform);
    g_assert_true(trace_retime(trace, platform, MODEL_BF16, NULL));
    g_assert_cmpfloat_with_epsilon((double)pass_ns(trace, "forward", 1), 250e3, 10);
    g_assert_cmpfloat_with_epsilon((double)pass_ns(trace, "backward", 1), 330e3, 10);
    trace_free(trace);
    platform_free(platform);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/synth/175b", test_175b);
    g_test_add_func("/synth/framework", test_framework);
    g_test_add_func("/synth/bounds", test_bounds);
    g_test_add_func("/synth/unfused", test_unfused);
    g_test_add_func("/synth/unfused-recomputation", test_unfused_recomputation);
    g_test_add_func("/synth/launches", test_launches);
    g_test_add_func("/synth/host", test_host);
    g_test_add_func("/synth/absurd-rates", test_absurd_rates);
    g_test_add_func("/synth/without-platform", test_without_platform);
    g_test_add_func("/synth/retime", test_retime);
    g_test_add_func("/synth/retimed-products", test_retimed_products);
    return g_test_run();
}
