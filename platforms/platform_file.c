/* A machine's JSON file. */
#include "platforms/platform.h"

#include <jansson.h>
#include <math.h>

/* The curves by their keys in the file. */
struct named_curve {
    const char *key;
    struct platform_curve *curve;
};

enum { CURVES = 6 };

static void name_curves(struct platform *platform, struct named_curve named[CURVES])
{
    named[0] = (struct named_curve){"h2d", &platform->h2d};
    named[1] = (struct named_curve){"d2h", &platform->d2h};
    named[2] = (struct named_curve){"compute_fp32", &platform->compute[0]};
    named[3] = (struct named_curve){"compute_bf16", &platform->compute[1]};
    named[4] = (struct named_curve){"memory", &platform->memory};
    named[5] = (struct named_curve){"host_update", &platform->host_update};
}

static bool wrong(GError **error, const char *path, const char *key, const json_t *value,
                  const char *expected)
{
    if (!value) {
        g_set_error(error, PLATFORM_ERROR, PLATFORM_ERROR_INVALID, "%s: %s is missing", path, key);
        return false;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    g_set_error(error, PLATFORM_ERROR, PLATFORM_ERROR_INVALID, "%s: %s: %s is not %s", path, key,
                text ? text : "?", expected);
    free(text);
    return false;
}

static bool read_string(const json_t *object, const char *path, const char *key, char **string,
                        GError **error)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value) || json_string_length(value) == 0)
        return wrong(error, path, key, value, "a string with something in it");
    *string = g_strdup(json_string_value(value));
    return true;
}

static bool read_bytes(const json_t *object, const char *path, const char *key, uint64_t *bytes,
                       GError **error)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 1)
        return wrong(error, path, key, value, "a whole number of bytes above 0");
    *bytes = (uint64_t)json_integer_value(value);
    return true;
}

static bool positive(const json_t *value)
{
    return json_is_number(value) && json_number_value(value) > 0 &&
           isfinite(json_number_value(value));
}

static bool read_points(const json_t *points, const char *path, const char *key,
                        struct platform_curve *curve, GError **error)
{
    size_t count = json_array_size(points);
    if (count == 0 || count > 1u << 16)
        return wrong(error, path, key, points, "a list of [amount, seconds]");
    curve->points = g_new(struct platform_point, count);
    curve->count = (uint32_t)count;
    double before = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *pair = json_array_get(points, i);
        const json_t *amount = json_array_get(pair, 0), *seconds = json_array_get(pair, 1);
        if (json_array_size(pair) != 2 || !positive(amount) || !positive(seconds))
            return wrong(error, path, key, pair, "[amount, seconds], both above 0");
        curve->points[i] = (struct platform_point){json_number_value(amount),
                                                   json_number_value(seconds)};
        if (curve->points[i].amount <= before)
            return wrong(error, path, key, pair, "above the amount before it");
        before = curve->points[i].amount;
    }
    return true;
}

static bool read_curve(const json_t *root, const char *path, const struct named_curve *named,
                       GError **error)
{
    const json_t *object = json_object_get(root, named->key);
    if (!json_is_object(object))
        return wrong(error, path, named->key, object, "an object with source and points");
    char *points = g_strconcat(named->key, ".points", NULL);
    char *source = g_strconcat(named->key, ".source", NULL);
    const json_t *text = json_object_get(object, "source");
    bool done = read_points(json_object_get(object, "points"), path, points, named->curve, error);
    if (done && !json_is_string(text))
        done = wrong(error, path, source, text, "a string");
    if (done)
        named->curve->source = g_strdup(json_string_value(text));
    g_free(source);
    g_free(points);
    return done;
}

static bool read_platform(const json_t *root, const char *path, struct platform *platform,
                          GError **error)
{
    struct named_curve named[CURVES];
    name_curves(platform, named);
    if (!json_is_object(root)) {
        g_set_error(error, PLATFORM_ERROR, PLATFORM_ERROR_INVALID, "%s: not a JSON object", path);
        return false;
    }
    if (!read_string(root, path, "name", &platform->name, error) ||
        !read_string(root, path, "source", &platform->source, error) ||
        !read_bytes(root, path, "device_bytes", &platform->device_bytes, error) ||
        !read_bytes(root, path, "host_bytes", &platform->host_bytes, error))
        return false;
    for (int i = 0; i < CURVES; i++)
        if (!read_curve(root, path, &named[i], error))
            return false;
    return true;
}

static json_t *load(const char *path, GError **error)
{
    char *text;
    gsize length;
    GError *unreadable = NULL;
    if (!g_file_get_contents(path, &text, &length, &unreadable)) {
        g_set_error_literal(error, PLATFORM_ERROR, PLATFORM_ERROR_INVALID, unreadable->message);
        g_error_free(unreadable);
        return NULL;
    }
    json_error_t place;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &place);
    if (!root)
        g_set_error(error, PLATFORM_ERROR, PLATFORM_ERROR_INVALID, "%s:%d:%d: %s", path, place.line,
                    place.column, place.text);
    g_free(text);
    return root;
}

struct platform *platform_read(const char *path, GError **error)
{
    json_t *root = load(path, error);
    if (!root)
        return NULL;
    struct platform *platform = g_new0(struct platform, 1);
    if (!read_platform(root, path, platform, error)) {
        platform_free(platform);
        platform = NULL;
    }
    json_decref(root);
    return platform;
}

static json_t *curve_to_json(const struct platform_curve *curve)
{
    json_t *points = json_array();
    for (uint32_t i = 0; i < curve->count; i++)
        json_array_append_new(
            points, json_pack("[f, f]", curve->points[i].amount, curve->points[i].seconds));
    return json_pack("{s:s, s:o}", "source", curve->source ? curve->source : "", "points", points);
}

bool platform_write(const struct platform *platform, const char *path, GError **error)
{
    struct platform copy = *platform;
    struct named_curve named[CURVES];
    name_curves(&copy, named);
    json_t *root = json_pack("{s:s, s:s, s:I, s:I}", "name", platform->name, "source",
                             platform->source, "device_bytes", (json_int_t)platform->device_bytes,
                             "host_bytes", (json_int_t)platform->host_bytes);
    g_assert(root);
    for (int i = 0; i < CURVES; i++)
        json_object_set_new(root, named[i].key, curve_to_json(named[i].curve));
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    char *line = g_strconcat(text, "\n", NULL);
    bool done = g_file_set_contents(path, line, -1, error);
    g_free(line);
    free(text);
    json_decref(root);
    return done;
}
