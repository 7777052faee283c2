/* The keys of config.json for rotary positions. */
#include "models/config_reader.h"
#include "models/family.h"

#include <math.h>

enum { LONG_ORIGINAL = 4096 }; /* positions of the first training where longrope's file has none */

static const char *const scalings[] = {
    [MODEL_ROTARY_DEFAULT] = "default", [MODEL_ROTARY_LINEAR] = "linear",
    [MODEL_ROTARY_DYNAMIC] = "dynamic", [MODEL_ROTARY_LLAMA3] = "llama3",
    [MODEL_ROTARY_YARN] = "yarn",       [MODEL_ROTARY_LONGROPE] = "longrope",
};

static bool scaling_supported(const struct model_config *config, enum model_rotary_scaling scaling)
{
    bool is_long = scaling == MODEL_ROTARY_LONGROPE;
    return scaling == MODEL_ROTARY_DEFAULT || is_long == model_family_of(config)->long_rotary;
}

/* Older files call the key "type", and longrope "su" or "yarn". */
static bool read_scaling(const struct config_reader *reader, const struct model_config *config,
                         struct model_rotary *rotary, GError **error)
{
    bool is_long = model_family_of(config)->long_rotary;
    const json_t *type = json_object_get(reader->root, "rope_type");
    if (!type)
        type = json_object_get(reader->root, "type");
    if (!type)
        return true;
    const char *name = json_string_value(type);
    if (is_long && (!g_strcmp0(name, "su") || !g_strcmp0(name, "yarn")))
        name = "longrope";
    for (size_t i = 0; i < G_N_ELEMENTS(scalings); i++)
        if (!g_strcmp0(name, scalings[i]) && scaling_supported(config, i)) {
            rotary->scaling = i;
            return true;
        }
    return config_refuse(reader, "rope_type", type,
                         is_long ? "not supported for this model_type; supported are default and "
                                   "longrope"
                                 : "not supported; supported are default, linear, dynamic, llama3 "
                                   "and yarn",
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

/* Sets *factors to a list of `count` numbers. */
static bool read_factors(const struct config_reader *reader, const char *key, uint32_t count,
                         double **factors, GError **error)
{
    g_autofree char *expected = g_strdup_printf("a list of %u numbers above 0", count);
    const json_t *list = json_object_get(reader->root, key);
    if (!json_is_array(list) || json_array_size(list) != count)
        return config_wrong(reader, key, expected, error);
    *factors = g_new(double, count);
    for (uint32_t i = 0; i < count; i++) {
        (*factors)[i] = json_number_value(json_array_get(list, i));
        if (!((*factors)[i] > 0 && isfinite((*factors)[i])))
            return config_wrong(reader, key, expected, error);
    }
    return true;
}

/* LongRoPE (Ding et al., 2024), with the magnitude that transformers names the paper's default. */
static bool read_longrope(const struct config_reader *reader, const struct model_config *config,
                          double part, struct model_rotary *rotary, GError **error)
{
    uint32_t head = model_config_head_size(config);
    uint32_t pairs = (part > 0 ? (uint32_t)(head * part) : head) / 2;
    double first = rotary->original_positions, factor, magnitude;
    if (!positive(reader, "factor", config->positions / first, &factor, error))
        return false;
    magnitude = factor > 1 && first > 1 ? sqrt(1 + log(factor) / log(first)) : 1;
    return positive(reader, "attention_factor", magnitude, &rotary->magnitude, error) &&
           read_factors(reader, "short_factor", pairs, &rotary->short_factors, error) &&
           read_factors(reader, "long_factor", pairs, &rotary->long_factors, error);
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
           read_scaling(reader, config, rotary, error) &&
           (rotary->scaling == MODEL_ROTARY_LONGROPE
                ? read_longrope(reader, config, *part, rotary, error)
                : read_scaled(reader, config, rotary, error));
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
    if (model_family_of(config)->long_rotary &&
        !config_count_or(reader, "original_max_position_embeddings", LONG_ORIGINAL,
                         &rotary->original_positions, error))
        return false;
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
    if (rotary->scaling == MODEL_ROTARY_DEFAULT)
        rotary->original_positions = 0;
    rotary->columns = keys->part_key ? (uint32_t)(head * part) : head;
    return ok;
}

/* Returns the part of heads that turns, of which the columns are computed again by rounding down.
 */
static double part_of(const struct model_config *config)
{
    double head = model_config_head_size(config), part = config->rotary.columns / head;
    return head * part < config->rotary.columns ? nextafter(part, 1) : part;
}

static json_t *factor_list(const struct model_rotary *rotary, const double *factors)
{
    json_t *list = json_array();
    for (uint32_t pair = 0; pair < rotary->columns / 2; pair++)
        json_array_append_new(list, json_real(factors[pair]));
    return list;
}

json_t *config_rotary_object(const struct model_rotary *rotary)
{
    json_t *object = json_pack("{s:s, s:f}", "rope_type", scalings[rotary->scaling], "rope_theta",
                               rotary->base);
    if (rotary->scaling == MODEL_ROTARY_LONGROPE) {
        json_object_set_new(object, "short_factor", factor_list(rotary, rotary->short_factors));
        json_object_set_new(object, "long_factor", factor_list(rotary, rotary->long_factors));
        json_object_set_new(object, "attention_factor", json_real(rotary->magnitude));
    } else if (rotary->scaling != MODEL_ROTARY_DEFAULT) {
        json_object_set_new(object, "factor", json_real(rotary->factor));
    }
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
