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
    MODEL_LLAMA_NAMES,
    .modules = {MODEL_LLAMA_MODULES},
    .parts = {MODEL_LLAMA_PARTS},
    .read = read_config,
    .write = write_config,
};
