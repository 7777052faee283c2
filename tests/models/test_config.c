/* Configurations: counts of parameters that are known, defaults, and what is refused and how. */
#include "models/config.h"

#include <glib/gstdio.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define GOOD                                                                              \
    "\"model_type\":\"gpt2\",\"n_layer\":2,\"n_embd\":8,\"n_head\":2,\"n_positions\":16," \
    "\"vocab_size\":32"

static char *write_text(const char *text)
{
    char *path;
    int descriptor = g_file_open_tmp("config-XXXXXX.json", &path, NULL);
    g_assert_cmpint(descriptor, >=, 0);
    g_close(descriptor, NULL);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
    return path;
}

static struct model_config *read_text(const char *text, GError **error)
{
    char *path = write_text(text);
    struct model_config *config = model_config_read(path, error);
    g_unlink(path);
    g_free(path);
    return config;
}

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

/* Widely used models of other families are refused with what pstar lacks. */
static void test_other_families(void)
{
    static const char *const types[] = {"roberta",  "cohere2",   "deepseek_v3", "gemma3",
                                        "glm4",     "gptj",      "gpt_oss",     "granite",
                                        "llama4",   "olmoe",     "mllama",      "stablelm",
                                        "qwen2_vl", "qwen2_moe", "qwen3_next",  "t5"};
    for (size_t i = 0; i < G_N_ELEMENTS(types); i++) {
        GError *error = NULL;
        g_autofree char *text = g_strdup_printf("{\"model_type\":\"%s\"}", types[i]);
        g_assert_null(read_text(text, &error));
        g_assert_error(error, MODEL_ERROR, MODEL_ERROR_UNSUPPORTED);
        if (!strstr(error->message, types[i]) || !strstr(error->message, "because it needs"))
            g_error("%s: %s", types[i], error->message);
        g_error_free(error);
    }
}

/* Each differs from a good file in one place, which the message must name. */
static void test_refused(void)
{
    static const struct {
        const char *text;
        enum model_error code;
        const char *named[2];
    } bad[] = {
        {"", MODEL_ERROR_CONFIG, {"config-", ":1:"}},
        {"{\n \"n_layer\": 2,,}", MODEL_ERROR_CONFIG, {":2:", ""}},
        {"[1]", MODEL_ERROR_CONFIG, {"object", ""}},
        {"{\"n_layer\":2}", MODEL_ERROR_CONFIG, {"model_type", "missing"}},
        {"{\"model_type\":\"gpt2\",\"n_layer\":2}", MODEL_ERROR_CONFIG, {"n_embd", "missing"}},
        {"{" GOOD ",\"n_layer\":2}", MODEL_ERROR_CONFIG, {"n_layer", "duplicate"}},
        {"{\"model_type\":\"albert\"}", MODEL_ERROR_UNSUPPORTED, {"model_type", "\"albert\""}},
        {"{\"model_type\":\"olmoe\"}",
         MODEL_ERROR_UNSUPPORTED,
         {"\"olmoe\"", "mixtures of experts"}},
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
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        GError *error = NULL;
        g_assert_null(read_text(bad[i].text, &error));
        g_assert_error(error, MODEL_ERROR, (int)bad[i].code);
        g_assert_nonnull(strstr(error->message, "config-"));
        for (size_t n = 0; n < G_N_ELEMENTS(bad[i].named); n++)
            if (!strstr(error->message, bad[i].named[n]))
                g_error("'%s' is not in: %s", bad[i].named[n], error->message);
        g_assert_null(strchr(error->message, '\n'));
        g_error_free(error);
    }
}

#define SIZES                                                              \
    "\"num_hidden_layers\":2,\"hidden_size\":8,\"num_attention_heads\":4," \
    "\"intermediate_size\":12,\"max_position_embeddings\":16,\"vocab_size\":32"
#define LLAMA SIZES ",\"num_key_value_heads\":2"

/* What a family has where its file says nothing, and what the file may say. */
static void test_parts(void)
{
    GError *error = NULL;
    struct model_config *config = read_text("{\"model_type\":\"llama\"," LLAMA "}", &error);
    g_assert_no_error(error);
    g_assert_cmpuint(config->head_size, ==, 2);
    g_assert_cmpuint(config->rotary.columns, ==, 2);
    g_assert_cmpfloat(config->rotary.base, ==, 10000);
    g_assert_cmpfloat(config->norm_epsilon, ==, 1e-6);
    g_assert_cmpuint(config->window, ==, 0);
    g_assert_false(config->tied);
    g_assert_true(config->unbiased_qkv);
    model_config_free(config);

    config = read_text("{\"model_type\":\"mistral\"," LLAMA "}", &error);
    g_assert_no_error(error);
    g_assert_cmpuint(model_config_window(config, 0), ==, 4096);
    model_config_free(config);

    config = read_text("{\"model_type\":\"qwen2\",\"use_sliding_window\":true,"
                       "\"sliding_window\":5,\"max_window_layers\":1," LLAMA "}",
                       &error);
    g_assert_no_error(error);
    g_assert_false(config->unbiased_qkv);
    g_assert_true(config->unbiased_output);
    g_assert_cmpuint(model_config_window(config, 0), ==, 0);
    g_assert_cmpuint(model_config_window(config, 1), ==, 5);
    model_config_free(config);

    config = read_text("{\"model_type\":\"qwen3\",\"use_sliding_window\":true,"
                       "\"sliding_window\":5,\"attention_bias\":true,"
                       "\"layer_types\":[\"full_attention\",\"sliding_attention\"]," LLAMA "}",
                       &error);
    g_assert_no_error(error);
    g_assert_cmpint(config->query_norms, ==, MODEL_QUERY_NORMS_HEADS);
    g_assert_false(config->unbiased_output);
    g_assert_cmpuint(config->head_size, ==, 128);
    g_assert_cmpuint(config->first_window, ==, 1);
    model_config_free(config);
}

/* Both ways in which files write the scaling of rotary positions. */
static void test_rotary(void)
{
    static const char *const texts[] = {
        "\"rope_theta\":5e5,\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
        "\"low_freq_factor\":1,\"high_freq_factor\":4,\"original_max_position_embeddings\":8}",
        "\"rope_parameters\":{\"rope_theta\":5e5,\"rope_type\":\"llama3\",\"factor\":8,"
        "\"low_freq_factor\":1,\"high_freq_factor\":4,\"original_max_position_embeddings\":8}"};
    GError *error = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autofree char *text = g_strdup_printf("{\"model_type\":\"llama\"," LLAMA ",%s}",
                                                texts[i]);
        struct model_config *config = read_text(text, &error);
        g_assert_no_error(error);
        g_assert_cmpint(config->rotary.scaling, ==, MODEL_ROTARY_LLAMA3);
        g_assert_cmpfloat(config->rotary.base, ==, 5e5);
        g_assert_cmpfloat(config->rotary.factor, ==, 8);
        g_assert_cmpfloat(config->rotary.high_frequency, ==, 4);
        g_assert_cmpuint(config->rotary.original_positions, ==, 8);
        model_config_free(config);
    }
    struct model_config *yarn = read_text(
        "{\"model_type\":\"qwen2\",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4}," LLAMA "}",
        &error);
    g_assert_no_error(error);
    g_assert_cmpuint(yarn->rotary.original_positions, ==, 16);
    g_assert_cmpfloat(yarn->rotary.beta_fast, ==, 32);
    g_assert_cmpfloat_with_epsilon(yarn->rotary.magnitude, 1.1386294, 1e-6);
    model_config_free(yarn);
}

/* The factors of longrope are copied and written, and the magnitude is the paper's. */
static void test_longrope(void)
{
    GError *error = NULL;
    g_autofree char *path = write_text("");
    struct model_config *config =
        read_text("{\"model_type\":\"phi3\",\"original_max_position_embeddings\":4,\"rope_"
                  "scaling\":{\"type\":"
                  "\"su\",\"short_factor\":[1.5],\"long_factor\":[7]}," LLAMA "}",
                  &error);
    g_assert_no_error(error);
    struct model_config *copy = model_config_copy(config);
    model_config_free(config);
    g_assert_true(model_config_write(copy, path, &error));
    struct model_config *again = model_config_read(path, &error);
    g_assert_no_error(error);
    const struct model_rotary *const both[] = {&copy->rotary, &again->rotary};
    for (int i = 0; i < 2; i++) {
        g_assert_cmpint(both[i]->scaling, ==, MODEL_ROTARY_LONGROPE);
        g_assert_cmpuint(both[i]->original_positions, ==, 4);
        g_assert_cmpfloat(both[i]->short_factors[0], ==, 1.5);
        g_assert_cmpfloat(both[i]->long_factors[0], ==, 7);
        g_assert_cmpfloat_with_epsilon(both[i]->magnitude, 1.4142136, 1e-6);
    }
    model_config_free(copy);
    model_config_free(again);
    g_unlink(path);
}

/* What is written is read again as the same model. */
static void test_families_round_trip(void)
{
    static const char *const texts[] = {
        "\"model_type\":\"llama\",\"attention_bias\":true,\"tie_word_embeddings\":true",
        "\"model_type\":\"llama\",\"mlp_bias\":true,\"rope_scaling\":{\"rope_type\":\"linear\","
        "\"factor\":2.5}",
        "\"model_type\":\"mistral\",\"sliding_window\":null,\"head_dim\":6",
        "\"model_type\":\"mistral\",\"sliding_window\":7",
        "\"model_type\":\"qwen2\",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4}",
        "\"model_type\":\"qwen3\",\"use_sliding_window\":true,\"sliding_window\":5,"
        "\"max_window_layers\":1,\"attention_dropout\":0.25",
        "\"model_type\":\"mixtral\",\"num_local_experts\":3,\"num_experts_per_tok\":1,"
        "\"output_router_logits\":true,\"router_aux_loss_coef\":0.25,\"sliding_window\":7",
        "\"model_type\":\"qwen3_moe\",\"num_experts\":9,\"moe_intermediate_size\":9,"
        "\"norm_topk_prob\":true,\"attention_bias\":true",
        "\"model_type\":\"smollm3\",\"no_rope_layers\":[1,0]",
        "\"model_type\":\"smollm3\",\"no_rope_layers\":[1,1],\"mlp_bias\":true",
        "\"model_type\":\"gemma\",\"hidden_act\":\"gelu_pytorch_tanh\",\"attention_bias\":true",
        "\"model_type\":\"olmo2\",\"attention_bias\":true",
        "\"model_type\":\"gemma2\",\"hidden_act\":\"gelu_pytorch_tanh\","
        "\"attn_logit_softcapping\":null,\"final_logit_softcapping\":7.5",
        "\"model_type\":\"gemma2\",\"hidden_act\":\"gelu_pytorch_tanh\","
        "\"attn_logit_softcapping\":20,\"final_logit_softcapping\":null",
        "\"model_type\":\"gemma3_text\",\"hidden_act\":\"gelu_pytorch_tanh\"",
        "\"model_type\":\"gemma3_text\",\"hidden_act\":\"gelu_pytorch_tanh\","
        "\"query_pre_attn_scalar\":168,\"rope_local_base_freq\":3,\"sliding_window\":5,"
        "\"rope_theta\":7,\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8},"
        "\"layer_types\":[\"sliding_attention\",\"full_attention\"]",
        "\"model_type\":\"phi\",\"partial_rotary_factor\":1,\"resid_pdrop\":0.25,\"embd_pdrop\":0."
        "5,\"rope_theta\":7,"
        "\"hidden_act\":\"gelu_new\"",
        "\"model_type\":\"phi\",\"partial_rotary_factor\":1,\"hidden_act\":\"gelu\",\"rope_"
        "scaling\":{\"type\":\"dynamic\","
        "\"factor\":2}",
        "\"model_type\":\"gpt_neox\",\"use_parallel_residual\":false,\"hidden_dropout\":0.25,"
        "\"rotary_pct\":1,\"hidden_act\":\"gelu_fast\"",
        "\"model_type\":\"gpt_neox\",\"attention_bias\":false,\"rotary_pct\":1,\"rotary_emb_base\":"
        "7,"
        "\"tie_word_embeddings\":true",
        "\"model_type\":\"phi3\",\"sliding_window\":7,\"resid_pdrop\":0.25",
        "\"model_type\":\"phi3\",\"head_dim\":8,\"partial_rotary_factor\":0.75",
        "\"model_type\":\"phi3\",\"head_dim\":98,\"rope_parameters\":{\"rope_theta\":500,"
        "\"rope_type\":\"default\",\"partial_rotary_factor\":0.0411}"};
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        GError *error = NULL;
        bool groups = !strstr(texts[i], "gpt_neox");
        g_autofree char *text = g_strdup_printf("{%s,%s}", texts[i], groups ? LLAMA : SIZES);
        g_autofree char *path = write_text("");
        struct model_config *config = read_text(text, &error);
        g_assert_no_error(error);
        g_assert_true(model_config_write(config, path, &error));
        struct model_config *again = model_config_read(path, &error);
        g_assert_no_error(error);
        g_assert_cmpstr(config->name, ==, again->name);
        g_clear_pointer(&config->name, g_free);
        g_clear_pointer(&again->name, g_free);
        g_clear_pointer(&config->file, free);
        g_clear_pointer(&again->file, free);
        g_assert_cmpmem(config, sizeof *config, again, sizeof *again);
        model_config_free(config);
        model_config_free(again);
        g_unlink(path);
    }
}

static void test_families_refused(void)
{
    static const struct {
        const char *text;
        enum model_error code;
        const char *named[2];
    } bad[] = {
        {"\"model_type\":\"llama\"", MODEL_ERROR_CONFIG, {"num_hidden_layers", "missing"}},
        {"\"model_type\":\"llama\",\"hidden_act\":\"gelu\"," LLAMA,
         MODEL_ERROR_UNSUPPORTED,
         {"hidden_act", "silu"}},
        {"\"model_type\":\"gemma\",\"hidden_act\":\"silu\"," LLAMA,
         MODEL_ERROR_UNSUPPORTED,
         {"hidden_act", "gelu_pytorch_tanh"}},
        {"\"model_type\":\"smollm3\",\"no_rope_layers\":[0,1]," LLAMA,
         MODEL_ERROR_UNSUPPORTED,
         {"no_rope_layers", "every"}},
        {"\"model_type\":\"smollm3\",\"no_rope_layers\":[1]," LLAMA,
         MODEL_ERROR_CONFIG,
         {"no_rope_layers", "all layers"}},
        {"\"model_type\":\"llama\",\"head_dim\":7," LLAMA, MODEL_ERROR_CONFIG, {"7", "pairs"}},
        {"\"model_type\":\"llama\",\"rope_scaling\":{\"rope_type\":\"longrope\"}," LLAMA,
         MODEL_ERROR_UNSUPPORTED,
         {"rope_scaling: rope_type", "longrope"}},
        {"\"model_type\":\"gemma3_text\",\"hidden_act\":\"gelu_pytorch_tanh\","
         "\"layer_types\":[\"full_attention\",\"sliding_attention\"]," LLAMA,
         MODEL_ERROR_UNSUPPORTED,
         {"layer_types", "every"}},
        {"\"model_type\":\"gemma3_text\",\"hidden_act\":\"gelu_pytorch_tanh\","
         "\"query_pre_attn_scalar\":0," LLAMA,
         MODEL_ERROR_CONFIG,
         {"query_pre_attn_scalar", "above 0"}},
        {"\"model_type\":\"gemma3_text\",\"hidden_act\":\"gelu_pytorch_tanh\","
         "\"rope_parameters\":{\"full_attention\":7}," LLAMA,
         MODEL_ERROR_CONFIG,
         {"rope_parameters: full_attention", "object"}},
        {"\"model_type\":\"gemma2\",\"hidden_act\":\"gelu_pytorch_tanh\","
         "\"attn_logit_softcapping\":-1," LLAMA,
         MODEL_ERROR_CONFIG,
         {"attn_logit_softcapping", "above 0"}},
        {"\"model_type\":\"phi\",\"qk_layernorm\":true," LLAMA,
         MODEL_ERROR_UNSUPPORTED,
         {"qk_layernorm", "true"}},
        {"\"model_type\":\"phi\",\"tie_word_embeddings\":true," LLAMA,
         MODEL_ERROR_UNSUPPORTED,
         {"tie_word_embeddings", "true"}},
        {"\"model_type\":\"gpt_neox\",\"hidden_act\":\"silu\"," LLAMA,
         MODEL_ERROR_UNSUPPORTED,
         {"hidden_act", "gelu_new"}},
        {"\"model_type\":\"gpt_neox\",\"rotary_pct\":1," LLAMA,
         MODEL_ERROR_CONFIG,
         {"num_key_value_heads", "num_attention_heads"}},
        {"\"model_type\":\"phi3\",\"rope_scaling\":{\"type\":\"longrope\"}," LLAMA,
         MODEL_ERROR_CONFIG,
         {"rope_scaling: short_factor", "missing"}},
        {"\"model_type\":\"phi3\",\"rope_scaling\":{\"type\":\"su\",\"short_factor\":[1],"
         "\"long_factor\":[0]}," LLAMA,
         MODEL_ERROR_CONFIG,
         {"rope_scaling: long_factor", "above 0"}},
        {"\"model_type\":\"phi3\",\"original_max_position_embeddings\":0," LLAMA,
         MODEL_ERROR_CONFIG,
         {"original_max_position_embeddings", "0"}},
        {"\"model_type\":\"phi3\",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}," LLAMA,
         MODEL_ERROR_UNSUPPORTED,
         {"rope_type", "linear"}},
        {"\"model_type\":\"phi3\",\"partial_rotary_factor\":1.5," LLAMA,
         MODEL_ERROR_CONFIG,
         {"partial_rotary_factor", "(0, 1]"}},
        {"\"model_type\":\"phi3\",\"head_dim\":8,\"partial_rotary_factor\":0.4," LLAMA,
         MODEL_ERROR_CONFIG,
         {"8 columns", "3 would turn"}},
        {"\"model_type\":\"llama\",\"rope_scaling\":{\"rope_type\":\"linear\"}," LLAMA,
         MODEL_ERROR_CONFIG,
         {"rope_scaling: factor", "missing"}},
        {"\"model_type\":\"llama\",\"rope_scaling\":7," LLAMA,
         MODEL_ERROR_CONFIG,
         {"rope_scaling", "object"}},
        {"\"model_type\":\"llama\",\"rope_theta\":-1," LLAMA,
         MODEL_ERROR_CONFIG,
         {"rope_theta", "-1"}},
        {"\"model_type\":\"llama\",\"architectures\":[\"LlamaForSequenceClassification\"]," LLAMA,
         MODEL_ERROR_UNSUPPORTED,
         {"architectures", "LlamaForCausalLM"}},
        {"\"model_type\":\"qwen3\",\"use_sliding_window\":true,"
         "\"layer_types\":[\"sliding_attention\",\"full_attention\"]," LLAMA,
         MODEL_ERROR_UNSUPPORTED,
         {"layer_types", "before"}},
        {"\"model_type\":\"mixtral\",\"num_experts_per_tok\":9," LLAMA,
         MODEL_ERROR_CONFIG,
         {"num_experts_per_tok", "num_experts, which is 8"}},
        {"\"model_type\":\"mixtral\",\"num_local_experts\":5000," LLAMA,
         MODEL_ERROR_CONFIG,
         {"num_local_experts", "4096"}},
        {"\"model_type\":\"mixtral\",\"router_jitter_noise\":0.1," LLAMA,
         MODEL_ERROR_UNSUPPORTED,
         {"router_jitter_noise", "only 0"}},
        {"\"model_type\":\"mixtral\",\"output_router_logits\":true,"
         "\"router_aux_loss_coef\":-1," LLAMA,
         MODEL_ERROR_CONFIG,
         {"router_aux_loss_coef", "0"}},
        {"\"model_type\":\"qwen3_moe\",\"decoder_sparse_step\":2," LLAMA,
         MODEL_ERROR_UNSUPPORTED,
         {"decoder_sparse_step", "layers without experts"}},
        {"\"model_type\":\"qwen3_moe\",\"mlp_only_layers\":[0]," LLAMA,
         MODEL_ERROR_UNSUPPORTED,
         {"mlp_only_layers", "layers without experts"}},
        {"\"model_type\":\"qwen3\",\"use_sliding_window\":true,\"layer_types\":[]," LLAMA,
         MODEL_ERROR_CONFIG,
         {"layer_types", "all layers"}},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        GError *error = NULL;
        g_autofree char *text = g_strdup_printf("{%s}", bad[i].text);
        g_assert_null(read_text(text, &error));
        g_assert_error(error, MODEL_ERROR, (int)bad[i].code);
        for (size_t n = 0; n < G_N_ELEMENTS(bad[i].named); n++)
            if (!strstr(error->message, bad[i].named[n]))
                g_error("'%s' is not in: %s", bad[i].named[n], error->message);
        g_error_free(error);
    }
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
    g_test_add_func("/config/parts", test_parts);
    g_test_add_func("/config/other-families", test_other_families);
    g_test_add_func("/config/rotary", test_rotary);
    g_test_add_func("/config/longrope", test_longrope);
    g_test_add_func("/config/families-round-trip", test_families_round_trip);
    g_test_add_func("/config/families-refused", test_families_refused);
    g_test_add_func("/config/missing-file", test_missing_file);
    g_test_add_func("/config/round-trip", test_round_trip);
    g_test_add_func("/config/others-kept", test_others_kept);
    return g_test_run();
}
