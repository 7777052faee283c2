/* Mixtures of experts: how rows spread, and what an iteration with them reads, computes and keeps.
 */
#include "models/expert_rows.h"
#include "models/pipeline.h"
#include "small_model.h"

#include <glib/gstdio.h>
#include <string.h>

enum { EXPERTS = 4, EACH = 2, LAYERS = 3, ROWS = 8, WIDTH = 8, INNER = 24, TRIALS = 300 };

static uint32_t seed(void)
{
    const char *given = g_getenv("PSTAR_SEED");
    uint32_t seed = given ? (uint32_t)g_ascii_strtoull(given, NULL, 10) : g_random_int();
    g_test_message("PSTAR_SEED=%u", seed);
    return seed;
}

/* ---- rows ---- */

static struct model_config experts_of(uint32_t experts, uint32_t each, uint64_t *loads)
{
    return (struct model_config){
        .layers = 1, .experts = experts, .experts_per_token = each, .expert_loads = loads};
}

/* Nothing is lost, nobody has more rows than there are, who has no load has no rows, and who has
 * more load than another has no fewer rows. */
static void check_rows(const struct model_config *config, uint64_t n, const uint64_t *rows)
{
    const uint64_t *loads = config->expert_loads;
    uint64_t sum = 0;
    for (uint32_t e = 0; e < config->experts; e++) {
        sum += rows[e];
        g_assert_cmpuint(rows[e], <=, n);
        if (loads && !loads[e])
            g_assert_cmpuint(rows[e], ==, 0);
        for (uint32_t other = 0; loads && other < e; other++)
            if (loads[other] > loads[e])
                g_assert_cmpuint(rows[other] + 1, >=, rows[e]);
    }
    g_assert_cmpuint(sum, ==, n * config->experts_per_token);
}

static void test_rows(void)
{
    enum { MOST = 40 };
    GRand *random = g_rand_new_with_seed(seed());
    uint64_t loads[MOST], rows[MOST], again[MOST];
    for (int trial = 0; trial < TRIALS; trial++) {
        uint32_t experts = (uint32_t)g_rand_int_range(random, 1, MOST + 1);
        uint32_t each = (uint32_t)g_rand_int_range(random, 1, (gint32)experts + 1);
        uint64_t n = (uint64_t)g_rand_int_range(random, 1, 3000);
        struct model_config config = experts_of(experts, each,
                                                g_rand_boolean(random) ? loads : NULL);
        for (uint32_t e = 0; e < experts; e++)
            loads[e] = (uint64_t)g_rand_int_range(random, 0, 1 << g_rand_int_range(random, 1, 30)) +
                       (e < each);
        expert_rows(&config, 0, n, rows);
        check_rows(&config, n, rows);
        config.expert_loads = rows; /* rows are loads that give themselves */
        expert_rows(&config, 0, n, again);
        g_assert_cmpmem(rows, experts * sizeof *rows, again, experts * sizeof *again);
    }
    g_rand_free(random);
}

static void test_known_rows(void)
{
    uint64_t loads[] = {4, 2, 1, 1}, rows[4];
    struct model_config config = experts_of(4, 2, loads);
    const uint64_t shares[] = {8, 4, 2, 2}, capped[] = {1, 1, 0, 0};
    expert_rows(&config, 0, 8, rows);
    g_assert_cmpmem(rows, sizeof rows, shares, sizeof shares);
    expert_rows(&config, 0, 1, rows);
    g_assert_cmpmem(rows, sizeof rows, capped, sizeof capped);
    config.expert_loads = NULL;
    const uint64_t balanced[] = {3, 3, 2, 2};
    expert_rows(&config, 0, 5, rows);
    g_assert_cmpmem(rows, sizeof rows, balanced, sizeof balanced);
}

static void test_loads(void)
{
    static const char *const good[] = {"4,2,1,1", "0,0,1,1"};
    static const struct {
        const char *text, *named;
    } bad[] = {{"1,2,3", "numbers for 4 experts"},
               {"1,0,0,0", "2 different experts, but only 1"},
               {"1,2,3,-4", "must be whole numbers"},
               {"/nowhere", "No such file"}};
    struct model_config config = small_decoder(&family_mixtral, false), gpt2 = small_model(true, 0);
    GError *error = NULL;
    g_assert_true(expert_loads_choose(&config, NULL, &error));
    g_assert_true(expert_loads_choose(&config, "balanced", &error));
    g_assert_null(config.expert_loads);
    for (size_t i = 0; i < G_N_ELEMENTS(good); i++) {
        g_assert_true(expert_loads_choose(&config, good[i], &error));
        g_assert_no_error(error);
        g_assert_cmpuint(config.expert_loads[LAYERS * EXPERTS - 1], ==, 1);
    }
    g_clear_pointer(&config.expert_loads, g_free);
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_assert_false(expert_loads_choose(&config, bad[i].text, &error));
        g_assert_nonnull(error);
        if (!strstr(error->message, bad[i].named))
            g_error("'%s' is not in: %s", bad[i].named, error->message);
        g_clear_error(&error);
    }
    g_assert_null(config.expert_loads);
    g_assert_false(expert_loads_choose(&gpt2, "1,1", &error));
    g_assert_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG);
    g_clear_error(&error);
}

static void test_loads_of_layers(void)
{
    struct model_config config = small_decoder(&family_mixtral, false);
    GError *error = NULL;
    char *path;
    int file = g_file_open_tmp("loads-XXXXXX.json", &path, &error);
    g_assert_no_error(error);
    g_assert_true(g_close(file, NULL));
    g_assert_true(g_file_set_contents(path, "[[1,1,0,0],[0,3,4,0],[1,2,3,4]]", -1, NULL));
    g_assert_true(expert_loads_choose(&config, path, &error));
    const uint64_t expected[] = {1, 1, 0, 0, 0, 3, 4, 0, 1, 2, 3, 4};
    g_assert_cmpmem(config.expert_loads, sizeof expected, expected, sizeof expected);
    static const char *const bad[] = {"[[1,1,0,0]]", "[[1,1,0,0],[1,1,0,0],[1,1,0,0.5]]", "[1,1",
                                      "7"};
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_assert_true(g_file_set_contents(path, bad[i], -1, NULL));
        g_assert_false(expert_loads_choose(&config, path, &error));
        g_assert_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG);
        g_assert_nonnull(strstr(error->message, path));
        g_clear_error(&error);
    }
    g_free(config.expert_loads);
    g_unlink(path);
    g_free(path);
}

/* ---- iterations ---- */

static const struct trace_operator *named(const struct trace *trace, const char *name)
{
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (g_str_equal(trace->operators[m].name, name))
            return &trace->operators[m];
    return NULL;
}

static uint64_t flops(const struct model_iteration *iteration, const char *name)
{
    const struct trace_operator *op = named(iteration->trace, name);
    if (!op)
        g_error("no operator '%s'", name);
    return op->flops;
}

static uint64_t bytes(const struct model_iteration *iteration, const char *name)
{
    const struct trace_operator *op = named(iteration->trace, name);
    if (!op)
        g_error("no operator '%s'", name);
    return op->bytes;
}

static uint64_t buffer(const struct model_iteration *iteration, const char *name)
{
    const struct trace *trace = iteration->trace;
    for (uint32_t b = 0; b < trace->buffer_count; b++)
        if (g_str_equal(trace->buffers[b].name, name))
            return trace->buffers[b].bytes;
    g_error("no buffer '%s'", name);
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

#define LAYER "layers.0.mlp."

/* Of an expert with `rows` rows: two products, SiLU and its product; twice as much in backward. */
static void check_expert(const struct model_iteration *iteration, uint64_t rows)
{
    uint64_t up = WIDTH * 2 * INNER, down = INNER * WIDTH;
    g_assert_cmpuint(flops(iteration, "forward " LAYER "experts.0.gate_up_proj"), ==,
                     rows * (2 * up + 5 * INNER));
    g_assert_cmpuint(flops(iteration, "forward " LAYER "experts.0.down_proj"), ==, rows * 2 * down);
    g_assert_cmpuint(flops(iteration, "backward " LAYER "experts.0.down_proj"), ==,
                     rows * 4 * down);
    g_assert_cmpuint(flops(iteration, "backward " LAYER "experts.0.gate_up_proj"), ==,
                     rows * (4 * up + 11 * INNER));
    /* The weight; what its rows read and make. Backward, the gradient besides. */
    g_assert_cmpuint(bytes(iteration, "forward " LAYER "experts.0.gate_up_proj"), ==,
                     4 * (up + rows * (WIDTH + 3 * INNER)));
    g_assert_cmpuint(bytes(iteration, "forward " LAYER "experts.0.down_proj"), ==,
                     4 * (down + rows * (INNER + WIDTH)));
    g_assert_cmpuint(bytes(iteration, "backward " LAYER "experts.0.down_proj"), ==,
                     4 * (2 * down + rows * (WIDTH + 2 * INNER)));
    g_assert_cmpuint(bytes(iteration, "backward " LAYER "experts.0.gate_up_proj"), ==,
                     4 * (2 * up + rows * (2 * WIDTH + 5 * INNER)));
}

static void check_rest(const struct model_iteration *iteration)
{
    uint64_t all = ROWS * EACH;
    g_assert_cmpuint(flops(iteration, "forward " LAYER "gate"), ==,
                     ROWS * (EXPERTS * (2 * WIDTH + 5 + EACH) + 2 * EACH));
    g_assert_cmpuint(flops(iteration, "backward " LAYER "gate"), ==,
                     ROWS * (EXPERTS * (4 * WIDTH + 4) + 4 * EACH + WIDTH));
    g_assert_cmpuint(flops(iteration, "forward " LAYER "dispatch"), ==, 0);
    g_assert_cmpuint(flops(iteration, "backward " LAYER "dispatch"), ==, ROWS * WIDTH);
    g_assert_cmpuint(flops(iteration, "forward " LAYER "experts"), ==, 2 * all * WIDTH);
    g_assert_cmpuint(flops(iteration, "backward " LAYER "experts"), ==, 3 * all * WIDTH);
    g_assert_cmpuint(buffer(iteration, LAYER "dispatched"), ==, aligned(4 * all * WIDTH));
    g_assert_cmpuint(buffer(iteration, LAYER "gate_up"), ==, aligned(4 * all * 2 * INNER));
    g_assert_cmpuint(buffer(iteration, LAYER "inner"), ==, aligned(4 * all * INNER));
    g_assert_cmpuint(buffer(iteration, LAYER "down"), ==, aligned(4 * all * WIDTH));
    g_assert_cmpuint(buffer(iteration, LAYER "probabilities"), ==, aligned(4 * ROWS * EXPERTS));
    g_assert_cmpuint(buffer(iteration, LAYER "routes"), ==, aligned(4 * (3 * all + EXPERTS + 1)));
}

/* Buffers are the same for any load, and so is the sum of all experts' operations. */
static void test_by_hand(void)
{
    uint64_t loads[LAYERS * EXPERTS] = {6, 6, 2, 2, 6, 6, 2, 2, 6, 6, 2, 2};
    struct model_config config = small_decoder(&family_mixtral, false);
    struct model_job job = small_job(MODEL_FP32, 1);
    struct model_iteration *balanced = new_iteration(&config, &job);
    config.expert_loads = loads;
    struct model_iteration *loaded = new_iteration(&config, &job);
    check_expert(balanced, 4);
    check_expert(loaded, 6);
    check_rest(balanced);
    check_rest(loaded);
    uint64_t sums[2] = {0, 0};
    for (uint32_t m = 0; m < balanced->trace->operator_count; m++) {
        sums[0] += balanced->trace->operators[m].flops;
        sums[1] += loaded->trace->operators[m].flops;
    }
    g_assert_cmpuint(sums[0], ==, sums[1]);
    g_assert_cmpmem(
        balanced->trace->non_model_bytes, balanced->trace->operator_count * sizeof(uint64_t),
        loaded->trace->non_model_bytes, loaded->trace->operator_count * sizeof(uint64_t));
    model_iteration_free(balanced);
    model_iteration_free(loaded);
}

static bool accesses(const struct trace *trace, const struct trace_operator *op,
                     enum trace_list list)
{
    for (uint32_t i = 0; i < op->access_count; i++)
        if (trace->accesses[op->first_access + i].list == list)
            return true;
    return false;
}

/* An expert without rows is not read: forward leaves it out, and backward only says that its
 * gradients are zeros, which the update needs. If it is frozen, nothing touches it. */
static void test_unused(void)
{
    uint64_t loads[LAYERS * EXPERTS] = {1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0};
    struct model_config config = small_decoder(&family_qwen3_moe, false);
    struct model_job job = small_job(MODEL_FP32, 1);
    config.expert_loads = loads;
    struct model_iteration *iteration = new_iteration(&config, &job);
    const struct trace *trace = iteration->trace;
    g_assert_null(named(trace, "forward " LAYER "experts.2.gate_up_proj"));
    const struct trace_operator *backward = named(trace, "backward " LAYER "experts.2.down_proj");
    g_assert_nonnull(backward);
    g_assert_false(accesses(trace, backward, TRACE_PARAM));
    g_assert_true(accesses(trace, backward, TRACE_GRAD));
    g_assert_cmpuint(backward->flops, ==, 0);
    g_assert_nonnull(named(trace, "update model.layers.0.mlp.experts.2.gate_up_proj.weight"));
    model_iteration_free(iteration);

    uint8_t *frozen = model_every_tensor(&config);
    frozen[0] = 0;
    job.choices.frozen = frozen;
    iteration = new_iteration(&config, &job);
    for (uint32_t m = 0; m < iteration->trace->operator_count; m++)
        g_assert_null(strstr(iteration->trace->operators[m].name, "experts.2."));
    g_assert_nonnull(named(iteration->trace, "backward " LAYER "experts.1.gate_up_proj"));
    model_iteration_free(iteration);
    g_free(frozen);
}

/* Each tensor of a model whose experts have no rows is in one stage, with its update. */
static void test_stages(void)
{
    uint64_t loads[LAYERS * EXPERTS] = {1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1};
    struct model_config config = small_decoder(&family_mixtral, false);
    struct model_job job = small_job(MODEL_FP32, 2);
    const struct pipeline_shape shape = {.stages = 3, .parts = 1};
    config.expert_loads = loads;
    struct model_iteration *whole = new_iteration(&config, &job);
    uint32_t tensors = 0;
    for (uint32_t stage = 0; stage < shape.stages; stage++) {
        struct model_iteration *part = pipeline_stage(whole, &shape, stage);
        GError *error = NULL;
        g_assert_true(trace_check(part->trace, "stage", &error));
        g_assert_no_error(error);
        tensors += part->trace->tensor_count;
        for (tensor_id t = 0; t < part->trace->tensor_count; t++) {
            const char *name = part->trace->tensors[t].name;
            if (strstr(name, ".experts."))
                g_assert_cmpint(name[strlen("model.layers.")], ==, '0' + (int)stage);
        }
        model_iteration_free(part);
    }
    g_assert_cmpuint(tensors, ==, whole->trace->tensor_count);
    model_iteration_free(whole);
}

/* Adapters are beside attention's products, and experts stay as they are. */
static void test_adapters(void)
{
    struct model_config config = small_decoder(&family_mixtral, false);
    config.lora_rank = 2;
    const struct model_layout layout = model_layout_of(&config);
    uint32_t adapters = 0;
    for (uint32_t t = 0; t < layout.count; t++) {
        struct model_tensor tensor;
        g_autofree char *name = model_tensor_describe(&config, &layout, t, &tensor);
        struct model_tensor found;
        g_assert_true(model_tensor_find(&config, name, &found));
        g_assert_cmpuint(found.expert, ==, tensor.expert);
        adapters += tensor.adapter != MODEL_NO_ADAPTER;
        if (tensor.adapter != MODEL_NO_ADAPTER)
            g_assert_nonnull(strstr(name, "self_attn"));
    }
    g_assert_cmpuint(adapters, ==, LAYERS * 4 * 2);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/experts/rows", test_rows);
    g_test_add_func("/experts/known-rows", test_known_rows);
    g_test_add_func("/experts/loads", test_loads);
    g_test_add_func("/experts/loads-of-layers", test_loads_of_layers);
    g_test_add_func("/experts/by-hand", test_by_hand);
    g_test_add_func("/experts/unused", test_unused);
    g_test_add_func("/experts/stages", test_stages);
    g_test_add_func("/experts/adapters", test_adapters);
    return g_test_run();
}
