/* The keys of config.json that the families since Gemma share. */
#include "models/family.h"

#include <math.h>
#include <string.h>

bool config_read_gemma(const struct config_reader *reader, const struct config_defaults *defaults,
                       struct model_config *config, GError **error)
{
    static const char *const activations[] = {"gelu_pytorch_tanh", NULL};
    const json_t *activation = json_object_get(reader->root, "hidden_activation");
    bool biased;
    if ((!json_is_null(activation) &&
         !config_word(reader, "hidden_activation", activations, error)) ||
        !config_switch(reader, "use_bidirectional_attention", false, error) ||
        !config_read_llama(reader, defaults, config, error) ||
        !config_bool(reader, "attention_bias", false, &biased, error))
        return false;
    config->unbiased_qkv = config->unbiased_output = !biased;
    return true;
}

void config_write_gemma(const struct model_config *config, json_t *root)
{
    config_write_llama(config, root);
    json_object_set_new(root, "pad_token_id", json_null()); /* the default may be no token */
    json_object_set_new(root, "attention_bias", json_boolean(!config->unbiased_qkv));
}

/* ---- windows ---- */

static bool slides(const json_t *type)
{
    return !g_strcmp0(json_string_value(type), "sliding_attention");
}

/* The first layer that attends to all positions says which others must do so. */
static bool read_layer_types(const struct config_reader *reader, const json_t *types,
                             struct model_config *config, GError **error)
{
    size_t i;
    json_t *type;
    config->full_every = 0;
    json_array_foreach (types, i, type) {
        bool full = !g_strcmp0(json_string_value(type), "full_attention");
        if (!full && !slides(type))
            return config_refuse(reader, "layer_types", type, "not supported", error);
        if (full && !config->full_every)
            config->full_every = (uint32_t)i + 1;
    }
    if (json_array_size(types) != config->layers)
        return config_wrong(reader, "layer_types", "a list of all layers", error);
    json_array_foreach (types, i, type)
        if (slides(type) != (model_config_window(config, (int32_t)i) > 0))
            return config_refuse(reader, "layer_types", types,
                                 "layers without a window must be every so-many-th", error);
    return true;
}

bool config_read_gemma_attention(const struct config_reader *reader, uint32_t every,
                                 struct model_config *config, GError **error)
{
    const json_t *types = json_object_get(reader->root, "layer_types");
    const json_t *window = json_object_get(reader->root, "sliding_window");
    if (json_is_null(window))
        return config_wrong(reader, "sliding_window", "a number of positions", error);
    if (!config_count_or(reader, "sliding_window", 4096, &config->window, error) ||
        !config_count_or(reader, "sliding_window_pattern", every, &config->full_every, error) ||
        !config_number(reader, "query_pre_attn_scalar", 256, &config->query_scalar, error))
        return false;
    if (!(config->query_scalar > 0 && isfinite(config->query_scalar)))
        return config_wrong(reader, "query_pre_attn_scalar", "above 0", error);
    if (config->full_every > config->layers)
        config->full_every = 0;
    return !types || json_is_null(types) || read_layer_types(reader, types, config, error);
}

void config_write_gemma_attention(const struct model_config *config, json_t *root)
{
    json_t *types = json_array();
    for (uint32_t layer = 0; layer < config->layers; layer++)
        json_array_append_new(types, json_string(model_config_window(config, (int32_t)layer)
                                                     ? "sliding_attention"
                                                     : "full_attention"));
    json_object_set_new(root, "sliding_window", json_integer(config->window));
    json_object_set_new(root, "layer_types", types);
    /* transformers takes whole numbers. */
    double scalar = config->query_scalar;
    json_object_set_new(root, "query_pre_attn_scalar",
                        scalar == floor(scalar) && scalar < 0x1p31
                            ? json_integer((json_int_t)scalar)
                            : json_real(scalar));
}

/* ---- soft caps ---- */

bool config_cap(const struct config_reader *reader, const char *key, double missing, double *cap,
                GError **error)
{
    const json_t *value = json_object_get(reader->root, key);
    *cap = value ? 0 : missing;
    if (!value || json_is_null(value))
        return true;
    return config_number(reader, key, 0, cap, error) &&
           ((*cap > 0 && isfinite(*cap)) || config_wrong(reader, key, "above 0, or null", error));
}

void config_write_cap(double cap, const char *key, json_t *root)
{
    json_object_set_new(root, key, cap > 0 ? json_real(cap) : json_null());
}
