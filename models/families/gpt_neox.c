/* GPT-NeoX and Pythia: attention and MLP read a layer norm each and are added together, in some
 * models one after the other; one product makes query, key and value head by head, of which a part
 * turns. */
#include "models/family.h"

static const struct config_layer_norm_keys keys = {
    .rotary = {"rotary_emb_base", "rotary_pct", 10000, 0.25},
    .activation = "gelu",
    .dropout = "hidden_dropout",
};

/* One key is dropout's of the embedding, too. */
static bool read_config(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    bool parallel, biased;
    if (!config_read_layer_norm(reader, &keys, config, error) ||
        !config_bool(reader, "use_parallel_residual", true, &parallel, error) ||
        !config_bool(reader, "attention_bias", true, &biased, error))
        return false;
    if (config->key_heads != config->heads)
        return config_wrong(reader, "num_key_value_heads", "num_attention_heads", error);
    if (model_config_queries(config) != config->width)
        return config_wrong(reader, "head_dim", "hidden_size / num_attention_heads", error);
    config->branches = parallel ? MODEL_PARALLEL : MODEL_SEQUENTIAL;
    config->unbiased_qkv = config->unbiased_output = !biased;
    config->embedding_dropout = config->residual_dropout;
    return true;
}

static void write_config(const struct model_config *config, json_t *root)
{
    config_write_layer_norm(config, &keys, root);
    json_object_set_new(root, "use_parallel_residual",
                        json_boolean(config->branches == MODEL_PARALLEL));
    json_object_set_new(root, "attention_bias", json_boolean(!config->unbiased_qkv));
}

const struct model_family family_gpt_neox = {
    .type = "gpt_neox",
    .architecture = "GPTNeoXForCausalLM",
    .base = "GPTNeoXModel",
    .prefix = "gpt_neox.",
    .file_prefix = "",
    .embedding = "embed_in",
    .layers = "layers",
    .attention = "attention",
    .mlp = "mlp",
    .final_norm = "final_layer_norm",
    .head = "embed_out",
    .modules = {[MODULE_NORM_1] = "input_layernorm",
                [MODULE_QKV] = "attention.query_key_value",
                [MODULE_OUTPUT] = "attention.dense",
                [MODULE_NORM_2] = "post_attention_layernorm",
                [MODULE_UP] = "mlp.dense_h_to_4h",
                [MODULE_DOWN] = "mlp.dense_4h_to_h"},
    .parts = {.interleaved = true, .branches = MODEL_PARALLEL},
    .partly_turned = true,
    .read = read_config,
    .write = write_config,
};
