#include "platforms/platform.h"

#include "base/files.h"
#include "base/output_file.h"
#include "platforms/fields.h"
#include "platforms/node.h"

#include <jansson.h>
#include <math.h>

G_DEFINE_QUARK(pstar_platform_error, platform_error)

static void curve_clear(struct platform_curve *curve)
{
    g_free(curve->points);
    g_free(curve->source);
}

bool platform_names_processors(const char *machine)
{
    return g_str_has_prefix(machine, "CPU") || g_str_has_suffix(machine, " processors");
}

const char *platform_device_option(const struct platform *platform)
{
    return !platform || platform_names_processors(platform->name) ? "" : " --device cuda";
}

void platform_free(struct platform *platform)
{
    if (!platform)
        return;
    g_free(platform->name);
    g_free(platform->source);
    curve_clear(&platform->h2d);
    curve_clear(&platform->d2h);
    curve_clear(&platform->compute[0]);
    curve_clear(&platform->compute[1]);
    curve_clear(&platform->memory);
    curve_clear(&platform->host_update);
    for (int i = 0; i < PLATFORM_EXTRAS; i++)
        curve_clear(&platform->extra[i]);
    g_free(platform->threads.source);
    g_free(platform->host.source);
    g_free(platform->reserved.source);
    g_free(platform->multiprocessors.source);
    g_free(platform->framework.source);
    disk_clear(&platform->disk);
    node_clear(&platform->node);
    level_clear(&platform->network);
    g_free(platform->products);
    g_free(platform);
}

static double at_rate_of(const struct platform_point *point, double amount)
{
    return amount * (point->seconds / point->amount);
}

double platform_seconds(const struct platform_curve *curve, double amount)
{
    g_assert(curve->count > 0);
    const struct platform_point *first = curve->points, *last = first + curve->count - 1;
    if (amount <= first->amount)
        return at_rate_of(first, amount);
    if (amount >= last->amount)
        return at_rate_of(last, amount);
    const struct platform_point *right = first + 1;
    while (right->amount < amount)
        right++;
    const struct platform_point *left = right - 1;
    double share = (amount - left->amount) / (right->amount - left->amount);
    return left->seconds + share * (right->seconds - left->seconds);
}

const struct platform_curve *platform_curve_or(const struct platform_curve *curve,
                                               const struct platform_curve *otherwise)
{
    return curve->count > 0 ? curve : otherwise;
}

uint32_t platform_host_ranks(const struct platform *platform)
{
    if (platform->spread.host_ranks)
        return platform->spread.host_ranks;
    if (platform->spread.ranks)
        return platform->spread.ranks / platform->spread.nodes;
    return platform->host.source ? platform->host.ranks : 1;
}

/* Returns the time of an update on the cores of one rank, relative to its time on all cores. */
static double fewer_cores(const struct platform *platform)
{
    const struct platform_curve *curve = &platform->extra[PLATFORM_UPDATE_THREADS];
    uint32_t ranks = platform_host_ranks(platform);
    if (ranks == 1)
        return 1;
    if (curve->count == 0) /* the memory is the limit, or the curve is the whole host's */
        return platform->host.source ? 1 : ranks;
    const struct platform_point *first = curve->points, *last = first + curve->count - 1;
    double threads = last->amount / ranks;
    double seconds = threads < first->amount ? first->seconds * first->amount / threads
                                             : platform_seconds(curve, threads);
    return fmax(1, seconds / last->seconds);
}

/* Returns how many times as long the host's work takes where ranks are not bound to their nodes. */
static double far_memory(const struct platform *platform)
{
    const struct platform_host *host = &platform->host;
    return host->source && !host->bound ? host->binding_speed_up : 1;
}

double platform_update_seconds(const struct platform *platform, double elements)
{
    return platform_seconds(&platform->host_update, elements) * fewer_cores(platform) *
           far_memory(platform);
}

double platform_host_rate(const struct platform *platform)
{
    const struct platform_host *host = &platform->host;
    double rate = host->bytes_per_second / platform_host_ranks(platform);
    return host->source ? rate / far_memory(platform) : 0;
}

static uint64_t less(uint64_t bytes, uint64_t taken)
{
    return bytes > taken ? bytes - taken : 0;
}

uint64_t platform_device_room(const struct platform *platform, uint64_t library_bytes)
{
    return less(platform->device_capacity, less(platform->reserved.device_bytes, library_bytes));
}

uint64_t platform_host_room(const struct platform *platform)
{
    return less(platform->host_capacity, platform->reserved.host_bytes) /
           platform_host_ranks(platform);
}

static void exchange(struct platform_curve *curve, struct platform_curve *apart)
{
    if (apart->count == 0)
        return;
    struct platform_curve before = *curve;
    *curve = *apart;
    *apart = before;
}

void platform_keep_apart(struct platform *platform)
{
    exchange(&platform->compute[0], &platform->extra[PLATFORM_COMPUTE_FP32_APART]);
    exchange(&platform->compute[1], &platform->extra[PLATFORM_COMPUTE_BF16_APART]);
    exchange(&platform->memory, &platform->extra[PLATFORM_MEMORY_APART]);
    exchange(&platform->host_update, &platform->extra[PLATFORM_HOST_UPDATE_APART]);
}

/* ---- the file ---- */

/* The curves by their keys in the file. */
struct named_curve {
    const char *key;
    struct platform_curve *curve;
};

enum { CURVES = 6 };

static const char *const extra_keys[PLATFORM_EXTRAS] = {
    [PLATFORM_H2D_BOTH] = "h2d_both",
    [PLATFORM_D2H_BOTH] = "d2h_both",
    [PLATFORM_H2D_BESIDE] = "h2d_beside",
    [PLATFORM_D2H_BESIDE] = "d2h_beside",
    [PLATFORM_H2D_PAGEABLE] = "h2d_pageable",
    [PLATFORM_D2H_PAGEABLE] = "d2h_pageable",
    [PLATFORM_MOVE] = "move",
    [PLATFORM_MOVE_WITHIN] = "move_within",
    [PLATFORM_COMPUTE_FP32_APART] = "compute_fp32_apart",
    [PLATFORM_COMPUTE_BF16_APART] = "compute_bf16_apart",
    [PLATFORM_MEMORY_APART] = "memory_apart",
    [PLATFORM_HOST_UPDATE_APART] = "host_update_apart",
    [PLATFORM_LAUNCH] = "launch",
    [PLATFORM_UPDATE_THREADS] = "update_threads",
};

static void name_curves(struct platform *platform, struct named_curve named[CURVES])
{
    named[0] = (struct named_curve){"h2d", &platform->h2d};
    named[1] = (struct named_curve){"d2h", &platform->d2h};
    named[2] = (struct named_curve){"compute_fp32", &platform->compute[0]};
    named[3] = (struct named_curve){"compute_bf16", &platform->compute[1]};
    named[4] = (struct named_curve){"memory", &platform->memory};
    named[5] = (struct named_curve){"host_update", &platform->host_update};
}

static bool read_points(const json_t *points, const char *path, const char *key,
                        struct platform_curve *curve, GError **error)
{
    size_t count = json_array_size(points);
    if (count == 0 || count > 1u << 16)
        return field_wrong(error, path, key, points, "a non-empty list of [amount, seconds]");
    curve->points = g_new(struct platform_point, count);
    curve->count = (uint32_t)count;
    double before = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *pair = json_array_get(points, i);
        const json_t *amount = json_array_get(pair, 0), *seconds = json_array_get(pair, 1);
        if (json_array_size(pair) != 2 || !field_is_positive(amount) || !field_is_positive(seconds))
            return field_wrong(error, path, key, pair, "[amount, seconds], both above 0");
        curve->points[i] = (struct platform_point){json_number_value(amount),
                                                   json_number_value(seconds)};
        if (curve->points[i].amount <= before)
            return field_wrong(error, path, key, pair, "larger in amount than the point before it");
        before = curve->points[i].amount;
    }
    return true;
}

static bool read_curve(const json_t *root, const char *path, const struct named_curve *named,
                       GError **error)
{
    const json_t *object = json_object_get(root, named->key);
    if (!json_is_object(object))
        return field_wrong(error, path, named->key, object, "an object with source and points");
    char *points = g_strconcat(named->key, ".points", NULL);
    char *source = g_strconcat(named->key, ".source", NULL);
    const json_t *text = json_object_get(object, "source");
    bool done = read_points(json_object_get(object, "points"), path, points, named->curve, error);
    if (done && !json_is_string(text))
        done = field_wrong(error, path, source, text, "a string");
    if (done)
        named->curve->source = g_strdup(json_string_value(text));
    g_free(source);
    g_free(points);
    return done;
}

/* ---- what a file may lack ---- */

static bool read_extras(const json_t *root, const char *path, struct platform *platform,
                        GError **error)
{
    for (int i = 0; i < PLATFORM_EXTRAS; i++) {
        const struct named_curve named = {extra_keys[i], &platform->extra[i]};
        if (json_object_get(root, extra_keys[i]) && !read_curve(root, path, &named, error))
            return false;
    }
    return true;
}

static bool read_slow_down(const json_t *object, const char *path, double slow_down[3][3],
                           GError **error)
{
    const json_t *rows = json_object_get(object, "slow_down");
    for (size_t bound = 0; bound < 3; bound++)
        for (size_t neighbour = 0; neighbour < 3; neighbour++) {
            const json_t *value = json_array_get(json_array_get(rows, bound), neighbour);
            slow_down[bound][neighbour] = json_number_value(value);
            if (!json_is_number(value) || !(slow_down[bound][neighbour] >= 0))
                return field_wrong(error, path, "slow_down", rows,
                                   "a 3 x 3 matrix of numbers of at least 0");
        }
    return true;
}

static bool read_threads(const json_t *root, const char *path, struct platform_threads *threads,
                         GError **error)
{
    const json_t *object = json_object_get(root, "threads");
    uint64_t cores = 0;
    if (!object)
        return true;
    if (!field_string(object, path, "source", &threads->source, error) ||
        !field_bytes(object, path, "host_cores", &cores, error) ||
        !field_seconds(object, path, "put_seconds", &threads->put_seconds, error) ||
        !field_seconds(object, path, "wake_seconds", &threads->wake_seconds, error) ||
        !field_seconds(object, path, "late_seconds", &threads->late_seconds, error) ||
        !field_seconds(object, path, "gap_seconds", &threads->gap_seconds, error))
        return false;
    threads->host_cores = (uint32_t)MIN(cores, UINT32_MAX);
    cores = 0;
    if (json_object_get(object, "cores") && !field_bytes(object, path, "cores", &cores, error))
        return false;
    threads->cores = (uint32_t)MIN(cores, UINT32_MAX);
    return read_slow_down(object, path, threads->slow_down, error);
}

/* What a file leaves out: one rank, which is bound. */
static bool read_host(const json_t *root, const char *path, struct platform_host *host,
                      GError **error)
{
    const json_t *object = json_object_get(root, "host"), *bound = json_object_get(object, "bound");
    uint64_t ranks = 1;
    if (!object)
        return true;
    host->bound = !json_is_false(bound);
    host->binding_speed_up = 1;
    if (!field_string(object, path, "source", &host->source, error) ||
        !field_positive(object, path, "bytes_per_second", &host->bytes_per_second, error) ||
        (json_object_get(object, "ranks") && !field_bytes(object, path, "ranks", &ranks, error)) ||
        (json_object_get(object, "binding_speed_up") &&
         !field_positive(object, path, "binding_speed_up", &host->binding_speed_up, error)))
        return false;
    host->ranks = (uint32_t)MIN(ranks, UINT32_MAX);
    if (bound && !json_is_boolean(bound))
        return field_wrong(error, path, "bound", bound, "true or false");
    return host->binding_speed_up >= 1 ||
           field_wrong(error, path, "binding_speed_up", json_object_get(object, "binding_speed_up"),
                       "at least 1");
}

static bool read_reserved(const json_t *root, const char *path, struct platform_reserved *reserved,
                          GError **error)
{
    const json_t *object = json_object_get(root, "reserved");
    return !object || (field_string(object, path, "source", &reserved->source, error) &&
                       field_size(object, path, "device_bytes", &reserved->device_bytes, error) &&
                       field_size(object, path, "host_bytes", &reserved->host_bytes, error));
}

static bool read_multiprocessors(const json_t *root, const char *path,
                                 struct platform_multiprocessors *multiprocessors, GError **error)
{
    const json_t *object = json_object_get(root, "multiprocessors");
    uint64_t count = 0;
    if (!object)
        return true;
    if (!field_string(object, path, "source", &multiprocessors->source, error) ||
        !field_bytes(object, path, "count", &count, error))
        return false;
    multiprocessors->count = (uint32_t)MIN(count, UINT32_MAX);
    return true;
}

static bool read_share(const json_t *object, const char *path, const char *key, double *share,
                       GError **error)
{
    return field_positive(object, path, key, share, error) &&
           (*share <= 1 ||
            field_wrong(error, path, key, json_object_get(object, key), "at most 1"));
}

static bool read_framework(const json_t *root, const char *path,
                           struct platform_framework *framework, GError **error)
{
    const json_t *object = json_object_get(root, "framework");
    return !object ||
           (field_string(object, path, "source", &framework->source, error) &&
            read_share(object, path, "products", &framework->products, error) &&
            read_share(object, path, "attention", &framework->attention, error) &&
            field_positive(object, path, "passes", &framework->passes, error) &&
            (framework->passes >= 1 ||
             field_wrong(error, path, "passes", json_object_get(object, "passes"), "at least 1")));
}

static bool read_product(const json_t *object, struct platform_product *product)
{
    const char *precision = NULL;
    int rows = 0, inputs = 0, outputs = 0, threads = 0;
    if (json_unpack((json_t *)object, "{s:i, s:i, s:i, s:i, s:s, s:F}", "rows", &rows, "inputs",
                    &inputs, "outputs", &outputs, "threads", &threads, "precision", &precision,
                    "seconds", &product->seconds) != 0)
        return false;
    product->rows = (uint32_t)rows;
    product->inputs = (uint32_t)inputs;
    product->outputs = (uint32_t)outputs;
    product->threads = (uint32_t)threads;
    product->bf16 = g_str_equal(precision, "bf16");
    return rows > 0 && inputs > 0 && outputs > 0 && threads > 0 && product->seconds > 0 &&
           (product->bf16 || g_str_equal(precision, "fp32"));
}

static bool read_products(const json_t *root, const char *path, struct platform *platform,
                          GError **error)
{
    const json_t *list = json_object_get(root, "products");
    platform->product_count = (uint32_t)json_array_size(list);
    platform->products = g_new0(struct platform_product, platform->product_count);
    for (uint32_t i = 0; i < platform->product_count; i++)
        if (!read_product(json_array_get(list, i), &platform->products[i]))
            return field_wrong(
                error, path, "products", json_array_get(list, i),
                "an object with rows, inputs, outputs, threads, precision and seconds");
    return true;
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
    if (!field_string(root, path, "name", &platform->name, error) ||
        !field_string(root, path, "source", &platform->source, error) ||
        !field_size(root, path, "device_bytes", &platform->device_capacity, error) ||
        !field_size(root, path, "host_bytes", &platform->host_capacity, error))
        return false;
    for (int i = 0; i < CURVES; i++)
        if (!read_curve(root, path, &named[i], error))
            return false;
    return read_extras(root, path, platform, error) &&
           read_threads(root, path, &platform->threads, error) &&
           read_host(root, path, &platform->host, error) &&
           read_reserved(root, path, &platform->reserved, error) &&
           read_multiprocessors(root, path, &platform->multiprocessors, error) &&
           read_framework(root, path, &platform->framework, error) &&
           disk_read(root, path, &platform->disk, error) &&
           node_read(root, path, &platform->node, error) &&
           network_read(root, path, &platform->network, error) &&
           read_products(root, path, platform, error);
}

struct platform *platform_parse(const char *text, const char *origin, GError **error)
{
    json_error_t place;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &place);
    if (!root) {
        g_set_error(error, PLATFORM_ERROR, PLATFORM_ERROR_INVALID, "%s:%d:%d: %s", origin,
                    place.line, place.column, place.text);
        return NULL;
    }
    struct platform *platform = g_new0(struct platform, 1);
    if (!read_platform(root, origin, platform, error)) {
        platform_free(platform);
        platform = NULL;
    }
    json_decref(root);
    return platform;
}

struct platform *platform_read(const char *path, GError **error)
{
    g_autofree char *text = NULL;
    GError *unreadable = NULL;
    if (!input_text_check(path, INPUT_SMALL, error))
        return NULL;
    if (g_file_get_contents(path, &text, NULL, &unreadable))
        return platform_parse(text, path, error);
    g_set_error_literal(error, PLATFORM_ERROR, PLATFORM_ERROR_INVALID, unreadable->message);
    g_error_free(unreadable);
    return NULL;
}

static json_t *curve_to_json(const struct platform_curve *curve)
{
    json_t *points = json_array();
    for (uint32_t i = 0; i < curve->count; i++)
        json_array_append_new(
            points, json_pack("[f, f]", curve->points[i].amount, curve->points[i].seconds));
    return json_pack("{s:s, s:o}", "source", curve->source ? curve->source : "", "points", points);
}

static json_t *threads_to_json(const struct platform_threads *threads)
{
    json_t *rows = json_array();
    for (int bound = 0; bound < 3; bound++) {
        const double *row = threads->slow_down[bound];
        json_array_append_new(rows, json_pack("[f, f, f]", row[0], row[1], row[2]));
    }
    json_t *object = json_pack("{s:s, s:i, s:f, s:f, s:f, s:f, s:o}", "source", threads->source,
                               "host_cores", (int)threads->host_cores, "put_seconds",
                               threads->put_seconds, "wake_seconds", threads->wake_seconds,
                               "late_seconds", threads->late_seconds, "gap_seconds",
                               threads->gap_seconds, "slow_down", rows);
    if (threads->cores)
        json_object_set_new(object, "cores", json_integer(threads->cores));
    return object;
}

static json_t *host_to_json(const struct platform_host *host)
{
    return json_pack("{s:s, s:f, s:i, s:b, s:f}", "source", host->source, "bytes_per_second",
                     host->bytes_per_second, "ranks", (int)host->ranks, "bound", (int)host->bound,
                     "binding_speed_up", host->binding_speed_up);
}

static json_t *reserved_to_json(const struct platform_reserved *reserved)
{
    return json_pack("{s:s, s:I, s:I}", "source", reserved->source, "device_bytes",
                     (json_int_t)reserved->device_bytes, "host_bytes",
                     (json_int_t)reserved->host_bytes);
}

static json_t *multiprocessors_to_json(const struct platform_multiprocessors *multiprocessors)
{
    return json_pack("{s:s, s:I}", "source", multiprocessors->source, "count",
                     (json_int_t)multiprocessors->count);
}

static json_t *framework_to_json(const struct platform_framework *framework)
{
    return json_pack("{s:s, s:f, s:f, s:f}", "source", framework->source, "products",
                     framework->products, "attention", framework->attention, "passes",
                     framework->passes);
}

static json_t *products_to_json(const struct platform *platform)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < platform->product_count; i++) {
        const struct platform_product *p = &platform->products[i];
        json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:i, s:i, s:f}", "precision",
                                              p->bf16 ? "bf16" : "fp32", "rows", (int)p->rows,
                                              "inputs", (int)p->inputs, "outputs", (int)p->outputs,
                                              "threads", (int)p->threads, "seconds", p->seconds));
    }
    return list;
}

bool platform_write(const struct platform *platform, const char *path, GError **error)
{
    struct platform copy = *platform;
    struct named_curve named[CURVES];
    name_curves(&copy, named);
    json_t *root = json_pack(
        "{s:s, s:s, s:I, s:I}", "name", platform->name, "source", platform->source, "device_bytes",
        (json_int_t)platform->device_capacity, "host_bytes", (json_int_t)platform->host_capacity);
    g_assert(root);
    for (int i = 0; i < CURVES; i++)
        json_object_set_new(root, named[i].key, curve_to_json(named[i].curve));
    for (int i = 0; i < PLATFORM_EXTRAS; i++)
        if (platform->extra[i].count > 0)
            json_object_set_new(root, extra_keys[i], curve_to_json(&platform->extra[i]));
    if (platform->threads.source)
        json_object_set_new(root, "threads", threads_to_json(&platform->threads));
    if (platform->host.source)
        json_object_set_new(root, "host", host_to_json(&platform->host));
    if (platform->reserved.source)
        json_object_set_new(root, "reserved", reserved_to_json(&platform->reserved));
    if (platform->multiprocessors.source)
        json_object_set_new(root, "multiprocessors",
                            multiprocessors_to_json(&platform->multiprocessors));
    if (platform->framework.source)
        json_object_set_new(root, "framework", framework_to_json(&platform->framework));
    if (platform->disk.source)
        json_object_set_new(root, "nvme", disk_to_json(&platform->disk));
    if (platform->node.gpus)
        json_object_set_new(root, "node", node_to_json(&platform->node));
    if (platform->network.source)
        json_object_set_new(root, "network", level_to_json(&platform->network));
    if (platform->product_count > 0)
        json_object_set_new(root, "products", products_to_json(platform));
    bool done = output_file_write_json(path, root, JSON_INDENT(2) | JSON_REAL_PRECISION(10), error);
    json_decref(root);
    return done;
}
