#include "chunks/non_model.h"

#include "chunks/packing.h"

/* If placing the longest-lived first leaves holes at the peak, a search may take about a second.
 * The more buffers there are, the longer each placement that it tries takes. */
enum { BUFFERS_SEARCHED = 2000, BUFFERS_TIMES_TRIED = 10000000 };

/* A buffer while offsets are assigned. */
struct lifetime {
    uint32_t buffer, first, last;
    uint64_t bytes;
};

static int longest_first(const void *left, const void *right)
{
    const struct lifetime *a = left, *b = right;
    uint32_t span_a = a->last - a->first, span_b = b->last - b->first;
    if (span_a != span_b)
        return span_a > span_b ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->buffer < b->buffer ? -1 : 1;
}

/* The placed buffers by time. A buffer is in every block of moments during which it lives. */
struct blocks {
    uint32_t *of; /* [moment_count] the block of each moment; ascending, so that about the same
                     number of buffers begins in each block */
    uint32_t count;
    GArray **placed; /* [count] struct placed, by offset */
};

struct placed {
    uint64_t offset, end;
    uint32_t first, last;
};

enum { BEGIN_IN_BLOCK = 256 };

static struct blocks blocks_new(const struct trace *trace)
{
    uint32_t moments = trace->operator_count, begun = 0;
    struct blocks blocks = {.of = g_new0(uint32_t, moments)};
    for (uint32_t b = 0; b < trace->buffer_count; b++)
        blocks.of[trace->buffers[b].first]++;
    for (uint32_t m = 0; m < moments; m++) {
        uint32_t here = blocks.of[m];
        blocks.of[m] = begun / BEGIN_IN_BLOCK;
        begun += here;
    }
    blocks.count = blocks.of[moments - 1] + 1;
    blocks.placed = g_new(GArray *, blocks.count);
    for (uint32_t i = 0; i < blocks.count; i++)
        blocks.placed[i] = g_array_new(FALSE, FALSE, sizeof(struct placed));
    return blocks;
}

static void blocks_clear(struct blocks *blocks)
{
    for (uint32_t i = 0; i < blocks->count; i++)
        g_array_unref(blocks->placed[i]);
    g_free(blocks->placed);
    g_free(blocks->of);
}

/* Returns the position behind all that lie at or below `offset`. */
static guint place_of(const GArray *placed, uint64_t offset)
{
    guint low = 0, high = placed->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (g_array_index(placed, struct placed, middle).offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void blocks_add(struct blocks *blocks, const struct placed *new)
{
    for (uint32_t block = blocks->of[new->first]; block <= blocks->of[new->last]; block++) {
        GArray *placed = blocks->placed[block];
        g_array_insert_val(placed, place_of(placed, new->offset), *new);
    }
}

/* Returns the next buffer of a block, from *at on, that begins at a moment from `from` to `to` and
 * lives at `to`, or NULL. Moves *at behind it. */
static const struct placed *next_alive(const GArray *placed, uint32_t from, uint32_t to, guint *at)
{
    const struct placed *all = (const struct placed *)(const void *)placed->data;
    while (*at < placed->len) {
        const struct placed *other = &all[(*at)++];
        if (other->first >= from && other->first <= to && other->last >= to)
            return other;
    }
    return NULL;
}

/* All placed buffers live at least as long as `life`. So those alive with it live at its first
 * moment, or begin later and live at its last. Two blocks hold all of these, by offset. */
static uint64_t lowest_free_offset(const struct blocks *blocks, const struct lifetime *life)
{
    const GArray *begin = blocks->placed[blocks->of[life->first]];
    const GArray *end = blocks->placed[blocks->of[life->last]];
    guint i = 0, j = 0;
    const struct placed *a = next_alive(begin, 0, life->first, &i);
    const struct placed *b = next_alive(end, life->first + 1, life->last, &j);
    uint64_t candidate = 0;
    while (a || b) {
        bool first = !b || (a && a->offset <= b->offset);
        const struct placed *lowest = first ? a : b;
        if (lowest->offset >= candidate + life->bytes)
            break;
        candidate = MAX(candidate, lowest->end);
        if (first)
            a = next_alive(begin, 0, life->first, &i);
        else
            b = next_alive(end, life->first + 1, life->last, &j);
    }
    return candidate;
}

/* Sets the offsets, not the extents. */
static void place_longest_first(const struct trace *trace, struct non_model *result)
{
    uint32_t count = trace->buffer_count;
    g_autofree struct lifetime *lives = g_new(struct lifetime, count);
    for (uint32_t b = 0; b < count; b++)
        lives[b] = (struct lifetime){b, trace->buffers[b].first, trace->buffers[b].last,
                                     trace->buffers[b].bytes};
    qsort(lives, count, sizeof *lives, longest_first);

    struct blocks blocks = blocks_new(trace);
    result->offset = g_new0(uint64_t, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct lifetime *life = &lives[i];
        uint64_t offset = lowest_free_offset(&blocks, life), end = offset + life->bytes;
        result->offset[life->buffer] = offset;
        blocks_add(&blocks, &(struct placed){offset, end, life->first, life->last});
    }
    blocks_clear(&blocks);
}

static void shrink(const struct trace *trace, uint64_t *offset)
{
    g_autofree struct packing_item *items = g_new(struct packing_item, trace->buffer_count);
    for (uint32_t b = 0; b < trace->buffer_count; b++) {
        const struct trace_buffer *buffer = &trace->buffers[b];
        items[b] = (struct packing_item){buffer->first, buffer->last + 1u, buffer->bytes};
    }
    packing_shrink(items, trace->buffer_count, BUFFERS_TIMES_TRIED / trace->buffer_count, offset);
}

static void find_extents(const struct trace *trace, struct non_model *result)
{
    memset(result->extent, 0, result->moment_count * sizeof *result->extent);
    result->peak_bytes = 0;
    for (uint32_t b = 0; b < trace->buffer_count; b++) {
        const struct trace_buffer *buffer = &trace->buffers[b];
        uint64_t end = result->offset[b] + buffer->bytes;
        for (uint32_t m = buffer->first; m <= buffer->last; m++)
            result->extent[m] = MAX(result->extent[m], end);
        result->peak_bytes = MAX(result->peak_bytes, end);
    }
}

static void place_buffers(const struct trace *trace, struct non_model *result)
{
    place_longest_first(trace, result);
    find_extents(trace, result);
    if (result->peak_bytes > result->peak_live_bytes && trace->buffer_count <= BUFFERS_SEARCHED) {
        shrink(trace, result->offset);
        find_extents(trace, result);
    }
}

static struct non_model *place_all(const struct trace *trace)
{
    struct non_model *result = g_new0(struct non_model, 1);
    result->moment_count = trace->operator_count;
    result->buffer_count = trace->buffer_count;
    result->extent = g_new0(uint64_t, trace->operator_count);
    for (uint32_t m = 0; m < result->moment_count; m++) {
        result->extent[m] = trace->non_model_bytes[m];
        result->peak_live_bytes = MAX(result->peak_live_bytes, trace->non_model_bytes[m]);
    }
    result->peak_bytes = result->peak_live_bytes;
    if (trace->buffer_count)
        place_buffers(trace, result);
    return result;
}

/* Places the buffers that no chunk holds. */
static struct non_model *place_others(const struct trace *trace, const uint8_t *held)
{
    g_autofree struct trace_buffer *others = g_new(struct trace_buffer, trace->buffer_count);
    g_autofree uint32_t *index = g_new(uint32_t, trace->buffer_count);
    struct trace rest = {.operator_count = trace->operator_count,
                         .buffers = others,
                         .non_model_bytes = trace->non_model_bytes};
    for (uint32_t b = 0; b < trace->buffer_count; b++)
        if (!held[b]) {
            index[rest.buffer_count] = b;
            others[rest.buffer_count++] = trace->buffers[b];
        }
    struct non_model *result = place_all(&rest);
    uint64_t *offset = g_new0(uint64_t, trace->buffer_count);
    for (uint32_t i = 0; i < rest.buffer_count; i++)
        offset[index[i]] = result->offset[i];
    g_free(result->offset);
    result->offset = offset;
    result->buffer_count = trace->buffer_count;
    return result;
}

struct non_model *non_model_place(const struct trace *trace)
{
    g_autofree uint8_t *held = trace_held_buffers(trace);
    return held ? place_others(trace, held) : place_all(trace);
}

void non_model_free(struct non_model *non_model)
{
    if (!non_model)
        return;
    g_free(non_model->extent);
    g_free(non_model->offset);
    g_free(non_model);
}
