/* OLMo 2: a LLaMA whose norms stand behind attention and MLP, and whose queries and keys are
 * normalised row by row. */
#include "models/family.h"

static bool read_config(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    static const struct config_defaults defaults = {.rotary_base = 10000, .epsilon = 1e-5};
    bool biased;
    if (!config_read_llama(reader, &defaults, config, error) ||
        !config_bool(reader, "attention_bias", false, &biased, error))
        return false;
    config->unbiased_qkv = config->unbiased_output = !biased;
    return true;
}

static void write_config(const struct model_config *config, json_t *root)
{
    config_write_llama(config, root);
    json_object_set_new(root, "pad_token_id", json_null()); /* the default may be no token */
    json_object_set_new(root, "attention_bias", json_boolean(!config->unbiased_qkv));
}

const struct model_family family_olmo2 = {
    .type = "olmo2",
    .architecture = "Olmo2ForCausalLM",
    .base = "Olmo2Model",
    MODEL_LLAMA_NAMES,
    .modules = {[MODULE_QUERY] = "self_attn.q_proj",
                [MODULE_KEY] = "self_attn.k_proj",
                [MODULE_VALUE] = "self_attn.v_proj",
                [MODULE_QUERY_NORM] = "self_attn.q_norm",
                [MODULE_KEY_NORM] = "self_attn.k_norm",
                [MODULE_OUTPUT] = "self_attn.o_proj",
                [MODULE_AFTER_OUTPUT] = "post_attention_layernorm",
                [MODULE_GATE] = "mlp.gate_proj",
                [MODULE_UP] = "mlp.up_proj",
                [MODULE_DOWN] = "mlp.down_proj",
                [MODULE_AFTER_DOWN] = "post_feedforward_layernorm"},
    .parts = {MODEL_LLAMA_PARTS, .query_norms = MODEL_QUERY_NORMS_ROWS,
              .norm_places = MODEL_NORMS_AFTER},
    .read = read_config,
    .write = write_config,
};
