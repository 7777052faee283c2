#include "platforms/fields.h"

#include "base/size.h"
#include "platforms/platform.h"

#include <math.h>

bool field_wrong(GError **error, const char *path, const char *key, const json_t *value,
                 const char *expected)
{
    if (!value) {
        g_set_error(error, PLATFORM_ERROR, PLATFORM_ERROR_INVALID, "%s: %s is missing", path, key);
        return false;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    g_set_error(error, PLATFORM_ERROR, PLATFORM_ERROR_INVALID, "%s: %s is %s; it must be %s", path,
                key, text ? text : "?", expected);
    free(text);
    return false;
}

bool field_string(const json_t *object, const char *path, const char *key, char **string,
                  GError **error)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value) || json_string_length(value) == 0)
        return field_wrong(error, path, key, value, "a non-empty string");
    *string = g_strdup(json_string_value(value));
    return true;
}

bool field_bytes(const json_t *object, const char *path, const char *key, uint64_t *bytes,
                 GError **error)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 1)
        return field_wrong(error, path, key, value, "an integer above 0");
    *bytes = (uint64_t)json_integer_value(value);
    return true;
}

bool field_size(const json_t *object, const char *path, const char *key, uint64_t *bytes,
                GError **error)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value))
        return field_bytes(object, path, key, bytes, error);
    return (size_parse(json_string_value(value), bytes, NULL) && *bytes > 0) ||
           field_wrong(error, path, key, value, "a size such as 40GB, or an integer above 0");
}

bool field_is_positive(const json_t *value)
{
    return json_is_number(value) && json_number_value(value) > 0 &&
           isfinite(json_number_value(value));
}

bool field_positive(const json_t *object, const char *path, const char *key, double *number,
                    GError **error)
{
    const json_t *value = json_object_get(object, key);
    *number = json_number_value(value);
    return field_is_positive(value) || field_wrong(error, path, key, value, "a number above 0");
}

bool field_seconds(const json_t *object, const char *path, const char *key, double *seconds,
                   GError **error)
{
    const json_t *value = json_object_get(object, key);
    *seconds = json_number_value(value);
    if (!json_is_number(value) || !(*seconds >= 0 && *seconds < 1))
        return field_wrong(error, path, key, value, "a number of seconds in [0, 1)");
    return true;
}
