/* Mistral: a LLaMA, in some versions with a sliding window. */
#include "models/family.h"

static bool read_config(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    static const struct config_defaults defaults = {
        .key_heads = 8, .rotary_base = 10000, .epsilon = 1e-6};
    const json_t *window = json_object_get(reader->root, "sliding_window");
    return config_read_llama(reader, &defaults, config, error) &&
           config_count_or(reader, "sliding_window", window ? 0 : 4096, &config->window, error);
}

static void write_config(const struct model_config *config, json_t *root)
{
    config_write_llama(config, root);
    json_object_set_new(root, "sliding_window",
                        config->window ? json_integer(config->window) : json_null());
}

const struct model_family family_mistral = {
    .type = "mistral",
    .architecture = "MistralForCausalLM",
    .base = "MistralModel",
    .prefix = "model.",
    .file_prefix = "",
    .embedding = "embed_tokens",
    .layers = "layers",
    .attention = "self_attn",
    .mlp = "mlp",
    .final_norm = "norm",
    .modules =
        {
            [MODULE_NORM_1] = "input_layernorm",
            [MODULE_QUERY] = "self_attn.q_proj",
            [MODULE_KEY] = "self_attn.k_proj",
            [MODULE_VALUE] = "self_attn.v_proj",
            [MODULE_OUTPUT] = "self_attn.o_proj",
            [MODULE_NORM_2] = "post_attention_layernorm",
            [MODULE_GATE] = "mlp.gate_proj",
            [MODULE_UP] = "mlp.up_proj",
            [MODULE_DOWN] = "mlp.down_proj",
        },
    .activation = MODEL_SILU,
    .read = read_config,
    .write = write_config,
};
