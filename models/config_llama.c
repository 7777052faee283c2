/* The keys of config.json that the families since LLaMA share. */
#include "models/config_reader.h"
#include "models/family.h"

#include <math.h>
#include <string.h>

/* ---- rotary positions ---- */

static const char *const scalings[] = {
    [MODEL_ROTARY_DEFAULT] = "default", [MODEL_ROTARY_LINEAR] = "linear",
    [MODEL_ROTARY_DYNAMIC] = "dynamic", [MODEL_ROTARY_LLAMA3] = "llama3",
    [MODEL_ROTARY_YARN] = "yarn",
};

/* Older files call the key "type". */
static bool read_scaling(const struct config_reader *reader, struct model_rotary *rotary,
                         GError **error)
{
    const json_t *type = json_object_get(reader->root, "rope_type");
    if (!type)
        type = json_object_get(reader->root, "type");
    if (!type)
        return true;
    for (size_t i = 0; i < G_N_ELEMENTS(scalings); i++)
        if (!g_strcmp0(json_string_value(type), scalings[i])) {
            rotary->scaling = i;
            return true;
        }
    return config_refuse(reader, "rope_type", type,
                         "not supported; supported are default, linear, dynamic, llama3 and yarn",
                         error);
}

static bool positive(const struct config_reader *reader, const char *key, double missing,
                     double *number, GError **error)
{
    return config_number(reader, key, missing, number, error) &&
           ((*number > 0 && isfinite(*number)) || config_wrong(reader, key, "above 0", error));
}

/* transformers names the paper's default, 0.1 ln(factor) + 1. */
static bool read_yarn(const struct config_reader *reader, struct model_rotary *rotary,
                      GError **error)
{
    double magnitude = rotary->factor > 1 ? 0.1 * log(rotary->factor) + 1 : 1;
    return config_absent(reader, "mscale", error) &&
           config_absent(reader, "mscale_all_dim", error) &&
           positive(reader, "beta_fast", 32, &rotary->beta_fast, error) &&
           positive(reader, "beta_slow", 1, &rotary->beta_slow, error) &&
           config_bool(reader, "truncate", true, &rotary->truncate, error) &&
           positive(reader, "attention_factor", magnitude, &rotary->magnitude, error);
}

static bool read_scaled(const struct config_reader *reader, const struct model_config *config,
                        struct model_rotary *rotary, GError **error)
{
    bool original = rotary->scaling == MODEL_ROTARY_LLAMA3 || rotary->scaling == MODEL_ROTARY_YARN;
    if (rotary->scaling == MODEL_ROTARY_DEFAULT)
        return true;
    if (!json_object_get(reader->root, "factor"))
        return config_wrong(reader, "factor", "a number", error);
    if (!positive(reader, "factor", 1, &rotary->factor, error) ||
        (original && !config_count_or(reader, "original_max_position_embeddings", config->positions,
                                      &rotary->original_positions, error)))
        return false;
    if (rotary->scaling == MODEL_ROTARY_YARN)
        return read_yarn(reader, rotary, error);
    if (rotary->scaling != MODEL_ROTARY_LLAMA3)
        return true;
    if (!positive(reader, "low_freq_factor", 1, &rotary->low_frequency, error) ||
        !positive(reader, "high_freq_factor", 4, &rotary->high_frequency, error))
        return false;
    return rotary->high_frequency > rotary->low_frequency ||
           config_wrong(reader, "high_freq_factor", "above low_freq_factor", error);
}

static bool read_part(const struct config_reader *reader, const char *key, double *part,
                      GError **error)
{
    return positive(reader, key, *part, part, error) &&
           (*part <= 1 || config_wrong(reader, key, "in (0, 1]", error));
}

/* Reads an object with the keys of transformers 5, or with those of a scaling alone. */
static bool read_rotary_object(const struct config_reader *reader,
                               const struct model_config *config, struct model_rotary *rotary,
                               double *part, GError **error)
{
    return positive(reader, "rope_theta", rotary->base, &rotary->base, error) &&
           (*part == 0 || read_part(reader, "partial_rotary_factor", part, error)) &&
           read_scaling(reader, rotary, error) && read_scaled(reader, config, rotary, error);
}

bool config_read_rotary(const struct config_reader *reader, const struct config_rotary *keys,
                        struct model_config *config, GError **error)
{
    static const char *const objects[] = {"rope_parameters", "rope_scaling"};
    struct model_rotary *rotary = &config->rotary;
    double part = keys->part_key ? keys->part : 0;
    bool ok = true, found = false;
    *rotary = (struct model_rotary){.factor = 1, .magnitude = 1};
    if (!positive(reader, keys->base_key, keys->base, &rotary->base, error) ||
        (keys->part_key && !read_part(reader, keys->part_key, &part, error)))
        return false;
    for (size_t i = 0; ok && !found && i < G_N_ELEMENTS(objects); i++) {
        const json_t *object = json_object_get(reader->root, objects[i]);
        g_autofree char *origin = g_strdup_printf("%s: %s", reader->origin, objects[i]);
        const struct config_reader inner = {object, origin};
        found = object && !json_is_null(object);
        if (found && !json_is_object(object))
            return config_wrong(reader, objects[i], "an object", error);
        ok = !found || read_rotary_object(&inner, config, rotary, &part, error);
    }
    uint32_t head = model_config_head_size(config);
    rotary->columns = keys->part_key ? (uint32_t)(head * part) : head;
    return ok;
}

bool config_unscaled_rotary(const struct config_reader *reader, const struct model_config *config,
                            GError **error)
{
    enum model_rotary_scaling scaling = config->rotary.scaling;
    if (scaling == MODEL_ROTARY_DEFAULT)
        return true;
    json_t *name = json_string(scalings[scaling]);
    config_refuse(reader, "rope_type", name, "not supported for this model_type", error);
    json_decref(name);
    return false;
}

/* Returns the part of heads that turns, of which the columns are computed again by rounding down.
 */
static double part_of(const struct model_config *config)
{
    double head = model_config_head_size(config), part = config->rotary.columns / head;
    return head * part < config->rotary.columns ? nextafter(part, 1) : part;
}

void config_write_rotary(const struct model_config *config, const struct config_rotary *keys,
                         json_t *root)
{
    const struct model_rotary *rotary = &config->rotary;
    json_t *object = json_pack("{s:s, s:f}", "rope_type", scalings[rotary->scaling], "rope_theta",
                               rotary->base);
    if (keys->part_key) {
        json_object_set_new(object, "partial_rotary_factor", json_real(part_of(config)));
        json_object_set_new(root, keys->part_key, json_real(part_of(config)));
    }
    if (rotary->scaling != MODEL_ROTARY_DEFAULT)
        json_object_set_new(object, "factor", json_real(rotary->factor));
    if (rotary->original_positions)
        json_object_set_new(object, "original_max_position_embeddings",
                            json_integer(rotary->original_positions));
    if (rotary->scaling == MODEL_ROTARY_LLAMA3) {
        json_object_set_new(object, "low_freq_factor", json_real(rotary->low_frequency));
        json_object_set_new(object, "high_freq_factor", json_real(rotary->high_frequency));
    }
    if (rotary->scaling == MODEL_ROTARY_YARN) {
        json_object_set_new(object, "beta_fast", json_real(rotary->beta_fast));
        json_object_set_new(object, "beta_slow", json_real(rotary->beta_slow));
        json_object_set_new(object, "truncate", json_boolean(rotary->truncate));
        json_object_set_new(object, "attention_factor", json_real(rotary->magnitude));
    }
    json_object_set_new(root, "rope_parameters", object);
    /* for versions of transformers that know these keys alone */
    json_object_set_new(root, keys->base_key, json_real(rotary->base));
    json_object_set(root, "rope_scaling",
                    rotary->scaling == MODEL_ROTARY_DEFAULT ? json_null() : object);
}

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

static bool read_sizes(const struct config_reader *reader, const struct config_defaults *defaults,
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
    const char *const activations[] = {activation_name(config), NULL};
    const struct config_rotary rotary = rotary_keys(defaults->rotary_base, defaults->rotary_part);
    return read_sizes(reader, defaults, config, error) &&
           config_word(reader, "hidden_act", activations, error) &&
           config_epsilon(reader, "rms_norm_eps", defaults->epsilon, &config->norm_epsilon,
                          error) &&
           config_range(reader, &config->initializer_range, error) &&
           config_dropout(reader, "attention_dropout", 0, &config->attention_dropout, error) &&
           config_bool(reader, "tie_word_embeddings", defaults->tied, &config->tied, error) &&
           config_read_rotary(reader, &rotary, config, error);
}

void config_write_llama(const struct model_config *config, json_t *root)
{
    const struct config_rotary rotary = rotary_keys(10000,
                                                    model_family_of(config)->partly_turned ? 1 : 0);
    json_t *keys = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:f, s:f, s:f}", "hidden_act",
        activation_name(config), "num_hidden_layers", (json_int_t)config->layers, "hidden_size",
        (json_int_t)config->width, "num_attention_heads", (json_int_t)config->heads,
        "num_key_value_heads", (json_int_t)model_config_key_heads(config), "head_dim",
        (json_int_t)model_config_head_size(config), "intermediate_size", (json_int_t)config->inner,
        "max_position_embeddings", (json_int_t)config->positions, "vocab_size",
        (json_int_t)config->vocabulary, "tie_word_embeddings", (int)config->tied, "rms_norm_eps",
        config->norm_epsilon, "initializer_range", config->initializer_range, "attention_dropout",
        config->attention_dropout);
    g_assert(keys);
    json_object_update(root, keys);
    json_decref(keys);
    config_write_rotary(config, &rotary, root);
}
