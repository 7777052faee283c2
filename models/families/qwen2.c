/* Qwen 2 and 2.5: a LLaMA with biases of queries, keys and values. */
#include "models/family.h"

static bool read_config(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    static const struct config_defaults defaults = {.rotary_base = 10000, .epsilon = 1e-6};
    if (!config_read_llama(reader, &defaults, config, error))
        return false;
    config->unbiased_qkv = false;
    return config_read_window(reader, config, error);
}

static void write_config(const struct model_config *config, json_t *root)
{
    config_write_llama(config, root);
    config_write_window(config, root);
}

const struct model_family family_qwen2 = {
    .type = "qwen2",
    .architecture = "Qwen2ForCausalLM",
    .base = "Qwen2Model",
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
