#include "chunks/plan_check.h"

struct extent {
    uint32_t chunk, tensor;
    uint64_t begin, end;
};

static int by_address(const void *left, const void *right)
{
    const struct extent *a = left, *b = right;
    if (a->chunk != b->chunk)
        return a->chunk < b->chunk ? -1 : 1;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

static bool check_place(const struct layout *layout, const struct trace *trace, int list,
                        uint32_t tensor, struct extent *extent, GError **error)
{
    const struct layout_place *place = &layout->places[list][tensor];
    uint64_t bytes = trace->tensors[tensor].elements * trace->list_element_bytes[list];
    if (place->chunk >= layout->chunk_count || layout->chunks[place->chunk].list != list ||
        place->offset % LAYOUT_ALIGNMENT ||
        place->offset > layout->chunks[place->chunk].copy_bytes ||
        bytes > layout->chunks[place->chunk].copy_bytes - place->offset)
        return plan_refuse(error, "layout: tensor %s does not lie in chunk %u of list %s",
                           trace->tensors[tensor].name, place->chunk, trace_list_name(list));
    *extent = (struct extent){place->chunk, tensor, place->offset, place->offset + bytes};
    return true;
}

static bool check_list(const struct layout *layout, const struct trace *trace, int list,
                       GError **error)
{
    if (!trace->list_element_bytes[list] != !layout->places[list])
        return plan_refuse(error, "layout: list %s is %s", trace_list_name(list),
                           layout->places[list] ? "none of the run's" : "missing");
    if (!layout->places[list])
        return true;
    g_autofree struct extent *extents = g_new(struct extent, layout->tensor_count);
    for (uint32_t t = 0; t < layout->tensor_count; t++)
        if (!check_place(layout, trace, list, t, &extents[t], error))
            return false;
    qsort(extents, layout->tensor_count, sizeof *extents, by_address);
    for (uint32_t i = 1; i < layout->tensor_count; i++)
        if (extents[i].chunk == extents[i - 1].chunk && extents[i].begin < extents[i - 1].end)
            return plan_refuse(error, "layout: tensors %s and %s overlap in chunk %u",
                               trace->tensors[extents[i - 1].tensor].name,
                               trace->tensors[extents[i].tensor].name, extents[i].chunk);
    return true;
}

/* The chunk is one of activations, and the buffer fits into it. */
static bool check_buffer(const struct layout *layout, const struct trace *trace, uint32_t buffer,
                         GError **error)
{
    const struct layout_place *place = &layout->places[TRACE_ACTIVATION][buffer];
    if (place->chunk < layout->chunk_count && !place->offset &&
        layout->chunks[place->chunk].list == TRACE_ACTIVATION &&
        layout_align(trace->buffers[buffer].bytes) == layout->chunks[place->chunk].copy_bytes)
        return true;
    return plan_refuse(error, "layout: buffer %s does not fill its chunk",
                       trace->buffers[buffer].name);
}

static bool check_buffers(const struct layout *layout, const struct trace *trace, GError **error)
{
    g_autofree uint8_t *held = trace_held_buffers(trace);
    g_autofree uint32_t *until = g_new0(uint32_t, layout->chunk_count);
    if (layout->buffer_count != (held ? trace->buffer_count : 0))
        return plan_refuse(error, "layout: chunks hold other buffers than the run's");
    for (uint32_t b = 0; b < layout->buffer_count; b++) {
        uint32_t chunk = layout->places[TRACE_ACTIVATION][b].chunk;
        if (!held[b] && chunk != NO_INDEX)
            return plan_refuse(error, "layout: no chunk holds buffer %s in the run",
                               trace->buffers[b].name);
        if (!held[b])
            continue;
        if (!check_buffer(layout, trace, b, error))
            return false;
        if (trace->buffers[b].first < until[chunk])
            return plan_refuse(error, "layout: buffer %s shares chunk %u with one that is alive",
                               trace->buffers[b].name, chunk);
        until[chunk] = trace->buffers[b].last + 1;
    }
    return true;
}

/* Every group has one chunk of the coarsest list, or one of buffers and nothing else. */
static bool check_heads(const struct layout *layout, int coarse, GError **error)
{
    g_autofree uint32_t *head = g_new0(uint32_t, layout->group_count); /* chunk + 1 */

    for (uint32_t c = 0; c < layout->chunk_count; c++) {
        uint32_t group = layout->chunks[c].group;
        if (layout->chunks[c].list != coarse && layout->chunks[c].list != TRACE_ACTIVATION)
            continue;
        if (head[group])
            return plan_refuse(error, "layout: chunks %u and %u are in one group", head[group] - 1,
                               c);
        head[group] = c + 1;
    }
    return true;
}

/* The optimizer of a group runs in one place: all chunks that hold a tensor are of one group. */
static bool check_groups(const struct layout *layout, const struct trace *trace, GError **error)
{
    int coarse = layout_coarsest_list(layout);

    for (int list = 0; list < TRACE_LISTS; list++)
        for (uint32_t t = 0; layout->places[list] && t < layout->tensor_count; t++)
            if (layout->chunks[layout->places[list][t].chunk].group !=
                layout->chunks[layout->places[coarse][t].chunk].group)
                return plan_refuse(error, "layout: tensor %s lies in two groups of chunks",
                                   trace->tensors[t].name);
    return check_heads(layout, coarse, error);
}

bool plan_check_layout(const struct plan *plan, const struct trace *trace, GError **error)
{
    const struct layout *layout = plan->layout;
    if (layout->tensor_count != trace->tensor_count)
        return plan_refuse(error, "layout: %u tensors, the run has %u", layout->tensor_count,
                           trace->tensor_count);
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        if (!layout->chunks[c].copy_bytes ||
            layout->chunks[c].copy_bytes > layout->chunks[c].slot_bytes ||
            layout->chunks[c].slot_bytes % LAYOUT_ALIGNMENT ||
            layout->chunks[c].copy_bytes % LAYOUT_ALIGNMENT)
            return plan_refuse(error,
                               "layout: chunk %u: %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                               " bytes used",
                               c, layout->chunks[c].copy_bytes, layout->chunks[c].slot_bytes);
    for (int list = 0; list < TRACE_LISTS; list++)
        if (!check_list(layout, trace, list, error))
            return false;
    return check_groups(layout, trace, error) && check_buffers(layout, trace, error);
}
