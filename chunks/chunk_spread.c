#include "chunks/chunk_spread.h"

#include "base/size.h"

static int ascending(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

struct chunk_spread chunk_spread_of(const struct layout *layout, uint8_t list)
{
    g_autoptr(GArray) sizes = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    struct chunk_spread spread = {0};
    uint64_t all = 0, below = 0;
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        if (layout->chunks[c].list == list) {
            all += layout->chunks[c].copy_bytes;
            g_array_append_val(sizes, layout->chunks[c].copy_bytes);
        }
    if (!sizes->len)
        return spread;
    g_array_sort(sizes, ascending);
    for (guint i = 0; i < sizes->len && 2 * below < all; i++) {
        spread.typical = g_array_index(sizes, uint64_t, i);
        below += spread.typical;
    }
    spread.asked = list < TRACE_LISTS ? layout->chunk_bytes[list] : 0;
    spread.least = g_array_index(sizes, uint64_t, 0);
    spread.most = g_array_index(sizes, uint64_t, sizes->len - 1);
    return spread;
}

/* Chunks of at least the alignment say nothing of a size that was asked for. */
static bool has_size(const struct chunk_spread *spread)
{
    return spread->asked > LAYOUT_ALIGNMENT && spread->asked >= spread->least;
}

uint64_t chunk_spread_size(const struct chunk_spread *spread)
{
    return has_size(spread) ? spread->asked : spread->typical;
}

char *chunk_spread_format(const struct chunk_spread *spread)
{
    if (!chunk_spread_size(spread))
        return NULL;
    if (has_size(spread) || spread->least == spread->most)
        return size_format(chunk_spread_size(spread));
    g_autofree char *least = size_format(spread->least), *most = size_format(spread->most);
    return g_strdup_printf("%s to %s", least, most);
}

void chunk_spread_to_json(const struct chunk_spread *spread, json_t *object)
{
    json_object_set_new(object, "chunk_bytes", json_integer((json_int_t)spread->asked));
    if (spread->most)
        json_object_set_new(object, "chunk_range_bytes",
                            json_pack("[I, I, I]", (json_int_t)spread->least,
                                      (json_int_t)spread->typical, (json_int_t)spread->most));
}

static uint64_t bytes_of(const json_t *value)
{
    json_int_t bytes = json_integer_value(value);
    return bytes > 0 ? (uint64_t)bytes : 0;
}

struct chunk_spread chunk_spread_from_json(const json_t *object)
{
    const json_t *range = json_object_get(object, "chunk_range_bytes");
    return (struct chunk_spread){.asked = bytes_of(json_object_get(object, "chunk_bytes")),
                                 .least = bytes_of(json_array_get(range, 0)),
                                 .typical = bytes_of(json_array_get(range, 1)),
                                 .most = bytes_of(json_array_get(range, 2))};
}
