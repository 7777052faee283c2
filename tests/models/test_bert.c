/* BERT: what its config says, and what its iteration reads, computes and keeps, counted by hand. */
#include "small_model.h"

#include <glib/gstdio.h>
#include <string.h>

#define BERT                                                                             \
    "\"model_type\":\"bert\",\"num_hidden_layers\":2,\"hidden_size\":8,"                 \
    "\"num_attention_heads\":2,\"intermediate_size\":12,\"max_position_embeddings\":16," \
    "\"vocab_size\":32"

static char *new_file(void)
{
    char *path;
    int descriptor = g_file_open_tmp("config-XXXXXX.json", &path, NULL);
    g_assert_cmpint(descriptor, >=, 0);
    g_close(descriptor, NULL);
    return path;
}

/* `more` are keys behind those of BERT. */
static struct model_config *read_with(const char *more, GError **error)
{
    g_autofree char *path = new_file(), *text = g_strdup_printf("{" BERT "%s}", more);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
    struct model_config *config = model_config_read(path, error);
    g_unlink(path);
    return config;
}

static void test_defaults(void)
{
    GError *error = NULL;
    struct model_config *config = read_with("", &error);
    g_assert_no_error(error);
    g_assert_cmpstr(config->name, ==, "bert 2x8, vocabulary 32");
    g_assert_cmpuint(config->token_types, ==, 2);
    g_assert_true(config->tied);
    g_assert_true(config->bidirectional);
    g_assert_cmpint(config->activation, ==, MODEL_GELU_EXACT);
    g_assert_cmpfloat(config->attention_dropout, ==, 0.1);
    g_assert_cmpfloat(config->residual_dropout, ==, 0.1);
    g_assert_cmpfloat(config->embedding_dropout, ==, 0.1);
    g_assert_cmpfloat(config->norm_epsilon, ==, 1e-12);
    model_config_free(config);
}

static void test_round_trip(void)
{
    GError *error = NULL;
    struct model_config *config = read_with(
        ",\"architectures\":[\"BertForMaskedLM\"],\"type_vocab_size\":3,"
        "\"hidden_act\":\"gelu_new\",\"position_embedding_type\":\"absolute\","
        "\"attention_probs_dropout_prob\":0.3,\"hidden_dropout_prob\":0.2,\"layer_norm_eps\":1e-6",
        &error);
    g_assert_no_error(error);
    g_autofree char *path = new_file();
    g_assert_true(model_config_write(config, path, &error));
    struct model_config *again = model_config_read(path, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(again->token_types, ==, 3);
    g_assert_cmpint(again->activation, ==, MODEL_GELU_TANH);
    g_assert_cmpfloat(again->attention_dropout, ==, 0.3);
    g_assert_cmpfloat(again->residual_dropout, ==, 0.2);
    g_assert_cmpfloat(again->embedding_dropout, ==, 0.2);
    g_assert_cmpfloat(again->norm_epsilon, ==, 1e-6);
    g_assert_cmpuint(model_config_parameters(again), ==, model_config_parameters(config));
    model_config_free(again);
    model_config_free(config);
    g_unlink(path);
}

/* Each differs from a good file in one key, which the message must name. */
static void test_refused(void)
{
    static const struct {
        const char *more;
        enum model_error code;
        const char *named[2];
    } bad[] = {
        {",\"architectures\":[\"BertForPreTraining\"]",
         MODEL_ERROR_UNSUPPORTED,
         {"BertForPreTraining", "only \"BertForMaskedLM\""}},
        {",\"architectures\":[\"BertModel\"]",
         MODEL_ERROR_UNSUPPORTED,
         {"architectures", "BertModel"}},
        {",\"is_decoder\":true", MODEL_ERROR_UNSUPPORTED, {"is_decoder", "true"}},
        {",\"add_cross_attention\":true", MODEL_ERROR_UNSUPPORTED, {"add_cross_attention", "true"}},
        {",\"tie_word_embeddings\":false",
         MODEL_ERROR_UNSUPPORTED,
         {"tie_word_embeddings", "false"}},
        {",\"position_embedding_type\":\"relative_key\"",
         MODEL_ERROR_UNSUPPORTED,
         {"position_embedding_type", "relative_key"}},
        {",\"hidden_act\":\"relu\"", MODEL_ERROR_UNSUPPORTED, {"hidden_act", "relu"}},
        {",\"pruned_heads\":{\"1\":[0]}", MODEL_ERROR_UNSUPPORTED, {"pruned_heads", "[0]"}},
        {",\"type_vocab_size\":0", MODEL_ERROR_CONFIG, {"type_vocab_size", "0"}},
        {",\"hidden_dropout_prob\":1", MODEL_ERROR_CONFIG, {"hidden_dropout_prob", "1"}},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        GError *error = NULL;
        g_assert_null(read_with(bad[i].more, &error));
        g_assert_error(error, MODEL_ERROR, (int)bad[i].code);
        for (size_t n = 0; n < G_N_ELEMENTS(bad[i].named); n++)
            if (!strstr(error->message, bad[i].named[n]))
                g_error("'%s' is not in: %s", bad[i].named[n], error->message);
        g_error_free(error);
    }
}

/* The tensors outside of the layers, in the order in which forward reads them. */
static void test_tensors(void)
{
    static const char *const first[] = {
        "bert.embeddings.word_embeddings.weight", "bert.embeddings.position_embeddings.weight",
        "bert.embeddings.token_type_embeddings.weight", "bert.embeddings.LayerNorm.weight",
        "bert.embeddings.LayerNorm.bias"};
    static const char *const last[] = {
        "cls.predictions.transform.dense.weight", "cls.predictions.transform.dense.bias",
        "cls.predictions.transform.LayerNorm.weight", "cls.predictions.transform.LayerNorm.bias",
        "cls.predictions.bias"};
    struct model_config config = small_decoder(&family_bert, true);
    const struct model_layout layout = model_layout_of(&config);
    g_assert_cmpuint(layout.first_layer, ==, G_N_ELEMENTS(first));
    g_assert_cmpuint(layout.layer_tensors, ==, 16);
    g_assert_cmpuint(layout.count - layout.layers_end, ==, G_N_ELEMENTS(last));
    for (uint32_t t = 0; t < layout.count; t++) {
        struct model_tensor tensor;
        g_autofree char *name = model_tensor_describe(&config, &layout, t, &tensor);
        g_assert_true(model_tensor_find(&config, name, &tensor));
        if (t < layout.first_layer)
            g_assert_cmpstr(name, ==, first[t]);
        else if (t >= layout.layers_end)
            g_assert_cmpstr(name, ==, last[t - layout.layers_end]);
        g_assert_cmpint(tensor.head, ==, t == layout.classifier_bias);
    }
}

static const struct trace_operator *named(const struct trace *trace, const char *name)
{
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (g_str_equal(trace->operators[m].name, name))
            return &trace->operators[m];
    g_error("no operator '%s'", name);
}

/* N = 8, H = 8, F = 24, V = 11, T = 4, B = 2, 4 heads. Every pair of a sequence's tokens counts, 16
 * of them; the embedding adds three rows; a norm's dropout is one operation an element. */
static void test_flops(void)
{
    struct model_config config = small_decoder(&family_bert, true);
    config.residual_dropout = config.embedding_dropout = 0.1;
    struct model_job job = small_job(MODEL_FP32, 1);
    struct model_iteration *iteration = new_iteration(&config, &job);
    const struct {
        const char *name;
        uint64_t flops;
    } expected[] = {
        {"forward embeddings", 8 * 8 * 2},
        {"forward bert.embeddings.LayerNorm", 8 * 8 * (7 + 1)},
        {"backward bert.embeddings.LayerNorm", 8 * 8 * (12 + 1)},
        {"forward bert.encoder.layer.1.attention.self.key", 2 * 8 * 8 * 8 + 8 * 8},
        {"forward bert.encoder.layer.1.attention.self", 2 * 16 * (4 * 8 + 5 * 4)},
        {"backward bert.encoder.layer.1.attention.self", 2 * 16 * (10 * 8 + 5 * 4) + 2 * 8 * 8},
        {"forward bert.encoder.layer.1.attention.output.dense", 2 * 8 * 8 * 8 + 3 * 8 * 8},
        {"forward bert.encoder.layer.1.attention.output.LayerNorm", 8 * 8 * 7},
        {"forward bert.encoder.layer.1.intermediate.dense", 2 * 8 * 8 * 24 + 6 * 8 * 24},
        {"forward cls.predictions.transform.dense", 2 * 8 * 8 * 8 + 6 * 8 * 8},
        {"backward cls.predictions.transform.dense", 4 * 8 * 8 * 8 + 12 * 8 * 8},
        {"forward cls.predictions.transform.LayerNorm", 8 * 8 * 7},
        {"forward cls.predictions.decoder", 2 * 8 * 8 * 11 + 8 * 11},
        {"backward cls.predictions.decoder", 4 * 8 * 8 * 11 + 8 * 11},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++)
        g_assert_cmpuint(named(iteration->trace, expected[i].name)->flops, ==, expected[i].flops);
    model_iteration_free(iteration);
}

/* Each buffer takes 256 bytes, but [N,F] in fp32, which takes 768. */
static void test_bytes(void)
{
    struct model_config config = small_decoder(&family_bert, true);
    struct model_job job = small_job(MODEL_FP32, 1);
    struct model_iteration *iteration = new_iteration(&config, &job);
    const struct trace *trace = iteration->trace;
    /* 8 rows of words, 4 of positions and both of types; tokens with their types; the sum */
    g_assert_cmpuint(named(trace, "forward embeddings")->bytes, ==, (8 + 4 + 2) * 32 + 256 + 256);
    /* weight and bias; the sum, the stream and statistics */
    g_assert_cmpuint(named(trace, "forward bert.embeddings.LayerNorm")->bytes, ==, 64 + 3 * 256);
    /* weight and bias; inside, stream; sum */
    g_assert_cmpuint(named(trace, "forward bert.encoder.layer.0.output.dense")->bytes, ==,
                     8 * 24 * 4 + 32 + 768 + 256 + 256);
    /* weight read; both gradients written; dy, x, statistics; dx */
    g_assert_cmpuint(named(trace, "backward bert.encoder.layer.0.output.LayerNorm")->bytes, ==,
                     3 * 32 + 4 * 256);
    model_iteration_free(iteration);
}

static bool is_saved(const struct trace *trace, const char *name)
{
    for (uint32_t b = 0; b < trace->buffer_count; b++)
        if (g_str_equal(trace->buffers[b].name, name))
            return trace->buffers[b].saved;
    g_error("no buffer '%s'", name);
}

/* Backward reads both sums with the residual stream, which norms replaced, and both norms' results.
 * A recomputed layer saves its input alone. */
static void test_saved(void)
{
    static const char *const parts[] = {"attention.self.query",
                                        "attention.self.lse",
                                        "attention.self",
                                        "attention.output.dense",
                                        "attention.output.LayerNorm.stats",
                                        "middle",
                                        "intermediate.pre",
                                        "intermediate.inner",
                                        "output.dense",
                                        "output.LayerNorm.stats"};
    struct model_config config = small_decoder(&family_bert, true);
    struct model_job job = small_job(MODEL_FP32, 1);
    uint8_t recompute[3] = {0, 1, 0};
    job.choices.recompute = recompute;
    struct model_iteration *iteration = new_iteration(&config, &job);
    const struct trace *trace = iteration->trace;
    for (size_t i = 0; i < G_N_ELEMENTS(parts); i++) {
        g_autofree char *kept = g_strconcat("bert.encoder.layer.0.", parts[i], NULL);
        g_autofree char *again = g_strconcat("bert.encoder.layer.1.", parts[i], NULL);
        g_assert_true(is_saved(trace, kept));
        g_assert_false(is_saved(trace, again));
    }
    static const char *const outer[] = {"embeddings",
                                        "bert.embeddings.LayerNorm",
                                        "bert.embeddings.LayerNorm.stats",
                                        "bert.encoder.layer.1.output",
                                        "bert.encoder.layer.2.output",
                                        "cls.predictions.transform.dense.pre",
                                        "cls.predictions.transform.dense",
                                        "cls.predictions.transform.LayerNorm"};
    for (size_t i = 0; i < G_N_ELEMENTS(outer); i++)
        g_assert_true(is_saved(trace, outer[i]));
    named(trace, "recompute bert.encoder.layer.1.output.dense");
    named(trace, "recompute bert.encoder.layer.1.output.LayerNorm");
    model_iteration_free(iteration);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/bert/defaults", test_defaults);
    g_test_add_func("/bert/round-trip", test_round_trip);
    g_test_add_func("/bert/refused", test_refused);
    g_test_add_func("/bert/tensors", test_tensors);
    g_test_add_func("/bert/flops", test_flops);
    g_test_add_func("/bert/bytes", test_bytes);
    g_test_add_func("/bert/saved", test_saved);
    return g_test_run();
}
