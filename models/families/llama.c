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
    MODEL_LLAMA_NAMES,
    .modules = {MODEL_LLAMA_MODULES},
    .parts = {MODEL_LLAMA_PARTS},
    .read = read_config,
    .write = write_config,
};
