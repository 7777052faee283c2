/* Mixtral: a Mistral with a mixture of experts for an MLP. What a token's experts make is weighted
 * by their probabilities among each other. */
#include "models/family.h"

static bool read_config(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    static const struct config_defaults defaults = {
        .key_heads = 8, .rotary_base = 1000000, .epsilon = 1e-5};
    static const char noise_key[] = "router_jitter_noise";
    double noise;
    if (!config_read_llama(reader, &defaults, config, error) ||
        !config_count_or(reader, "sliding_window", 0, &config->window, error) ||
        !config_number(reader, noise_key, 0, &noise, error) ||
        !config_read_experts(reader, 8, 2, config, error))
        return false;
    return noise == 0 ||
           config_refuse(reader, noise_key, json_object_get(reader->root, noise_key),
                         "noise on what routers read is not supported; only 0 is", error);
}

static void write_config(const struct model_config *config, json_t *root)
{
    config_write_llama(config, root);
    config_write_experts(config, root);
    json_object_set_new(root, "num_local_experts", json_integer(config->experts));
    json_object_set_new(root, "sliding_window",
                        config->window ? json_integer(config->window) : json_null());
}

const struct model_family family_mixtral = {
    .type = "mixtral",
    .architecture = "MixtralForCausalLM",
    .base = "MixtralModel",
    MODEL_EXPERTS_NAMES,
    .modules = {MODEL_EXPERTS_MODULES},
    .file_mlp = "block_sparse_moe",
    .file_experts = {"w1", "w3", "w2"},
    .parts = {MODEL_EXPERTS_PARTS, .shared_weight = true},
    .read = read_config,
    .write = write_config,
};
