/* GPT-2: learned positions, layer norms, one product for queries, keys and values, GELU, biases. */
#include "models/family.h"

#include <string.h>

#define CLASSIFIER "GPT2ForSequenceClassification"

/* transformers would replace missing sizes by those of gpt2. */
static bool read_sizes(const struct config_reader *reader, struct model_config *config,
                       GError **error)
{
    return config_count(reader, "n_layer", &config->layers, error) &&
           config_count(reader, "n_embd", &config->width, error) &&
           config_count(reader, "n_head", &config->heads, error) &&
           config_count(reader, "n_positions", &config->positions, error) &&
           config_count(reader, "vocab_size", &config->vocabulary, error) &&
           config_count_or(reader, "n_inner", 4 * config->width, &config->inner, error) &&
           config_heads_divide(reader, "n_embd", "n_head", config, error);
}

/* Switches that change what is computed, with the only setting that we compute. */
static bool switches_supported(const struct config_reader *reader, GError **error)
{
    static const char *const activations[] = {"gelu_new", "gelu_pytorch_tanh", NULL};
    return config_word(reader, "activation_function", activations, error) &&
           config_switch(reader, "scale_attn_weights", true, error) &&
           config_switch(reader, "scale_attn_by_inverse_layer_idx", false, error) &&
           config_switch(reader, "reorder_and_upcast_attn", false, error) &&
           config_switch(reader, "add_cross_attention", false, error) &&
           config_switch(reader, "is_encoder_decoder", false, error) &&
           config_absent(reader, "pruned_heads", error);
}

static bool read_settings(const struct config_reader *reader, struct model_config *config,
                          GError **error)
{
    return config_bool(reader, "tie_word_embeddings", true, &config->tied, error) &&
           config_dropout(reader, "embd_pdrop", 0.1, &config->embedding_dropout, error) &&
           config_dropout(reader, "attn_pdrop", 0.1, &config->attention_dropout, error) &&
           config_dropout(reader, "resid_pdrop", 0.1, &config->residual_dropout, error) &&
           config_epsilon(reader, "layer_norm_epsilon", 1e-5, &config->norm_epsilon, error) &&
           config_range(reader, &config->initializer_range, error);
}

/* The labels are counted as transformers does: by their names, then by their number, else two. */
static bool read_labels(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    const json_t *architectures = json_object_get(reader->root, "architectures");
    const char *architecture = json_string_value(json_array_get(architectures, 0));
    const json_t *names = json_object_get(reader->root, "id2label");
    if (g_strcmp0(architecture, CLASSIFIER) != 0)
        return true;
    config->tied = false;
    config->labels = json_is_object(names) ? (uint32_t)json_object_size(names) : 2;
    if (names || !json_object_get(reader->root, "num_labels"))
        return config->labels > 0 ||
               config_wrong(reader, "id2label", "an object with a label", error);
    return config_count(reader, "num_labels", &config->labels, error);
}

static bool read_config(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    return switches_supported(reader, error) && read_sizes(reader, config, error) &&
           read_settings(reader, config, error) && read_labels(reader, config, error);
}

/* Token ids are omitted if GPT-2's ids lie outside the vocabulary. */
static void write_config(const struct model_config *config, json_t *root)
{
    const json_int_t end_of_text = 50256;
    bool has_end = config->vocabulary > end_of_text;
    json_t *keys = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:f, s:f, s:f, s:f, s:f}", "activation_function",
        "gelu_new", "n_layer", (json_int_t)config->layers, "n_embd", (json_int_t)config->width,
        "n_head", (json_int_t)config->heads, "n_inner", (json_int_t)config->inner, "n_positions",
        (json_int_t)config->positions, "vocab_size", (json_int_t)config->vocabulary,
        "tie_word_embeddings", (int)config->tied, "embd_pdrop", config->embedding_dropout,
        "attn_pdrop", config->attention_dropout, "resid_pdrop", config->residual_dropout,
        "layer_norm_epsilon", config->norm_epsilon, "initializer_range", config->initializer_range);
    g_assert(keys);
    json_object_update(root, keys);
    json_decref(keys);
    if (config->labels)
        json_object_set_new(root, "num_labels", json_integer(config->labels));
    json_object_set_new(root, "bos_token_id", has_end ? json_integer(end_of_text) : json_null());
    json_object_set_new(root, "eos_token_id", has_end ? json_integer(end_of_text) : json_null());
}

const struct model_family family_gpt2 = {
    .type = "gpt2",
    .architecture = "GPT2LMHeadModel",
    .classifier = CLASSIFIER,
    .base = "GPT2Model",
    .prefix = "",
    .file_prefix = "transformer.",
    .embedding = "wte",
    .positions = "wpe",
    .layers = "h",
    .attention = "attn",
    .mlp = "mlp",
    .final_norm = "ln_f",
    .modules =
        {
            [MODULE_NORM_1] = "ln_1",
            [MODULE_QKV] = "attn.c_attn",
            [MODULE_OUTPUT] = "attn.c_proj",
            [MODULE_NORM_2] = "ln_2",
            [MODULE_UP] = "mlp.c_fc",
            [MODULE_DOWN] = "mlp.c_proj",
        },
    .inputs_first = true,
    .scaled_ends = true,
    .read = read_config,
    .write = write_config,
};
