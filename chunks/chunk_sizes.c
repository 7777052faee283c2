#include "chunks/chunk_sizes.h"

#include "base/size.h"

#include <string.h>

static bool refuse(GError **error, const char *text, const char *why)
{
    g_set_error(error, LAYOUT_ERROR, LAYOUT_ERROR_INVALID, "'%s': %s", text, why);
    return false;
}

static bool refuse_list(GError **error, const char *name)
{
    g_autofree char *names = trace_list_names();
    g_autofree char *why = g_strdup_printf("there is no list of chunks of this name; the lists are "
                                           "%s",
                                           names);
    return refuse(error, name, why);
}

static bool parse_size(const char *text, uint64_t *size, GError **error)
{
    uint64_t bytes;
    if (!size_parse(text, &bytes, error))
        return false;
    if (!bytes || bytes > CHUNK_SIZES_MOST)
        return refuse(error, text, "a chunk's size must be above 0 and below 1 EiB");
    *size = layout_align(bytes);
    return true;
}

static bool parse_item(const char *item, struct chunk_sizes *sizes, GError **error)
{
    g_auto(GStrv) sides = g_strsplit(item, "=", 2);
    bool plain = !strchr(item, '=');
    uint8_t list = 0;

    if (!plain && !trace_list_parse(sides[0], &list))
        return refuse_list(error, sides[0]);
    uint64_t *size = plain ? &sizes->others : &sizes->of_list[list];
    if (*size)
        return refuse(error, item,
                      plain ? "a default size was already given"
                            : "a size for this list was already given");
    return parse_size(plain ? item : sides[1], size, error);
}

bool chunk_sizes_parse(const char *text, struct chunk_sizes *sizes, GError **error)
{
    g_auto(GStrv) items = g_strsplit(text, ",", -1);

    *sizes = (struct chunk_sizes){.others = 0};
    if (!*items)
        return refuse(error, text, "no size");
    for (char **item = items; *item; item++)
        if (!parse_item(*item, sizes, error))
            return false;
    return true;
}

struct layout *chunk_sizes_pack(const struct chunk_sizes *sizes, const struct trace *trace,
                                GError **error)
{
    struct layout_spec spec = {.order = NULL};
    for (int list = 0; list < TRACE_LISTS; list++) {
        bool exists = trace->list_element_bytes[list];
        uint64_t size = sizes->of_list[list] ? sizes->of_list[list] : sizes->others;
        if (sizes->of_list[list] ? !exists : exists && !size) {
            g_set_error(error, LAYOUT_ERROR, LAYOUT_ERROR_INVALID,
                        exists ? "chunk sizes: list %s has no size; add LIST=SIZE or a default size"
                               : "chunk sizes: this run has no list %s",
                        trace_list_name(list));
            return NULL;
        }
        spec.chunk_bytes[list] = size;
    }
    return layout_pack(trace, &spec, error);
}
