/* What ranks exchange: what one sends others receive, and a step's bytes in closed form. */
#include "models/rank_traffic.h"

#include <glib/gstdio.h>

static struct model_config *config_of(bool tied)
{
    g_autofree char *path = NULL;
    g_autofree char *text =
        g_strdup_printf("{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 96, \"n_head\": 2, "
                        "\"n_positions\": 40, \"vocab_size\": 300, \"tie_word_embeddings\": %s}",
                        tied ? "true" : "false");
    int file = g_file_open_tmp("config-XXXXXX.json", &path, NULL);
    g_assert_cmpint(file, >=, 0);
    g_assert_true(g_close(file, NULL) && g_file_set_contents(path, text, -1, NULL));
    struct model_config *config = model_config_read(path, NULL);
    g_assert_nonnull(config);
    g_unlink(path);
    return config;
}

static struct model_iteration *iteration_of(const struct model_config *config,
                                            enum model_precision precision, uint32_t ranks,
                                            uint32_t each, bool shared)
{
    const struct model_job job = {
        .choices = {.batch = 2, .micro_batches = ranks * each, .stage = shared ? 3 : 2},
        .sequence = 16,
        .precision = precision,
        .ranks = ranks};
    struct model_iteration *iteration = model_iteration_new(config, &job, NULL);
    g_assert_nonnull(iteration);
    return iteration;
}

static struct rank_traffic sum_of(const struct model_iteration *iteration)
{
    struct rank_traffic sum = {0, 0};
    for (uint32_t r = 0; r < model_ranks(&iteration->job); r++) {
        struct rank_traffic traffic = rank_traffic_of(iteration, r);
        sum.sent_bytes += traffic.sent_bytes;
        sum.received_bytes += traffic.received_bytes;
    }
    return sum;
}

static uint64_t blocks_of(const struct trace *trace)
{
    uint64_t blocks = 0;
    for (uint32_t t = 0; t < trace->tensor_count; t++) {
        uint64_t block = (trace->tensors[t].elements + 64 * 1024 - 1) / (64 * 1024) * 64;
        blocks += (trace->tensors[t].elements + block - 1) / block;
    }
    return blocks;
}

/* All ranks together, without gathers: p - 1 times the gradients of every micro-batch's owner, the
 * updated parameters, 8 bytes a block, and losses. */
static uint64_t expected(const struct model_iteration *iteration, uint64_t each)
{
    const struct trace *trace = iteration->trace;
    uint64_t p = trace->ranks, others = p - 1, element = trace->list_element_bytes[TRACE_PARAM];
    uint64_t all = 0, tables = 0;
    for (uint32_t t = 0; t < trace->tensor_count; t++) {
        const struct trace_tensor *tensor = &trace->tensors[t];
        all += tensor->elements;
        tables += t == 0 && iteration->config->tied ? tensor->elements : 0;
    }
    uint64_t updated = trace->shared_parameters ? 0 : all;
    return others * (each * (all + tables) * 4 + updated * element + blocks_of(trace) * 8 +
                     p * (each + 1) * 8);
}

static void test_closed_form(void)
{
    for (int i = 0; i < 200; i++) {
        bool tied = g_test_rand_int_range(0, 2), shared = g_test_rand_int_range(0, 2);
        enum model_precision precision = g_test_rand_int_range(0, 2) ? MODEL_BF16 : MODEL_FP32;
        uint32_t ranks = (uint32_t)g_test_rand_int_range(2, 20);
        uint32_t each = (uint32_t)g_test_rand_int_range(1, 4);
        struct model_config *config = config_of(tied);
        struct model_iteration *iteration = iteration_of(config, precision, ranks, each, shared);
        struct rank_traffic sum = sum_of(iteration);
        g_assert_cmpuint(sum.sent_bytes, ==, sum.received_bytes);
        g_assert_cmpuint(sum.sent_bytes, ==, expected(iteration, each));
        model_iteration_free(iteration);
        model_config_free(config);
    }
}

static void test_one_rank(void)
{
    struct model_config *config = config_of(true);
    struct model_iteration *iteration = iteration_of(config, MODEL_FP32, 1, 3, true);
    g_assert_cmpuint(rank_traffic_of(iteration, 0).sent_bytes, ==, 0);
    g_assert_false(iteration->trace->shared_parameters);
    model_iteration_free(iteration);
    model_config_free(config);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/rank_traffic/closed_form", test_closed_form);
    g_test_add_func("/rank_traffic/one", test_one_rank);
    return g_test_run();
}
