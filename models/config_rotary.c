/* The keys of config.json for rotary positions. */
#include "models/config_reader.h"

#include <math.h>

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

static bool read_rotary_object(const struct config_reader *reader,
                               const struct model_config *config, struct model_rotary *rotary,
                               double *part, GError **error)
{
    return positive(reader, "rope_theta", rotary->base, &rotary->base, error) &&
           (*part == 0 || read_part(reader, "partial_rotary_factor", part, error)) &&
           read_scaling(reader, rotary, error) && read_scaled(reader, config, rotary, error);
}

bool config_read_rotary_object(const struct config_reader *reader, double base,
                               const struct model_config *config, struct model_rotary *rotary,
                               GError **error)
{
    *rotary = (struct model_rotary){
        .columns = model_config_head_size(config), .base = base, .factor = 1, .magnitude = 1};
    return read_rotary_object(reader, config, rotary, &(double){0}, error);
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

json_t *config_rotary_object(const struct model_rotary *rotary)
{
    json_t *object = json_pack("{s:s, s:f}", "rope_type", scalings[rotary->scaling], "rope_theta",
                               rotary->base);
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
    return object;
}

void config_write_rotary(const struct model_config *config, const struct config_rotary *keys,
                         json_t *root)
{
    const struct model_rotary *rotary = &config->rotary;
    json_t *object = config_rotary_object(rotary);
    if (keys->part_key) {
        json_object_set_new(object, "partial_rotary_factor", json_real(part_of(config)));
        json_object_set_new(root, keys->part_key, json_real(part_of(config)));
    }
    json_object_set_new(root, "rope_parameters", object);
    /* for versions of transformers that know these keys alone */
    json_object_set_new(root, keys->base_key, json_real(rotary->base));
    json_object_set(root, "rope_scaling",
                    rotary->scaling == MODEL_ROTARY_DEFAULT ? json_null() : object);
}
