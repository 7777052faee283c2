/* Phi 1 to 2: attention and MLP read one layer norm and are added together, a part of each head
 * turns, and all products have biases, the classifier's too. */
#include "models/family.h"

static const struct config_layer_norm_keys keys = {
    .rotary = {"rope_theta", "partial_rotary_factor", 10000, 0.5},
    .activation = "gelu_new",
    .dropout = "resid_pdrop",
};

static bool read_config(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    return config_switch(reader, "qk_layernorm", false, error) &&
           config_switch(reader, "tie_word_embeddings", false, error) &&
           config_dropout(reader, "embd_pdrop", 0, &config->embedding_dropout, error) &&
           config_read_layer_norm(reader, &keys, config, error);
}

static void write_config(const struct model_config *config, json_t *root)
{
    config_write_layer_norm(config, &keys, root);
    json_object_set_new(root, "embd_pdrop", json_real(config->embedding_dropout));
}

const struct model_family family_phi = {
    .type = "phi",
    .architecture = "PhiForCausalLM",
    .base = "PhiModel",
    .prefix = "model.",
    .file_prefix = "",
    .embedding = "embed_tokens",
    .layers = "layers",
    .attention = "self_attn",
    .mlp = "mlp",
    .final_norm = "final_layernorm",
    .modules = {[MODULE_NORM_1] = "input_layernorm",
                [MODULE_QUERY] = "self_attn.q_proj",
                [MODULE_KEY] = "self_attn.k_proj",
                [MODULE_VALUE] = "self_attn.v_proj",
                [MODULE_OUTPUT] = "self_attn.dense",
                [MODULE_UP] = "mlp.fc1",
                [MODULE_DOWN] = "mlp.fc2"},
    .parts = {.separate = true, .branches = MODEL_PARALLEL_ONE_NORM, .classifier_bias = true},
    .partly_turned = true,
    .read = read_config,
    .write = write_config,
};
