#include "sim/sizes.h"

#include "base/size.h"
#include "chunks/chunk_sizes.h"
#include "chunks/layout_file.h"
#include "chunks/non_model.h"

#include <math.h>
#include <string.h>

G_DEFINE_QUARK(pstar_sizes_error, sizes_error)

#define CHUNK_MOST ((UINT64_C(1) << 60) - 1) /* bytes; sums stay below 64 bits */

enum { SIZES_MOST = 10000 /* of one range */, COUNT_MOST = 1000000 };

static uint64_t aligned(double bytes)
{
    return (uint64_t)ceil(bytes / LAYOUT_ALIGNMENT) * LAYOUT_ALIGNMENT;
}

/* Splits a list, which must not be empty. */
static char **split_list(const char *text, GError **error)
{
    if (*text)
        return g_strsplit(text, ",", -1);
    g_set_error(error, SIZES_ERROR, SIZES_ERROR_INVALID, "'%s': the list is empty", text);
    return NULL;
}

static int ascending(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void append_size(GArray *sizes, double bytes)
{
    uint64_t size = MAX(aligned(bytes), LAYOUT_ALIGNMENT);
    g_array_append_val(sizes, size);
}

static void append_range(GArray *sizes, double least, double most)
{
    for (int step = 0; step < SIZES_MOST; step++) {
        double bytes = least * pow(2.0, step / 2.0);
        if (bytes >= most * 0.999)
            break;
        append_size(sizes, bytes);
    }
    append_size(sizes, most);
}

static void append_default(GArray *sizes, const struct trace *trace)
{
    uint32_t lists = 0;
    for (int list = 0; list < TRACE_LISTS; list++)
        lists += trace->list_element_bytes[list] > 0;
    double mean = (double)trace_model_bytes(trace) / trace->tensor_count / lists;
    append_range(sizes, mean / 4, mean * 16);
}

static bool parse_range(const char *text, GArray *sizes, GError **error)
{
    g_auto(GStrv) ends = g_strsplit(text, ":", 2);
    uint64_t least, most;
    if (!size_parse(ends[0], &least, error) || !size_parse(ends[1], &most, error))
        return false;
    if (!least || least > most || most > CHUNK_MOST) {
        g_set_error(error, SIZES_ERROR, SIZES_ERROR_INVALID,
                    "'%s': the first must be above 0, and the second no less and below 1 EiB",
                    text);
        return false;
    }
    append_range(sizes, (double)least, (double)most);
    return true;
}

static bool parse_list(const char *text, GArray *sizes, GError **error)
{
    g_auto(GStrv) items = split_list(text, error);
    for (char **item = items; items && *item; item++) {
        uint64_t bytes;
        if (!size_parse(*item, &bytes, error))
            return false;
        if (!bytes || bytes > CHUNK_MOST) {
            g_set_error(error, SIZES_ERROR, SIZES_ERROR_INVALID,
                        "'%s': a size must be above 0 and below 1 EiB", *item);
            return false;
        }
        append_size(sizes, (double)bytes);
    }
    return items != NULL;
}

static void remove_duplicates(GArray *sizes)
{
    g_array_sort(sizes, ascending);
    for (guint i = sizes->len; i-- > 1;)
        if (g_array_index(sizes, uint64_t, i) == g_array_index(sizes, uint64_t, i - 1))
            g_array_remove_index(sizes, i);
}

GArray *sizes_parse_chunks(const char *text, const struct trace *trace, GError **error)
{
    GArray *sizes = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    bool ok = true;
    if (!text)
        append_default(sizes, trace);
    else if (strchr(text, ':'))
        ok = parse_range(text, sizes, error);
    else
        ok = parse_list(text, sizes, error);
    if (!ok) {
        g_array_unref(sizes);
        return NULL;
    }
    remove_duplicates(sizes);
    return sizes;
}

static bool parse_percentage(const char *text, double *percent)
{
    char *end;
    *percent = g_ascii_strtod(text, &end);
    return end != text && g_str_equal(end, "%") && *percent >= 0 && *percent <= 1e6;
}

/* `*peak` of the non-model data is found when it is first needed; it is UINT64_MAX before. */
static bool parse_budget(const char *text, const struct trace *trace, uint64_t *peak,
                         uint64_t *bytes, GError **error)
{
    if (!g_str_has_suffix(text, "%"))
        return size_parse(text, bytes, error);
    double percent;
    if (!parse_percentage(text, &percent)) {
        g_set_error(error, SIZES_ERROR, SIZES_ERROR_INVALID,
                    "'%s' is not a percentage, such as 30%%", text);
        return false;
    }
    if (*peak == UINT64_MAX) {
        struct non_model *non_model = non_model_place(trace);
        *peak = non_model->peak_bytes;
        non_model_free(non_model);
    }
    *bytes = *peak + (uint64_t)llround((double)trace_model_bytes(trace) * percent / 100);
    return true;
}

bool sizes_parse_budget(const char *text, const struct trace *trace, uint64_t *bytes,
                        GError **error)
{
    uint64_t peak = UINT64_MAX;
    return parse_budget(text, trace, &peak, bytes, error);
}

GArray *sizes_parse_budgets(const char *text, const struct trace *trace, GError **error)
{
    g_auto(GStrv) items = split_list(text, error);
    if (!items)
        return NULL;
    GArray *budgets = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    uint64_t peak = UINT64_MAX;

    for (char **item = items; *item; item++) {
        uint64_t bytes;
        if (!parse_budget(*item, trace, &peak, &bytes, error)) {
            g_array_unref(budgets);
            return NULL;
        }
        g_array_append_val(budgets, bytes);
    }
    return budgets;
}

GArray *sizes_parse_counts(const char *text, GError **error)
{
    g_auto(GStrv) items = split_list(text ? text : "0", error);
    if (!items)
        return NULL;
    GArray *counts = g_array_new(FALSE, FALSE, sizeof(uint32_t));

    for (char **item = items; *item; item++) {
        guint64 value;
        if (!g_ascii_string_to_unsigned(*item, 10, 0, COUNT_MOST, &value, NULL)) {
            g_set_error(error, SIZES_ERROR, SIZES_ERROR_INVALID,
                        "--look-ahead: '%s' must be an integer in [0, %d]", *item, COUNT_MOST);
            g_array_unref(counts);
            return NULL;
        }
        uint32_t count = (uint32_t)value;
        g_array_append_val(counts, count);
    }
    return counts;
}

uint64_t sizes_arena(uint64_t device_budget, const struct trace *trace)
{
    return device_budget > trace->library_bytes ? device_budget - trace->library_bytes : 0;
}

/* ---- layouts ---- */

static void named_layout_free(void *data)
{
    struct named_layout *named = data;
    layout_free(named->layout);
    g_free(named->name);
    g_free(named);
}

/* Takes ownership of the layout. Returns false if it is NULL. */
static bool add_layout(GPtrArray *layouts, struct layout *layout, const char *name)
{
    if (!layout)
        return false;
    struct named_layout *named = g_new(struct named_layout, 1);
    *named = (struct named_layout){.layout = layout, .name = g_strdup(name)};
    g_ptr_array_add(layouts, named);
    return true;
}

static bool add_sizes(GPtrArray *layouts, const char *text, const struct trace *trace,
                      GError **error)
{
    g_autoptr(GArray) sizes = sizes_parse_chunks(text, trace, error);
    bool ok = sizes != NULL;
    for (guint i = 0; ok && i < sizes->len; i++)
        ok = add_layout(layouts,
                        layout_pack_uniform(trace, g_array_index(sizes, uint64_t, i), error), NULL);
    return ok;
}

static bool add_item(GPtrArray *layouts, const char *text, const struct trace *trace,
                     GError **error)
{
    struct chunk_sizes sizes;
    if (!strchr(text, '='))
        return add_sizes(layouts, text, trace, error);
    return chunk_sizes_parse(text, &sizes, error) &&
           add_layout(layouts, chunk_sizes_pack(&sizes, trace, error), text);
}

static bool add_items(GPtrArray *layouts, const char *text, const struct trace *trace,
                      GError **error)
{
    g_auto(GStrv) items = g_strsplit(text, ";", -1);
    if (!*items)
        return add_item(layouts, text, trace, error);
    for (char **item = items; *item; item++)
        if (!add_item(layouts, *item, trace, error))
            return false;
    return true;
}

static bool add_chunk_sizes(GPtrArray *layouts, const char *text, const struct trace *trace,
                            GError **error)
{
    if (add_items(layouts, text, trace, error))
        return true;
    g_prefix_error(error, "--chunk-size %s: ", text);
    return false;
}

GPtrArray *layout_list_parse(const char *chunk_sizes, const char *layout_file,
                             const struct trace *trace, GError **error)
{
    GPtrArray *layouts = g_ptr_array_new_with_free_func(named_layout_free);
    bool ok;
    if (layout_file && chunk_sizes) {
        ok = false;
        g_set_error(error, LAYOUT_ERROR, LAYOUT_ERROR_INVALID,
                    "--layout %s: says which chunks there are; leave out --chunk-size",
                    layout_file);
    } else if (layout_file)
        ok = add_layout(layouts, layout_read(layout_file, trace, error), layout_file);
    else if (chunk_sizes)
        ok = add_chunk_sizes(layouts, chunk_sizes, trace, error);
    else
        ok = add_sizes(layouts, NULL, trace, error);
    if (ok)
        return layouts;
    g_ptr_array_unref(layouts);
    return NULL;
}

GPtrArray *layout_list_like(const GPtrArray *layouts, const struct trace *trace, GError **error)
{
    GPtrArray *alike = g_ptr_array_new_with_free_func(named_layout_free);
    bool ok = true;
    for (guint i = 0; ok && i < layouts->len; i++) {
        const struct named_layout *named = g_ptr_array_index(layouts, i);
        struct layout_spec spec = {.order = NULL};
        for (int list = 0; list < TRACE_LISTS; list++) {
            uint64_t bytes = named->layout->chunk_bytes[list];
            spec.chunk_bytes[list] = bytes ? bytes : named->layout->chunk_bytes[TRACE_PARAM];
        }
        ok = add_layout(alike, layout_pack(trace, &spec, error), named->name);
    }
    if (!ok)
        g_clear_pointer(&alike, g_ptr_array_unref);
    return alike;
}
