/* Qwen 3: a LLaMA whose queries and keys are normalised head by head. */
#include "models/family.h"

static bool read_config(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    static const struct config_defaults defaults = {
        .head_size = 128, .rotary_base = 10000, .epsilon = 1e-6};
    bool biased;
    if (!config_read_llama(reader, &defaults, config, error) ||
        !config_bool(reader, "attention_bias", false, &biased, error))
        return false;
    config->unbiased_qkv = config->unbiased_output = !biased;
    return config_read_window(reader, config, error);
}

static void write_config(const struct model_config *config, json_t *root)
{
    config_write_llama(config, root);
    json_object_set_new(root, "attention_bias", json_boolean(!config->unbiased_qkv));
    config_write_window(config, root);
}

const struct model_family family_qwen3 = {
    .type = "qwen3",
    .architecture = "Qwen3ForCausalLM",
    .base = "Qwen3Model",
    MODEL_LLAMA_NAMES,
    .modules = {MODEL_LLAMA_MODULES, [MODULE_QUERY_NORM] = "self_attn.q_norm",
                [MODULE_KEY_NORM] = "self_attn.k_norm"},
    .parts = {MODEL_LLAMA_PARTS, .query_norms = MODEL_QUERY_NORMS_HEADS},
    .read = read_config,
    .write = write_config,
};
