#include "models/config_reader.h"

#include <math.h>

enum { MOST_LAYERS = 1 << 16, MOST = 1 << 24 };

/* ---- errors ---- */

bool config_refuse(const struct config_reader *reader, const char *key, const json_t *value,
                   const char *why, GError **error)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    g_set_error(error, MODEL_ERROR, MODEL_ERROR_UNSUPPORTED, "%s: %s: %s: %s", reader->origin, key,
                text ? text : "?", why);
    free(text);
    return false;
}

bool config_wrong(const struct config_reader *reader, const char *key, const char *expected,
                  GError **error)
{
    const json_t *value = json_object_get(reader->root, key);
    if (!value) {
        g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG, "%s: %s is missing", reader->origin,
                    key);
        return false;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG, "%s: %s is %s; it must be %s",
                reader->origin, key, text ? text : "?", expected);
    free(text);
    return false;
}

/* ---- values ---- */

static const json_t *value_of(const struct config_reader *reader, const char *key)
{
    const json_t *value = json_object_get(reader->root, key);
    return json_is_null(value) ? NULL : value;
}

bool config_count(const struct config_reader *reader, const char *key, uint32_t *count,
                  GError **error)
{
    const json_t *value = json_object_get(reader->root, key);
    json_int_t number = json_integer_value(value);
    bool layers = g_str_has_suffix(key, "layer") || g_str_has_suffix(key, "layers");
    if (!json_is_integer(value) || number < 1 || number > (layers ? MOST_LAYERS : MOST))
        return config_wrong(reader, key,
                            layers ? "an integer in [1, 65536]" : "an integer in [1, 16777216]",
                            error);
    *count = (uint32_t)number;
    return true;
}

bool config_count_or(const struct config_reader *reader, const char *key, uint32_t missing,
                     uint32_t *count, GError **error)
{
    *count = missing;
    return !value_of(reader, key) || config_count(reader, key, count, error);
}

bool config_number(const struct config_reader *reader, const char *key, double missing,
                   double *number, GError **error)
{
    const json_t *value = json_object_get(reader->root, key);
    if (value && !json_is_number(value))
        return config_wrong(reader, key, "a number", error);
    *number = value ? json_number_value(value) : missing;
    return true;
}

bool config_bool(const struct config_reader *reader, const char *key, bool missing, bool *setting,
                 GError **error)
{
    const json_t *value = json_object_get(reader->root, key);
    if (value && !json_is_boolean(value))
        return config_wrong(reader, key, "true or false", error);
    *setting = value ? json_is_true(value) : missing;
    return true;
}

bool config_word(const struct config_reader *reader, const char *key, const char *const *known,
                 GError **error)
{
    const json_t *value = json_object_get(reader->root, key);
    if (!value || (json_is_string(value) && g_strv_contains(known, json_string_value(value))))
        return true;
    g_autofree char *words = g_strjoinv("\" and \"", (char **)known);
    g_autofree char *why = g_strdup_printf("not supported; only \"%s\" %s supported", words,
                                           known[1] ? "are" : "is");
    return config_refuse(reader, key, value, why, error);
}

bool config_switch(const struct config_reader *reader, const char *key, bool only, GError **error)
{
    const json_t *value = value_of(reader, key);
    if (!value || (json_is_boolean(value) && json_is_true(value) == only))
        return true;
    return config_refuse(reader, key, value,
                         only ? "not supported; only true is supported"
                              : "not supported; only false is supported",
                         error);
}

bool config_absent(const struct config_reader *reader, const char *key, GError **error)
{
    const json_t *value = value_of(reader, key);
    bool empty = !value || (json_is_object(value) && json_object_size(value) == 0);
    return empty || config_refuse(reader, key, value, "not supported", error);
}

bool config_dropout(const struct config_reader *reader, const char *key, double missing,
                    double *dropout, GError **error)
{
    if (!config_number(reader, key, missing, dropout, error))
        return false;
    return (*dropout >= 0 && *dropout < 1) || config_wrong(reader, key, "in [0, 1)", error);
}

bool config_epsilon(const struct config_reader *reader, const char *key, double missing,
                    double *epsilon, GError **error)
{
    if (!config_number(reader, key, missing, epsilon, error))
        return false;
    return (*epsilon > 0 && *epsilon < 1) || config_wrong(reader, key, "between 0 and 1", error);
}

bool config_range(const struct config_reader *reader, double *range, GError **error)
{
    const char *key = "initializer_range";
    if (!config_number(reader, key, 0.02, range, error))
        return false;
    return (*range > 0 && isfinite(*range)) || config_wrong(reader, key, "above 0", error);
}

bool config_heads_divide(const struct config_reader *reader, const char *width_key,
                         const char *heads_key, const struct model_config *config, GError **error)
{
    if (config->head_size || config->width % config->heads == 0)
        return true;
    g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG,
                "%s: %s is %u; it must be a multiple of %s, which is %u", reader->origin, width_key,
                config->width, heads_key, config->heads);
    return false;
}
