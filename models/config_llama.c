/* The keys of config.json that the families since LLaMA share. */
#include "models/config_reader.h"
#include "models/family.h"

#include <math.h>
#include <string.h>

/* The keys of those since LLaMA. */
static struct config_rotary rotary_keys(double base, double part)
{
    return (struct config_rotary){"rope_theta", part > 0 ? "partial_rotary_factor" : NULL, base,
                                  part};
}

/* ---- sliding windows ---- */

/* Layers that slide must follow those that do not. */
static bool read_layer_types(const struct config_reader *reader, const json_t *types,
                             struct model_config *config, GError **error)
{
    size_t i;
    json_t *type;
    uint32_t full = 0;
    json_array_foreach (types, i, type) {
        bool slides = !g_strcmp0(json_string_value(type), "sliding_attention");
        if (!slides && g_strcmp0(json_string_value(type), "full_attention") != 0)
            return config_refuse(reader, "layer_types", type, "not supported", error);
        if (!slides && full++ != i)
            return config_refuse(reader, "layer_types", types,
                                 "layers with a window that come before layers without are not "
                                 "supported",
                                 error);
    }
    if (json_array_size(types) != config->layers)
        return config_wrong(reader, "layer_types", "a list of all layers", error);
    config->first_window = full;
    return true;
}

bool config_read_window(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    bool used;
    const json_t *types = json_object_get(reader->root, "layer_types");
    if (!config_bool(reader, "use_sliding_window", false, &used, error) ||
        !config_count_or(reader, "sliding_window", used ? 4096 : 0, &config->window, error) ||
        !config_number(reader, "max_window_layers", 28, &(double){0}, error))
        return false;
    const json_t *full = json_object_get(reader->root, "max_window_layers");
    config->first_window = full ? (uint32_t)CLAMP(json_integer_value(full), 0, config->layers) : 28;
    if (!used)
        config->window = config->first_window = 0;
    if (!config->window || !types || json_is_null(types))
        return true;
    return read_layer_types(reader, types, config, error);
}

void config_write_window(const struct model_config *config, json_t *root)
{
    json_t *types = json_array();
    for (uint32_t layer = 0; layer < config->layers; layer++)
        json_array_append_new(types, json_string(model_config_window(config, (int32_t)layer)
                                                     ? "sliding_attention"
                                                     : "full_attention"));
    json_object_set_new(root, "use_sliding_window", json_boolean(config->window > 0));
    json_object_set_new(root, "sliding_window",
                        config->window ? json_integer(config->window) : json_null());
    json_object_set_new(root, "max_window_layers", json_integer(config->first_window));
    json_object_set_new(root, "layer_types", types);
}

/* ---- sizes and parts ---- */

static const char *activation_name(const struct model_config *config)
{
    return config->activation == MODEL_SILU ? "silu" : "gelu_pytorch_tanh";
}

bool config_read_sizes(const struct config_reader *reader, const struct config_defaults *defaults,
                       struct model_config *config, GError **error)
{
    if (!config_count(reader, "num_hidden_layers", &config->layers, error) ||
        !config_count(reader, "hidden_size", &config->width, error) ||
        !config_count(reader, "num_attention_heads", &config->heads, error) ||
        !config_count(reader, "intermediate_size", &config->inner, error) ||
        !config_count(reader, "max_position_embeddings", &config->positions, error) ||
        !config_count(reader, "vocab_size", &config->vocabulary, error) ||
        !config_count_or(reader, "num_key_value_heads", defaults->key_heads, &config->key_heads,
                         error) ||
        !config_count_or(reader, "head_dim", defaults->head_size, &config->head_size, error))
        return false;
    if (!config_heads_divide(reader, "hidden_size", "num_attention_heads", config, error))
        return false;
    config->key_heads = model_config_key_heads(config);
    config->head_size = model_config_head_size(config);
    return true;
}

bool config_read_llama(const struct config_reader *reader, const struct config_defaults *defaults,
                       struct model_config *config, GError **error)
{
    const char *const activations[] = {activation_name(config), defaults->activation_alias, NULL};
    const struct config_rotary rotary = rotary_keys(defaults->rotary_base, defaults->rotary_part);
    return config_read_sizes(reader, defaults, config, error) &&
           config_word(reader, "hidden_act", activations, error) &&
           config_epsilon(reader, "rms_norm_eps", defaults->epsilon, &config->norm_epsilon,
                          error) &&
           config_range(reader, &config->initializer_range, error) &&
           config_dropout(reader, "attention_dropout", 0, &config->attention_dropout, error) &&
           config_bool(reader, "tie_word_embeddings", defaults->tied, &config->tied, error) &&
           config_read_rotary(reader, &rotary, config, error);
}

void config_write_sizes(const struct model_config *config, json_t *root)
{
    json_t *keys =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:f, s:f}", "num_hidden_layers",
                  (json_int_t)config->layers, "hidden_size", (json_int_t)config->width,
                  "num_attention_heads", (json_int_t)config->heads, "num_key_value_heads",
                  (json_int_t)model_config_key_heads(config), "head_dim",
                  (json_int_t)model_config_head_size(config), "intermediate_size",
                  (json_int_t)config->inner, "max_position_embeddings",
                  (json_int_t)config->positions, "vocab_size", (json_int_t)config->vocabulary,
                  "tie_word_embeddings", (int)config->tied, "initializer_range",
                  config->initializer_range, "attention_dropout", config->attention_dropout);
    g_assert(keys);
    json_object_update(root, keys);
    json_decref(keys);
}

void config_write_llama(const struct model_config *config, json_t *root)
{
    const struct config_rotary rotary = rotary_keys(10000,
                                                    model_family_of(config)->partly_turned ? 1 : 0);
    config_write_sizes(config, root);
    json_object_set_new(root, "hidden_act", json_string(activation_name(config)));
    json_object_set_new(root, "rms_norm_eps", json_real(config->norm_epsilon));
    config_write_rotary(config, &rotary, root);
}
