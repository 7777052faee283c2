#include "sim/layout_list.h"

#include "chunks/chunk_sizes.h"
#include "chunks/layout_file.h"
#include "sim/sizes.h"

#include <string.h>

static void named_layout_free(void *data)
{
    struct named_layout *named = data;
    layout_free(named->layout);
    g_free(named->name);
    g_free(named);
}

/* Takes the layout; NULL, which is no layout, is refused. */
static bool add(GPtrArray *layouts, struct layout *layout, const char *name)
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
        ok = add(layouts, layout_pack_uniform(trace, g_array_index(sizes, uint64_t, i), error),
                 NULL);
    return ok;
}

static bool add_item(GPtrArray *layouts, const char *text, const struct trace *trace,
                     GError **error)
{
    struct chunk_sizes sizes;

    if (!strchr(text, '='))
        return add_sizes(layouts, text, trace, error);
    return chunk_sizes_parse(text, &sizes, error) &&
           add(layouts, chunk_sizes_pack(&sizes, trace, error), text);
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
        ok = add(layouts, layout_read(layout_file, trace, error), layout_file);
    else if (chunk_sizes)
        ok = add_items(layouts, chunk_sizes, trace, error);
    else
        ok = add_sizes(layouts, NULL, trace, error);
    if (ok)
        return layouts;
    g_ptr_array_unref(layouts);
    return NULL;
}
