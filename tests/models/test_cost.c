/* Operations and bytes against formulas that are counted by hand, from the published cost of a
 * transformer: 6 operations a token and parameter of a matrix, and attention's pairs. */
#include "small_model.h"

#include <string.h>

static struct model_config read_config(const char *name)
{
    char *path = g_strdup_printf(PROJECT_DIR "/models/configs/%s.json", name);
    GError *error = NULL;
    struct model_config *config = model_config_read(path, &error);
    g_assert_no_error(error);
    struct model_config copy = *config;
    copy.name = "read";
    model_config_free(config);
    g_free(path);
    return copy;
}

static uint64_t flops_of_phase(const struct trace *trace, enum trace_phase phase)
{
    uint64_t flops = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (trace->operators[m].phase == phase)
            flops += trace->operators[m].flops;
    return flops;
}

/* Elements of all matrices that a token is multiplied with. */
static uint64_t matrix_elements(const struct model_config *config)
{
    uint64_t h = config->width, f = config->inner, transform = config->head_transform ? h * h : 0;
    return config->layers * (4 * h * h + 2 * h * f) + transform + config->vocabulary * h;
}

/* Pairs of a query and a key at or before it, or any, times the columns of all heads. */
static uint64_t attention_columns(const struct model_config *config, const struct model_job *job)
{
    uint64_t t = job->sequence, pairs = config->bidirectional ? t * t : t * (t + 1) / 2;
    return config->layers * job->choices.batch * pairs * config->width;
}

static void test_step(void)
{
    static const char *const names[] = {"demo-11m",          "gpt2",
                                        "gpt2-xl",           "patrickstar-175b",
                                        "bert-base-uncased", "bert-large-uncased"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        struct model_config config = read_config(names[i]);
        struct model_job job = {.choices = {.batch = 2, .micro_batches = 3},
                                .sequence = config.positions};
        struct model_iteration *iteration = new_iteration(&config, &job);
        uint64_t tokens = (uint64_t)job.choices.batch * job.sequence * job.choices.micro_batches;
        uint64_t pairs = attention_columns(&config, &job) * job.choices.micro_batches;
        uint64_t forward = 2 * tokens * matrix_elements(&config) + 4 * pairs;
        uint64_t backward = 4 * tokens * matrix_elements(&config) + 10 * pairs;
        double forward_share = (double)flops_of_phase(iteration->trace, TRACE_FORWARD) / forward;
        double backward_share = (double)flops_of_phase(iteration->trace, TRACE_BACKWARD) / backward;
        /* Norms, GELU, softmax and the like come on top: less than 3 %. */
        g_assert_cmpfloat(forward_share, >=, 1);
        g_assert_cmpfloat(forward_share, <, 1.03);
        g_assert_cmpfloat(backward_share, >=, 1);
        g_assert_cmpfloat(backward_share, <, 1.03);
        model_iteration_free(iteration);
    }
}

/* Recomputing every layer adds its forward, all but the last product of each. */
static void test_recompute(void)
{
    struct model_config config = read_config("gpt2");
    uint8_t all[12];
    memset(all, 1, sizeof all);
    struct model_job job = {.choices = {.batch = 1, .micro_batches = 1}, .sequence = 1024};
    struct model_iteration *kept = new_iteration(&config, &job);
    job.choices.recompute = all;
    struct model_iteration *again = new_iteration(&config, &job);
    uint64_t layers = 0;
    for (uint32_t m = 0; m < kept->forward_end; m++) {
        const struct trace_operator *op = &kept->trace->operators[m];
        if (op->layer >= 0 && !g_str_has_suffix(op->name, "mlp.c_proj"))
            layers += op->flops;
    }
    g_assert_cmpuint(flops_of_phase(again->trace, TRACE_BACKWARD), ==,
                     flops_of_phase(kept->trace, TRACE_BACKWARD) + layers);
    model_iteration_free(kept);
    model_iteration_free(again);
}

static const struct trace_operator *named(const struct trace *trace, const char *name)
{
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (g_str_equal(trace->operators[m].name, name))
            return &trace->operators[m];
    g_error("no operator '%s'", name);
}

/* N = 8, H = 8, F = 24, V = 11; every buffer takes 256 bytes but [N,F] in fp32, which takes 768,
 * and [N,3H] of qkv, the same; logits, whose rows lie 64 elements apart, take 2048. */
static void test_bytes_by_hand(void)
{
    struct model_config config = small_model(true, 0);
    struct model_job job = small_job(MODEL_FP32, 1);
    struct model_iteration *iteration = new_iteration(&config, &job);
    const struct trace *trace = iteration->trace;
    uint64_t weight = 8 * 24 * 4, bias = 24 * 4;
    g_assert_cmpuint(named(trace, "forward h.0.attn.c_attn")->bytes, ==, weight + bias + 256 + 768);
    /* weight and bias; x; pre and its GELU */
    g_assert_cmpuint(named(trace, "forward h.0.mlp.c_fc")->bytes, ==,
                     weight + bias + 256 + 768 + 768);
    /* weight read, gradients written; dy read and changed; x, pre; dx */
    g_assert_cmpuint(named(trace, "backward h.0.mlp.c_fc")->bytes, ==,
                     weight + weight + bias + 2 * 768 + 256 + 768 + 256);
    g_assert_cmpuint(named(trace, "forward loss")->bytes, ==, 2 * 2048 + 256);
    /* 8 rows of wte and 4 of wpe; tokens; x */
    g_assert_cmpuint(named(trace, "forward embeddings")->bytes, ==, 8 * 32 + 4 * 32 + 256 + 256);
    /* parameter, both moments: read and written; gradient read */
    g_assert_cmpuint(named(trace, "update h.0.mlp.c_fc.bias")->bytes, ==, 7 * bias);
    model_iteration_free(iteration);
    job.precision = MODEL_BF16;
    job.gelu_apart = true;
    iteration = new_iteration(&config, &job);
    /* GELU_BACKWARD in bf16: the workspace is written and read, the weight's gradient replaces it
     */
    g_assert_cmpuint(named(iteration->trace, "backward h.0.mlp.c_fc")->bytes, ==,
                     2 * weight / 2 + bias / 2 + 2 * 512 + 256 + 512 + 256 + 2 * weight);
    model_iteration_free(iteration);
}

/* Joined to the product behind it, GELU's derivative has the same operations. What is left out is a
 * second pass over the gradient of what GELU read. */
static void test_joined_slope(void)
{
    struct model_config config = small_model(true, 0);
    struct model_job job = small_job(MODEL_BF16, 1);
    struct model_iteration *joined = new_iteration(&config, &job);
    job.gelu_apart = true;
    struct model_iteration *apart = new_iteration(&config, &job);
    const uint64_t elements = 8 * 24, columns = 24, element = 2, pass = 512;
    const struct trace_operator *down = named(joined->trace, "backward h.0.mlp.c_proj");
    const struct trace_operator *up = named(joined->trace, "backward h.0.mlp.c_fc");
    const struct trace_operator *apart_down = named(apart->trace, "backward h.0.mlp.c_proj");
    const struct trace_operator *apart_up = named(apart->trace, "backward h.0.mlp.c_fc");
    g_assert_cmpuint(down->flops, ==, apart_down->flops + (16 + 1) * elements);
    g_assert_cmpuint(up->flops, ==, apart_up->flops - (16 + 1) * elements);
    g_assert_cmpuint(down->bytes, ==, apart_down->bytes + pass + element * columns);
    g_assert_cmpuint(up->bytes, ==, apart_up->bytes - 2 * pass - element * columns);
    model_iteration_free(joined);
    model_iteration_free(apart);
}

static void test_flops_by_hand(void)
{
    struct model_config config = small_model(true, 0.1);
    struct model_job job = small_job(MODEL_FP32, 1);
    struct model_iteration *iteration = new_iteration(&config, &job);
    const struct trace *trace = iteration->trace;
    g_assert_cmpuint(named(trace, "forward h.0.attn.c_attn")->flops, ==, 2 * 8 * 8 * 24 + 8 * 24);
    g_assert_cmpuint(named(trace, "backward h.0.attn.c_attn")->flops, ==, 4 * 8 * 8 * 24 + 8 * 24);
    /* a bias, a dropout and a sum an element */
    g_assert_cmpuint(named(trace, "forward h.0.attn.c_proj")->flops, ==, 2 * 8 * 8 * 8 + 3 * 8 * 8);
    /* 2 sequences of 10 pairs, 8 columns in 2 heads */
    g_assert_cmpuint(named(trace, "forward h.0.attn")->flops, ==, 20 * (4 * 8 + 5 * 2));
    g_assert_cmpuint(named(trace, "backward lm_head")->flops, ==, 4 * 8 * 8 * 11);
    model_iteration_free(iteration);

    config.tied = false;
    config.labels = 3;
    iteration = new_iteration(&config, &job);
    g_assert_cmpuint(named(iteration->trace, "backward score")->flops, ==, 4 * 8 * 8 * 3);
    model_iteration_free(iteration);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/cost/step", test_step);
    g_test_add_func("/cost/recompute", test_recompute);
    g_test_add_func("/cost/bytes-by-hand", test_bytes_by_hand);
    g_test_add_func("/cost/joined-slope", test_joined_slope);
    g_test_add_func("/cost/flops-by-hand", test_flops_by_hand);
    return g_test_run();
}
