#include "chunks/layout.h"

G_DEFINE_QUARK(pstar_layout_error, layout_error)

/* A list while it is being packed. */
struct packing {
    uint8_t list;
    double width; /* bytes per element of the model: a shard's are divided by the ranks */
    uint64_t chunk_bytes;
    GArray *chunks; /* struct chunk */
    bool open;      /* the last chunk may take more */
};

uint64_t layout_align(uint64_t bytes)
{
    return (bytes + LAYOUT_ALIGNMENT - 1) / LAYOUT_ALIGNMENT * LAYOUT_ALIGNMENT;
}

/* Compares the elements that a chunk covers, descending. Coarse lists come first, so that a
 * boundary of a coarser list closes the open chunks of finer ones. */
static int by_coverage(const void *left, const void *right)
{
    const struct packing *a = left, *b = right;
    double cover_a = (double)a->chunk_bytes / a->width, cover_b = (double)b->chunk_bytes / b->width;
    if (cover_a != cover_b)
        return cover_a > cover_b ? -1 : 1;
    return (int)a->list - (int)b->list;
}

static bool check_order(const struct trace *trace, const uint32_t *order, GError **error)
{
    g_autofree uint8_t *seen = g_new0(uint8_t, trace->tensor_count);
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        if (order[i] >= trace->tensor_count || seen[order[i]]++) {
            g_set_error(error, LAYOUT_ERROR, LAYOUT_ERROR_INVALID,
                        "tensor order: entry %u is %u; each tensor below %u must appear once", i,
                        order[i], trace->tensor_count);
            return false;
        }
    }
    return true;
}

static double width_of(const struct trace *trace, int list)
{
    bool whole = trace_list_is_whole(trace, (enum trace_list)list);
    return (double)trace->list_element_bytes[list] / (whole ? 1 : trace->ranks);
}

static uint32_t open_lists(const struct trace *trace, const struct layout_spec *spec,
                           struct packing *packings, GError **error)
{
    uint32_t count = 0;
    for (int list = 0; list < TRACE_LISTS; list++) {
        if (!trace->list_element_bytes[list])
            continue;
        uint64_t bytes = spec->chunk_bytes[list];
        if (!bytes || bytes % LAYOUT_ALIGNMENT) {
            g_set_error(error, LAYOUT_ERROR, LAYOUT_ERROR_INVALID,
                        "the chunk size of list %s is %" G_GUINT64_FORMAT
                        " bytes; it must be a positive multiple of %d",
                        trace_list_name(list), bytes, LAYOUT_ALIGNMENT);
            return 0;
        }
        packings[count++] = (struct packing){
            .list = (uint8_t)list, .width = width_of(trace, list), .chunk_bytes = bytes};
    }
    qsort(packings, count, sizeof *packings, by_coverage);
    return count;
}

uint32_t layout_place_count(const struct layout *layout, int list)
{
    if (list == TRACE_ACTIVATION)
        return layout->buffer_count;
    return layout_place_index(layout, list, layout->tensor_count, 0);
}

char *layout_place_name(const struct layout *layout, const struct trace *trace, int list,
                        uint32_t place)
{
    tensor_id tensor = 0;
    if (list == TRACE_ACTIVATION)
        return g_strdup(trace->buffers[place].name);
    while (layout_place_index(layout, list, tensor + 1, 0) <= place)
        tensor++;
    return trace_block_name(trace, (enum trace_list)list, tensor,
                            place - layout_place_index(layout, list, tensor, 0));
}

void layout_number_blocks(struct layout *layout, const struct trace *trace)
{
    if (!trace->state_block)
        return;
    layout->first_block = g_new0(uint32_t, (size_t)trace->tensor_count + 1);
    for (tensor_id t = 0; t < trace->tensor_count; t++)
        layout->first_block[t + 1] = layout->first_block[t] + trace_blocks(trace, TRACE_MASTER, t);
}

uint8_t *layout_continuations(const struct layout *layout)
{
    uint8_t *marks = g_new0(uint8_t, (size_t)layout->chunk_count + 1);
    for (int list = TRACE_MASTER; layout->first_block && list <= TRACE_EXP_AVG_SQ; list++) {
        const struct layout_place *places = layout->places[list];
        for (tensor_id t = 0; places && t < layout->tensor_count; t++)
            for (uint32_t b = layout->first_block[t] + 1; b < layout->first_block[t + 1]; b++)
                if (places[b].chunk != places[layout->first_block[t]].chunk)
                    marks[places[b].chunk] = 1;
    }
    return marks;
}

/* Puts one tensor or block into a list. Returns whether it opened a chunk there. A tensor that the
 * list lacks takes no bytes, but has a place, so that lists nest; a chunk is never empty. */
static bool add_tensor(struct packing *packing, uint64_t tensor_bytes, uint32_t group,
                       struct layout_place *place)
{
    uint64_t bytes = layout_align(tensor_bytes);
    struct chunk *last = packing->chunks->len ? &g_array_index(packing->chunks, struct chunk,
                                                               packing->chunks->len - 1)
                                              : NULL;
    bool opens = !packing->open || last->slot_bytes + bytes > packing->chunk_bytes;
    if (opens) {
        struct chunk chunk = {.group = group, .list = packing->list};
        g_array_append_val(packing->chunks, chunk);
        last = &g_array_index(packing->chunks, struct chunk, packing->chunks->len - 1);
        packing->open = bytes <= packing->chunk_bytes;
        bytes = MAX(bytes, LAYOUT_ALIGNMENT);
    }
    *place = (struct layout_place){.chunk = packing->chunks->len - 1, .offset = last->slot_bytes};
    last->slot_bytes += bytes;
    last->copy_bytes += bytes;
    return opens;
}

static void pack_tensor(const struct trace *trace, tensor_id tensor, struct packing *packings,
                        uint32_t count, struct layout *layout, uint32_t *group)
{
    for (uint32_t p = 0; p < count; p++) {
        uint64_t bytes = trace_list_bytes(trace, packings[p].list, tensor);
        uint32_t place = layout_place_index(layout, packings[p].list, tensor, 0);
        struct layout_place *at = &layout->places[packings[p].list][place];
        bool opened = add_tensor(&packings[p], bytes, *group, at);
        if (opened && p == 0) {
            *group = layout->group_count++;
            g_array_index(packings[0].chunks, struct chunk, at->chunk).group = *group;
        }
        for (uint32_t finer = p + 1; opened && finer < count; finer++)
            packings[finer].open = false;
    }
}

static void close_lists(struct packing *packings, uint32_t count)
{
    for (uint32_t p = 0; p < count; p++)
        packings[p].open = false;
}

/* A cut tensor's group has several chunks in any list, so it is no part of another group. */
static void pack_blocks(const struct trace *trace, tensor_id tensor, struct packing *packings,
                        uint32_t count, struct layout *layout, uint32_t *group)
{
    close_lists(packings, count);
    *group = layout->group_count++;
    for (uint32_t p = 0; p < count; p++)
        for (uint32_t b = 0; b < trace_blocks(trace, packings[p].list, tensor); b++) {
            uint32_t place = layout_place_index(layout, packings[p].list, tensor, b);
            add_tensor(&packings[p], trace_block_bytes(trace, packings[p].list, tensor, b), *group,
                       &layout->places[packings[p].list][place]);
        }
    close_lists(packings, count);
}

static void pack_tensors(const struct trace *trace, const uint32_t *order, struct packing *packings,
                         uint32_t count, struct layout *layout)
{
    uint32_t group = 0;
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        tensor_id tensor = order ? order[i] : i;
        bool cut = trace_is_cut(trace, tensor);
        (cut ? pack_blocks : pack_tensor)(trace, tensor, packings, count, layout, &group);
    }
}

/* Numbers the chunks list by list. */
static void join_lists(struct layout *layout, struct packing *packings, uint32_t count)
{
    for (uint32_t p = 0; p < count; p++)
        layout->chunk_count += packings[p].chunks->len;
    layout->chunks = g_new0(struct chunk, layout->chunk_count);
    uint32_t base = 0;
    for (int list = 0; list < TRACE_LISTS; list++) {
        for (uint32_t p = 0; p < count; p++) {
            if (packings[p].list != list)
                continue;
            const GArray *chunks = packings[p].chunks;
            memcpy(layout->chunks + base, chunks->data, chunks->len * sizeof(struct chunk));
            for (uint32_t i = 0; i < layout_place_count(layout, list); i++)
                layout->places[list][i].chunk += base;
            base += chunks->len;
        }
    }
}

int layout_coarsest_list(const struct layout *layout)
{
    g_autofree uint8_t *continues = layout_continuations(layout);
    uint32_t count[TRACE_ACCESS_LISTS] = {0};
    int best = -1;
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        count[layout->chunks[c].list] += !continues[c];
    for (int list = 0; list < TRACE_LISTS; list++)
        if (layout->places[list] && (best < 0 || count[list] < count[best]))
            best = list;
    return best;
}

void layout_drop_buffers(struct layout *layout)
{
    while (layout->chunk_count &&
           layout->chunks[layout->chunk_count - 1].list == TRACE_ACTIVATION) {
        layout->chunk_count--;
        layout->group_count--;
    }
    g_clear_pointer(&layout->places[TRACE_ACTIVATION], g_free);
    layout->buffer_count = 0;
}

/* A chunk of buffers of one name, and until when the last of them lives. */
struct holder {
    const struct trace_buffer *last;
    chunk_id chunk;
};

/* Returns the chunk of the previous buffer of this name, if that is dead and had the same size. */
static struct holder *find_holder(GHashTable *holders, const struct trace_buffer *buffer)
{
    struct holder *holder = g_hash_table_lookup(holders, buffer->name);
    bool serves = holder && holder->last->bytes == buffer->bytes &&
                  holder->last->last < buffer->first;
    return serves ? holder : NULL;
}

static uint32_t add_chunk(GArray *chunks, uint64_t bytes, uint32_t group)
{
    const struct chunk chunk = {.slot_bytes = layout_align(bytes),
                                .copy_bytes = layout_align(bytes),
                                .group = group,
                                .list = TRACE_ACTIVATION};
    g_array_append_val(chunks, chunk);
    return chunks->len - 1;
}

static void add_buffers(struct layout *layout, const struct trace *trace, const uint8_t *held)
{
    GHashTable *holders = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, g_free);
    GArray *chunks = g_array_new(FALSE, FALSE, sizeof(struct chunk));
    g_array_append_vals(chunks, layout->chunks, layout->chunk_count);
    layout->buffer_count = trace->buffer_count;
    layout->places[TRACE_ACTIVATION] = g_new0(struct layout_place, trace->buffer_count);
    for (uint32_t b = 0; b < trace->buffer_count; b++) {
        const struct trace_buffer *buffer = &trace->buffers[b];
        struct layout_place *place = &layout->places[TRACE_ACTIVATION][b];
        place->chunk = NO_INDEX;
        if (!held[b])
            continue;
        struct holder *holder = find_holder(holders, buffer);
        if (!holder) {
            holder = g_new0(struct holder, 1);
            holder->chunk = add_chunk(chunks, buffer->bytes, layout->group_count++);
            g_hash_table_replace(holders, buffer->name, holder);
        }
        holder->last = buffer;
        place->chunk = holder->chunk;
    }
    g_free(layout->chunks);
    layout->chunk_count = chunks->len;
    layout->chunks = (struct chunk *)(void *)g_array_free(chunks, FALSE);
    g_hash_table_unref(holders);
}

void layout_hold_buffers(struct layout *layout, const struct trace *trace)
{
    g_autofree uint8_t *held = trace_held_buffers(trace);
    layout_drop_buffers(layout);
    if (held)
        add_buffers(layout, trace, held);
}

struct layout *layout_pack(const struct trace *trace, const struct layout_spec *spec,
                           GError **error)
{
    struct packing packings[TRACE_LISTS];
    if (spec->given) {
        struct layout *copy = layout_copy(spec->given);
        layout_hold_buffers(copy, trace);
        return copy;
    }
    if (spec->order && !check_order(trace, spec->order, error))
        return NULL;
    uint32_t count = open_lists(trace, spec, packings, error);
    if (!count)
        return NULL;
    struct layout *layout = g_new0(struct layout, 1);
    layout->tensor_count = trace->tensor_count;
    layout_number_blocks(layout, trace);
    for (uint32_t p = 0; p < count; p++) {
        uint32_t places = layout_place_count(layout, packings[p].list);
        packings[p].chunks = g_array_new(FALSE, TRUE, sizeof(struct chunk));
        layout->places[packings[p].list] = g_new0(struct layout_place, places);
        layout->chunk_bytes[packings[p].list] = packings[p].chunk_bytes;
    }
    pack_tensors(trace, spec->order, packings, count, layout);
    join_lists(layout, packings, count);
    for (uint32_t p = 0; p < count; p++)
        g_array_free(packings[p].chunks, TRUE);
    layout_hold_buffers(layout, trace);
    return layout;
}

struct layout *layout_pack_uniform(const struct trace *trace, uint64_t chunk_bytes, GError **error)
{
    struct layout_spec spec = {.order = NULL};
    for (int list = 0; list < TRACE_LISTS; list++)
        spec.chunk_bytes[list] = chunk_bytes;
    return layout_pack(trace, &spec, error);
}

void layout_free(struct layout *layout)
{
    if (!layout)
        return;
    for (int list = 0; list < TRACE_ACCESS_LISTS; list++)
        g_free(layout->places[list]);
    g_free(layout->first_block);
    g_free(layout->chunks);
    g_free(layout);
}

struct layout *layout_copy(const struct layout *layout)
{
    struct layout *copy = g_memdup2(layout, sizeof *layout);
    copy->chunks = g_memdup2(layout->chunks, layout->chunk_count * sizeof *layout->chunks);
    if (layout->first_block)
        copy->first_block = g_memdup2(layout->first_block,
                                      (layout->tensor_count + 1) * sizeof *layout->first_block);
    for (int list = 0; list < TRACE_ACCESS_LISTS; list++)
        copy->places[list] = g_memdup2(layout->places[list], layout_place_count(layout, list) *
                                                                 sizeof *layout->places[list]);
    return copy;
}

static bool same_places(const struct layout *a, const struct layout *b, int list)
{
    const struct layout_place *p = a->places[list], *q = b->places[list];
    if (!p || !q)
        return p == q;
    uint32_t count = layout_place_count(a, list);
    if (count != layout_place_count(b, list))
        return false;
    for (uint32_t t = 0; t < count; t++)
        if (p[t].chunk != q[t].chunk || p[t].offset != q[t].offset)
            return false;
    return true;
}

bool layout_same_chunks(const struct layout *a, const struct layout *b)
{
    bool same = a->tensor_count == b->tensor_count && a->chunk_count == b->chunk_count &&
                a->buffer_count == b->buffer_count;
    for (uint32_t c = 0; same && c < a->chunk_count; c++)
        same = a->chunks[c].slot_bytes == b->chunks[c].slot_bytes;
    for (int list = 0; same && list < TRACE_ACCESS_LISTS; list++)
        same = same_places(a, b, list);
    return same;
}

uint64_t layout_slot_bytes(const struct layout *layout)
{
    uint64_t sum = 0;
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        sum += layout->chunks[c].slot_bytes;
    return sum;
}
