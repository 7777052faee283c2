/* Configurations: counts of parameters that are known, defaults, and what is refused and how. */
#include "config_text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define GOOD                                                                              \
    "\"model_type\":\"gpt2\",\"n_layer\":2,\"n_embd\":8,\"n_head\":2,\"n_positions\":16," \
    "\"vocab_size\":32"

/* As transformers counts them (model.num_parameters()). */
static void test_known_counts(void)
{
    static const struct {
        const char *name;
        uint64_t parameters;
    } known[] = {{"gpt2", 124439808},
                 {"gpt2-medium", 354823168},
                 {"gpt2-large", 774030080},
                 {"gpt2-xl", 1557611200},
                 {"demo-11m", 10844160},
                 {"bert-base-uncased", 109514298},
                 {"bert-large-uncased", 335174458},
                 {"gemma-2b", 2506172416},
                 {"gemma-7b", 8537680896},
                 {"gemma-2-2b", 2614341888},
                 {"gemma-2-9b", 9241705984},
                 {"gemma-2-27b", 27227128320},
                 {"gemma-3-270m", 268098176},
                 {"gemma-3-1b", 999885952},
                 {"phi-1.5", 1418270720},
                 {"phi-2", 2779683840},
                 {"pythia-70m", 70426624},
                 {"pythia-410m", 405334016},
                 {"pythia-1.4b", 1414647808},
                 {"pythia-6.9b", 6857302016},
                 {"pythia-12b", 11846072320},
                 {"gpt-neox-20b", 20554567680},
                 {"llama-2-7b", 6738415616},
                 {"llama-2-13b", 13015864320},
                 {"llama-3.2-3b", 3212749824},
                 {"mistral-nemo-12b", 12247782400},
                 {"mistral-small-24b", 23572403200},
                 {"olmo-2-1b", 1484916736},
                 {"olmo-2-7b", 7298617344},
                 {"olmo-2-13b", 13716198400},
                 {"phi-3-mini-4k", 3821079552},
                 {"phi-3-medium-4k", 13960238080},
                 {"phi-4", 14659507200},
                 {"qwen2.5-0.5b", 494032768},
                 {"qwen2.5-1.5b", 1543714304},
                 {"qwen2.5-3b", 3085938688},
                 {"qwen2.5-14b", 14770033664},
                 {"qwen2.5-32b", 32763876352},
                 {"qwen3-0.6b", 596049920},
                 {"qwen3-1.7b", 1720574976},
                 {"qwen3-4b", 4022468096},
                 {"qwen3-14b", 14768307200},
                 {"qwen3-32b", 32762123264},
                 {"smollm2-135m", 134515008},
                 {"smollm2-1.7b", 1711376384},
                 {"smollm3-3b", 3075098624},
                 {"tinyllama-1.1b", 1100048384},
                 {"llama-3.1-8b", 8030261248},
                 {"llama-3.1-70b", 70553706496},
                 {"llama-3.2-1b", 1235814400},
                 {"mistral-7b-v0.3", 7248023552},
                 {"qwen2.5-7b", 7615616512},
                 {"mixtral-8x7b", 46702792704},
                 {"mixtral-8x22b", 140620634112},
                 {"qwen3-30b-a3b", 30532122624},
                 {"qwen3-235b-a22b", 235093634560},
                 {"qwen3-8b", 8190735360}};
    for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
        char *path = g_strdup_printf(PROJECT_DIR "/models/configs/%s.json", known[i].name);
        GError *error = NULL;
        struct model_config *config = model_config_read(path, &error);
        g_assert_no_error(error);
        g_assert_cmpuint(model_config_parameters(config), ==, known[i].parameters);
        model_config_free(config);
        g_free(path);
    }
}

/* A preset named 10b has about 10 billion parameters. */
static void test_presets(void)
{
    GDir *folder = g_dir_open(PROJECT_DIR "/models/configs", 0, NULL);
    const char *name;
    int presets = 0;
    while ((name = g_dir_read_name(folder))) {
        char *path = g_build_filename(PROJECT_DIR "/models/configs", name, NULL);
        GError *error = NULL;
        struct model_config *config = model_config_read(path, &error);
        g_assert_no_error(error);
        if (g_str_has_prefix(name, "patrickstar-")) {
            double billions = g_ascii_strtod(name + strlen("patrickstar-"), NULL);
            double parameters = (double)model_config_parameters(config);
            g_assert_cmpfloat_with_epsilon(parameters / 1e9 / billions, 1, 0.12);
            presets++;
        }
        model_config_free(config);
        g_free(path);
    }
    g_dir_close(folder);
    g_assert_cmpint(presets, ==, 17);
}

/* As GPT2LMHeadModel.save_pretrained of transformers 5.23 leaves it, beside 146,688 parameters. */
static void test_transformers_file(void)
{
    GError *error = NULL;
    struct model_config *config = model_config_read(TEST_SOURCE_DIR "/transformers_config.json",
                                                    &error);
    g_assert_no_error(error);
    g_assert_cmpuint(model_config_parameters(config), ==, 146688);
    g_assert_cmpuint(config->inner, ==, 256);
    g_assert_false(config->tied);
    g_assert_cmpfloat(config->residual_dropout, ==, 0);
    g_assert_cmpfloat(config->attention_dropout, ==, 0.1);
    model_config_free(config);
}

static void test_defaults(void)
{
    GError *error = NULL;
    struct model_config *config = read_text("{" GOOD "}", &error);
    g_assert_no_error(error);
    g_assert_cmpuint(config->inner, ==, 32);
    g_assert_true(config->tied);
    g_assert_cmpfloat(config->attention_dropout, ==, 0.1);
    g_assert_cmpfloat(config->residual_dropout, ==, 0.1);
    g_assert_cmpfloat(config->embedding_dropout, ==, 0.1);
    g_assert_cmpfloat(config->norm_epsilon, ==, 1e-5);
    g_assert_cmpfloat(config->initializer_range, ==, 0.02);
    g_assert_cmpstr(config->name, ==, "gpt2 2x8, vocabulary 32");
    model_config_free(config);
}

static void assert_written_labels(const struct model_config *config)
{
    GError *error = NULL;
    char *path = write_text("");
    g_assert_true(model_config_write(config, path, &error));
    struct model_config *again = model_config_read(path, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(again->labels, ==, config->labels);
    model_config_free(again);
    g_unlink(path);
    g_free(path);
}

/* The head tells labels apart, and there is a tensor for it, whatever becomes of the embedding. */
static void test_labels(void)
{
    static const struct {
        const char *text;
        uint32_t labels;
    } expected[] = {{"", 2},
                    {",\"num_labels\":5", 5},
                    {",\"id2label\":{\"0\":\"no\",\"1\":\"yes\",\"2\":\"?\"},"
                     "\"num_labels\":3,\"tie_word_embeddings\":true",
                     3}};
    GError *error = NULL;
    struct model_config *tokens = read_text("{" GOOD "}", &error);
    g_assert_cmpuint(tokens->labels, ==, 0);
    g_assert_cmpuint(model_config_classes(tokens), ==, 32);
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
        g_autofree char *text = g_strdup_printf(
            "{" GOOD ",\"architectures\":[\"GPT2ForSequenceClassification\"]%s}", expected[i].text);
        struct model_config *config = read_text(text, &error);
        g_assert_no_error(error);
        g_assert_false(config->tied);
        g_assert_cmpuint(model_config_classes(config), ==, expected[i].labels);
        g_assert_cmpuint(model_config_parameters(config), ==,
                         model_config_parameters(tokens) + 8 * expected[i].labels);
        g_assert_true(g_str_has_suffix(config->name, "labels"));
        assert_written_labels(config);
        model_config_free(config);
    }
    model_config_free(tokens);
}

static void test_accepted(void)
{
    static const char *const extras[] = {
        "\"n_inner\":null",
        "\"n_inner\":12",
        "\"activation_function\":\"gelu_pytorch_tanh\"",
        "\"architectures\":[\"GPT2LMHeadModel\"]",
        "\"architectures\":null",
        "\"pruned_heads\":{}",
        "\"scale_attn_weights\":true",
        "\"summary_type\":\"cls_index\"",
        "\"tie_word_embeddings\":false",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(extras); i++) {
        char *text = g_strdup_printf("{" GOOD ",%s}", extras[i]);
        GError *error = NULL;
        struct model_config *config = read_text(text, &error);
        g_assert_no_error(error);
        model_config_free(config);
        g_free(text);
    }
}

/* Each differs from a good file in one place, which the message must name. */
static void test_refused(void)
{
    static const struct refused_config bad[] = {
        {"", MODEL_ERROR_CONFIG, {"config-", ":1:"}},
        {"{\n \"n_layer\": 2,,}", MODEL_ERROR_CONFIG, {":2:", ""}},
        {"[1]", MODEL_ERROR_CONFIG, {"object", ""}},
        {"{\"n_layer\":2}", MODEL_ERROR_CONFIG, {"model_type", "missing"}},
        {"{\"model_type\":\"gpt2\",\"n_layer\":2}", MODEL_ERROR_CONFIG, {"n_embd", "missing"}},
        {"{" GOOD ",\"n_layer\":2}", MODEL_ERROR_CONFIG, {"n_layer", "duplicate"}},
        {"{\"model_type\":\"albert\"}", MODEL_ERROR_UNSUPPORTED, {"model_type", "\"albert\""}},
        {"{\"model_type\":\"olmoe\"}",
         MODEL_ERROR_UNSUPPORTED,
         {"\"olmoe\"", "its own kind of experts"}},
        {"{" GOOD ",\"architectures\":[\"GPT2DoubleHeadsModel\"]}",
         MODEL_ERROR_UNSUPPORTED,
         {"architectures", "GPT2DoubleHeadsModel"}},
        {"{" GOOD ",\"architectures\":\"GPT2LMHeadModel\"}",
         MODEL_ERROR_UNSUPPORTED,
         {"architectures", "list"}},
        {"{" GOOD ",\"architectures\":[\"GPT2ForSequenceClassification\"],\"id2label\":{}}",
         MODEL_ERROR_CONFIG,
         {"id2label", "{}"}},
        {"{" GOOD ",\"architectures\":[\"GPT2ForSequenceClassification\"],\"num_labels\":0}",
         MODEL_ERROR_CONFIG,
         {"num_labels", "0"}},
        {"{" GOOD ",\"activation_function\":\"relu\"}",
         MODEL_ERROR_UNSUPPORTED,
         {"activation_function", "\"relu\""}},
        {"{" GOOD ",\"scale_attn_weights\":false}",
         MODEL_ERROR_UNSUPPORTED,
         {"scale_attn_weights", "false"}},
        {"{" GOOD ",\"scale_attn_by_inverse_layer_idx\":true}",
         MODEL_ERROR_UNSUPPORTED,
         {"scale_attn_by_inverse_layer_idx", "true"}},
        {"{" GOOD ",\"reorder_and_upcast_attn\":true}",
         MODEL_ERROR_UNSUPPORTED,
         {"reorder_and_upcast_attn", "true"}},
        {"{" GOOD ",\"add_cross_attention\":true}",
         MODEL_ERROR_UNSUPPORTED,
         {"add_cross_attention", "true"}},
        {"{" GOOD ",\"add_cross_attention\":1}",
         MODEL_ERROR_UNSUPPORTED,
         {"add_cross_attention", "1"}},
        {"{" GOOD ",\"pruned_heads\":{\"1\":[0]}}",
         MODEL_ERROR_UNSUPPORTED,
         {"pruned_heads", "[0]"}},
        {"{" GOOD ",\"quantization_config\":{\"bits\":4}}",
         MODEL_ERROR_UNSUPPORTED,
         {"quantization_config", "4"}},
        {"{" GOOD ",\"n_inner\":0}", MODEL_ERROR_CONFIG, {"n_inner", "0"}},
        {"{" GOOD ",\"n_inner\":\"big\"}", MODEL_ERROR_CONFIG, {"n_inner", "\"big\""}},
        {"{" GOOD ",\"resid_pdrop\":1.0}", MODEL_ERROR_CONFIG, {"resid_pdrop", "1"}},
        {"{" GOOD ",\"attn_pdrop\":-0.1}", MODEL_ERROR_CONFIG, {"attn_pdrop", "-0.1"}},
        {"{" GOOD ",\"embd_pdrop\":\"none\"}", MODEL_ERROR_CONFIG, {"embd_pdrop", "\"none\""}},
        {"{" GOOD ",\"layer_norm_epsilon\":0}", MODEL_ERROR_CONFIG, {"layer_norm_epsilon", "0"}},
        {"{" GOOD ",\"initializer_range\":-1}", MODEL_ERROR_CONFIG, {"initializer_range", "-1"}},
        {"{" GOOD ",\"tie_word_embeddings\":1}", MODEL_ERROR_CONFIG, {"tie_word_embeddings", "1"}},
        {"{\"model_type\":\"gpt2\",\"n_layer\":0,\"n_embd\":8,\"n_head\":2,\"n_positions\":16,"
         "\"vocab_size\":32}",
         MODEL_ERROR_CONFIG,
         {"n_layer", "0"}},
        {"{\"model_type\":\"gpt2\",\"n_layer\":2.5,\"n_embd\":8,\"n_head\":2,\"n_positions\":16,"
         "\"vocab_size\":32}",
         MODEL_ERROR_CONFIG,
         {"n_layer", "2.5"}},
        {"{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_embd\":9,\"n_head\":2,\"n_positions\":16,"
         "\"vocab_size\":32}",
         MODEL_ERROR_CONFIG,
         {"n_embd", "9"}},
        {"{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_embd\":8,\"n_head\":2,\"n_positions\":16,"
         "\"vocab_size\":4294967296}",
         MODEL_ERROR_CONFIG,
         {"vocab_size", "4294967296"}},
        {"{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_embd\":8,\"n_head\":2,"
         "\"n_positions\":2147483647,\"vocab_size\":32}",
         MODEL_ERROR_CONFIG,
         {"n_positions", "2147483647"}},
        {"{\"model_type\":\"gpt2\",\"n_layer\":65536,\"n_embd\":16777216,\"n_head\":1,"
         "\"n_positions\":16,\"vocab_size\":32,\"n_inner\":1}",
         MODEL_ERROR_CONFIG,
         {"parameters", "too large"}},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++)
        assert_refused(bad[i].text, &bad[i]);
}

static void test_missing_file(void)
{
    GError *error = NULL;
    g_assert_null(model_config_read("/nowhere/config.json", &error));
    g_assert_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG);
    g_assert_nonnull(strstr(error->message, "/nowhere/config.json"));
    g_error_free(error);
    g_assert_null(model_config_read("/nowhere/config.json", NULL));
}

/* Keys that have no part in training are written as they were read, such as the tokens that end a
 * text; the type of weights is that of their files. */
static void test_others_kept(void)
{
    GError *error = NULL;
    struct model_config *config = read_text(
        "{" GOOD ",\"bos_token_id\":50,\"eos_token_id\":[51,7],\"torch_dtype\":\"float16\","
        "\"task_specific_params\":{\"text-generation\":{\"max_length\":50}}}",
        &error);
    g_assert_no_error(error);
    g_autofree char *path = write_text("");
    g_assert_true(model_config_write(config, path, &error));
    json_t *root = json_load_file(path, 0, NULL);
    g_assert_cmpint(json_integer_value(json_object_get(root, "bos_token_id")), ==, 50);
    g_assert_cmpuint(json_array_size(json_object_get(root, "eos_token_id")), ==, 2);
    g_assert_nonnull(json_object_get(root, "task_specific_params"));
    g_assert_null(json_object_get(root, "torch_dtype"));
    json_decref(root);
    model_config_free(config);
    g_unlink(path);
}

/* A folder stands for the config.json in it. */
static void test_round_trip(void)
{
    GError *error = NULL;
    struct model_config *config =
        read_text("{" GOOD ",\"n_inner\":12,\"attn_pdrop\":0.3,\"resid_pdrop\":0,"
                  "\"tie_word_embeddings\":false,\"layer_norm_epsilon\":3.3e-7}",
                  &error);
    g_assert_no_error(error);
    char *folder = g_dir_make_tmp("config-XXXXXX", NULL);
    char *path = g_build_filename(folder, "config.json", NULL);
    g_assert_true(model_config_write(config, path, &error));
    struct model_config *again = model_config_read(folder, &error);
    g_assert_no_error(error);

    g_assert_cmpstr(again->name, ==, config->name);
    g_assert_cmpuint(again->layers, ==, 2);
    g_assert_cmpuint(again->width, ==, 8);
    g_assert_cmpuint(again->heads, ==, 2);
    g_assert_cmpuint(again->inner, ==, 12);
    g_assert_cmpuint(again->positions, ==, 16);
    g_assert_cmpuint(again->vocabulary, ==, 32);
    g_assert_false(again->tied);
    g_assert_cmpfloat(again->attention_dropout, ==, 0.3);
    g_assert_cmpfloat(again->residual_dropout, ==, 0);
    g_assert_cmpfloat(again->embedding_dropout, ==, 0.1);
    g_assert_cmpfloat(again->norm_epsilon, ==, 3.3e-7);
    g_assert_cmpfloat(again->initializer_range, ==, 0.02);

    g_unlink(path);
    g_rmdir(folder);
    g_free(path);
    g_free(folder);
    model_config_free(again);
    model_config_free(config);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/config/known-counts", test_known_counts);
    g_test_add_func("/config/presets", test_presets);
    g_test_add_func("/config/transformers-file", test_transformers_file);
    g_test_add_func("/config/defaults", test_defaults);
    g_test_add_func("/config/labels", test_labels);
    g_test_add_func("/config/accepted", test_accepted);
    g_test_add_func("/config/refused", test_refused);
    g_test_add_func("/config/missing-file", test_missing_file);
    g_test_add_func("/config/round-trip", test_round_trip);
    g_test_add_func("/config/others-kept", test_others_kept);
    return g_test_run();
}
