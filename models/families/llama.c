/* LLaMA 1 to 3: RMS norms, rotary positions, grouped queries, SwiGLU. */
#include "models/family.h"

static bool read_config(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    static const struct config_defaults defaults = {.rotary_base = 10000, .epsilon = 1e-6};
    bool attention, mlp;
    if (!config_read_llama(reader, &defaults, config, error) ||
        !config_bool(reader, "attention_bias", false, &attention, error) ||
        !config_bool(reader, "mlp_bias", false, &mlp, error))
        return false;
    config->unbiased_qkv = config->unbiased_output = !attention;
    config->unbiased_mlp = !mlp;
    return true;
}

static void write_config(const struct model_config *config, json_t *root)
{
    config_write_llama(config, root);
    json_object_set_new(root, "attention_bias", json_boolean(!config->unbiased_qkv));
    json_object_set_new(root, "mlp_bias", json_boolean(!config->unbiased_mlp));
}

const struct model_family family_llama = {
    .type = "llama",
    .architecture = "LlamaForCausalLM",
    .base = "LlamaModel",
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
