/* Families of models: their parts and defaults, rotary positions, and what is refused and how. */
#include "config_text.h"

#include <string.h>

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
static void test_round_trip(void)
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
        "\"model_type\":\"gemma\",\"hidden_act\":\"gelu\",\"hidden_activation\":null",
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

static void test_refused(void)
{
    static const struct refused_config bad[] = {
        {"\"model_type\":\"llama\"", MODEL_ERROR_CONFIG, {"num_hidden_layers", "missing"}},
        {"\"model_type\":\"llama\",\"hidden_act\":\"gelu\"," LLAMA,
         MODEL_ERROR_UNSUPPORTED,
         {"hidden_act", "silu"}},
        {"\"model_type\":\"gemma\",\"hidden_act\":\"silu\"," LLAMA,
         MODEL_ERROR_UNSUPPORTED,
         {"hidden_act", "gelu_pytorch_tanh"}},
        {"\"model_type\":\"gemma2\",\"hidden_act\":\"gelu\"," LLAMA,
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
        g_autofree char *text = g_strdup_printf("{%s}", bad[i].text);
        assert_refused(text, &bad[i]);
    }
}

/* Widely used models of other families are refused with what pstar lacks. */
static void test_other_families(void)
{
    static const char *const types[] = {
        "roberta",    "cohere2", "deepseek_v3", "gemma3",  "glm4",        "gptj",     "gpt_oss",
        "granite",    "llama4",  "olmoe",       "mllama",  "stablelm",    "qwen2_vl", "qwen2_moe",
        "qwen3_next", "t5",      "starcoder2",  "codegen", "xlm-roberta", "minicpm3", "nemotron_h",
        "rwkv",       "lfm2",    "whisper",     "bart",    "minimax_m2"};
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

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/families/parts", test_parts);
    g_test_add_func("/families/rotary", test_rotary);
    g_test_add_func("/families/longrope", test_longrope);
    g_test_add_func("/families/round-trip", test_round_trip);
    g_test_add_func("/families/refused", test_refused);
    g_test_add_func("/families/other-families", test_other_families);
    return g_test_run();
}
