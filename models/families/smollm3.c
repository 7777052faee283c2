/* SmolLM 3: a LLaMA in which some layers, every fourth by default, have no positions. */
#include "models/family.h"

/* A list of 1 for layers with positions and 0 for others, which must be every so-many-th. */
static bool read_unturned(const struct config_reader *reader, struct model_config *config,
                          GError **error)
{
    size_t i;
    const json_t *list = json_object_get(reader->root, "no_rope_layers");
    json_t *layer;
    if (!config_count_or(reader, "no_rope_layer_interval", 4, &config->unturned_every, error))
        return false;
    if (!list || json_is_null(list))
        return true;
    config->unturned_every = 0;
    json_array_foreach (list, i, layer)
        if (!config->unturned_every && json_is_integer(layer) && !json_integer_value(layer))
            config->unturned_every = (uint32_t)i + 1;
    json_array_foreach (list, i, layer)
        if (!json_is_integer(layer) ||
            !json_integer_value(layer) == (model_config_turned(config, (int32_t)i) > 0))
            return config_refuse(reader, "no_rope_layers", list,
                                 "layers without positions must be every so-many-th", error);
    return json_array_size(list) == config->layers ||
           config_wrong(reader, "no_rope_layers", "a list of all layers", error);
}

static bool read_config(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    static const struct config_defaults defaults = {
        .key_heads = 4, .rotary_base = 2000000, .epsilon = 1e-6, .tied = true};
    bool attention, mlp;
    if (!config_read_llama(reader, &defaults, config, error) ||
        !config_switch(reader, "use_sliding_window", false, error) ||
        !config_bool(reader, "attention_bias", false, &attention, error) ||
        !config_bool(reader, "mlp_bias", false, &mlp, error))
        return false;
    config->unbiased_qkv = config->unbiased_output = !attention;
    config->unbiased_mlp = !mlp;
    return read_unturned(reader, config, error);
}

static void write_config(const struct model_config *config, json_t *root)
{
    json_t *layers = json_array();
    config_write_llama(config, root);
    json_object_set_new(root, "pad_token_id", json_null()); /* the default may be no token */
    for (uint32_t layer = 0; layer < config->layers; layer++)
        json_array_append_new(layers,
                              json_integer(model_config_turned(config, (int32_t)layer) > 0));
    json_object_set_new(root, "no_rope_layers", layers);
    json_object_set_new(root, "attention_bias", json_boolean(!config->unbiased_qkv));
    json_object_set_new(root, "mlp_bias", json_boolean(!config->unbiased_mlp));
}

const struct model_family family_smollm3 = {
    .type = "smollm3",
    .architecture = "SmolLM3ForCausalLM",
    .base = "SmolLM3Model",
    MODEL_LLAMA_NAMES,
    .modules = {MODEL_LLAMA_MODULES},
    .unturned_layers = true,
    .parts = {MODEL_LLAMA_PARTS},
    .read = read_config,
    .write = write_config,
};
