/* Qwen 2 and 2.5: a LLaMA with biases of queries, keys and values. */
#include "models/family.h"

static bool read_config(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    static const struct config_defaults defaults = {.rotary_base = 10000, .epsilon = 1e-6};
    return config_read_llama(reader, &defaults, config, error) &&
           config_read_window(reader, config, error);
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
    MODEL_LLAMA_NAMES,
    .modules = {MODEL_LLAMA_MODULES},
    .parts = {.norm = MODEL_RMS_NORM,
              .activation = MODEL_SILU,
              .gated = true,
              .separate = true,
              .unbiased_output = true,
              .unbiased_mlp = true},
    .read = read_config,
    .write = write_config,
};
