#include "models/expert_rows.h"

#include "base/files.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Loads up to this are exact in floating point. */
#define MOST_LOAD (UINT64_C(1) << 40)

/* ---- rows ---- */

/* An expert's claim on rows that are left over: the part of a row that was cut off. */
struct claim {
    double part;
    uint32_t expert;
};

static int by_claim(const void *a, const void *b)
{
    const struct claim *x = a, *y = b;
    if (x->part != y->part)
        return x->part > y->part ? -1 : 1;
    return x->expert < y->expert ? -1 : 1;
}

/* Gives one row each to the experts that claim most, of those that have room. Returns how many rows
 * are left. */
static uint64_t give_rest(struct claim *claims, uint32_t count, uint64_t most, uint64_t left,
                          uint64_t *rows)
{
    qsort(claims, count, sizeof *claims, by_claim);
    for (uint32_t i = 0; i < count && left; i++)
        if (rows[claims[i].expert] < most) {
            rows[claims[i].expert]++;
            left--;
        }
    return left;
}

/* Spreads rows over the experts that have room, by their loads. Returns how many are left. */
static uint64_t spread(const uint64_t *loads, uint32_t experts, uint64_t most, uint64_t left,
                       uint64_t *rows)
{
    g_autofree struct claim *claims = g_new(struct claim, experts);
    uint64_t sum = 0, given = 0;
    uint32_t count = 0;
    for (uint32_t e = 0; e < experts; e++)
        sum += rows[e] < most ? loads[e] : 0;
    for (uint32_t e = 0; e < experts; e++) {
        if (!loads[e] || rows[e] >= most)
            continue;
        double share = sum == left ? (double)loads[e]
                                   : (double)left * ((double)loads[e] / (double)sum);
        uint64_t more = MIN((uint64_t)share, MIN(most - rows[e], left - given));
        rows[e] += more;
        given += more;
        claims[count++] = (struct claim){share - floor(share), e};
    }
    return given ? left - given : give_rest(claims, count, most, left, rows);
}

void expert_rows(const struct model_config *config, uint32_t layer, uint64_t n, uint64_t *rows)
{
    const uint64_t *loads = config->expert_loads;
    uint64_t left = n * config->experts_per_token;
    for (uint32_t e = 0; e < config->experts; e++)
        rows[e] = loads ? 0 : left / config->experts + (e < left % config->experts);
    if (loads)
        loads += (size_t)layer * config->experts;
    while (loads && left)
        left = spread(loads, config->experts, n, left, rows);
}

bool expert_is_used(const struct model_config *config, const uint64_t *rows, uint32_t expert)
{
    return !config->expert_loads || rows[expert] > 0;
}

uint32_t expert_count_used(const struct model_config *config, uint64_t n)
{
    g_autofree uint64_t *rows = g_new(uint64_t, config->experts);
    uint32_t used = 0;
    for (uint32_t layer = 0; config->experts && layer < config->layers; layer++) {
        expert_rows(config, layer, n, rows);
        for (uint32_t e = 0; e < config->experts; e++)
            used += expert_is_used(config, rows, e);
    }
    return used;
}

/* ---- loads ---- */

static bool refuse(GError **error, const char *text, const char *format, ...) G_GNUC_PRINTF(3, 4);

static bool refuse(GError **error, const char *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *why = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG, "--expert-loads %s: %s", text, why);
    return false;
}

/* Returns a list of the numbers in "4,2,1,1". */
static json_t *parse_numbers(const char *text)
{
    g_auto(GStrv) words = g_strsplit(text, ",", -1);
    json_t *list = json_array();
    for (char **word = words; *word; word++) {
        guint64 load;
        if (!g_ascii_string_to_unsigned(*word, 10, 0, MOST_LOAD, &load, NULL)) {
            json_decref(list);
            return NULL;
        }
        json_array_append_new(list, json_integer((json_int_t)load));
    }
    return list;
}

static json_t *read_numbers(const char *path, GError **error)
{
    json_error_t place;
    if (!input_text_check(path, INPUT_SMALL, error))
        return NULL;
    json_t *list = input_json_load(path, 0, &place);
    g_autofree char *problem = list ? NULL : input_json_problem(&place);
    if (problem)
        refuse(error, path, "%s", problem);
    return list;
}

static bool set_layer(const struct model_config *config, const char *text, const json_t *list,
                      uint64_t *loads, GError **error)
{
    uint32_t used = 0;
    if (!json_is_array(list) || json_array_size(list) != config->experts)
        return refuse(error, text, "must be numbers for %u experts", config->experts);
    for (uint32_t e = 0; e < config->experts; e++) {
        const json_t *load = json_array_get(list, e);
        json_int_t value = json_is_integer(load) ? json_integer_value(load) : -1;
        if (value < 0 || (uint64_t)value > MOST_LOAD)
            return refuse(error, text,
                          "the load of expert %u must be a whole number, 0 or more, "
                          "at most 2^40",
                          e);
        loads[e] = (uint64_t)value;
        used += value > 0;
    }
    return used >= config->experts_per_token ||
           refuse(error, text, "tokens go through %u different experts, but only %u have a load",
                  config->experts_per_token, used);
}

static bool set_layers(struct model_config *config, const char *text, const json_t *root,
                       GError **error)
{
    bool each = json_is_array(json_array_get(root, 0));
    uint64_t *loads = g_new0(uint64_t, (size_t)config->layers * config->experts);
    bool ok = !each || json_array_size(root) == config->layers ||
              refuse(error, text, "must have a list for each of %u layers", config->layers);
    for (uint32_t layer = 0; ok && layer < config->layers; layer++)
        ok = set_layer(config, text, each ? json_array_get(root, layer) : root,
                       loads + (size_t)layer * config->experts, error);
    g_free(config->expert_loads);
    config->expert_loads = ok ? loads : NULL;
    if (!ok)
        g_free(loads);
    return ok;
}

/* Returns whether the text means numbers, and not the name of a file. */
static bool looks_like_numbers(const char *text)
{
    return strspn(text, "0123456789,.+- ") == strlen(text) &&
           !g_file_test(text, G_FILE_TEST_EXISTS);
}

bool expert_loads_choose(struct model_config *config, const char *text, GError **error)
{
    if (!text || strcmp(text, "balanced") == 0)
        return true;
    if (!config->experts)
        return refuse(error, text, "the model has no experts");
    json_t *root = parse_numbers(text);
    if (!root && looks_like_numbers(text))
        return refuse(error, text,
                      "must be whole numbers, 0 or more, at most 2^40, with commas between them");
    if (!root && !(root = read_numbers(text, error)))
        return false;
    bool ok = set_layers(config, text, root, error);
    json_decref(root);
    return ok;
}
