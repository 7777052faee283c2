#include "chunks/non_model.h"

/* A buffer while offsets are given out. */
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

static uint64_t lowest_free_offset(const GArray *placed, const uint64_t *offset,
                                   const struct lifetime *life, uint32_t *position)
{
    uint64_t candidate = 0;
    bool found = false;
    uint32_t at = placed->len;
    for (uint32_t i = 0; i < placed->len && !found; i++) {
        const struct lifetime *other = &g_array_index(placed, struct lifetime, i);
        if (other->last < life->first || other->first > life->last)
            continue;
        if (offset[other->buffer] >= candidate + life->bytes)
            found = true;
        else
            candidate = MAX(candidate, offset[other->buffer] + other->bytes);
    }
    /* `placed` stays sorted by offset. */
    while (at > 0 && offset[g_array_index(placed, struct lifetime, at - 1).buffer] > candidate)
        at--;
    *position = at;
    return candidate;
}

static void place_buffers(const struct trace *trace, struct non_model *result)
{
    uint32_t count = trace->buffer_count;
    g_autofree struct lifetime *lives = g_new(struct lifetime, count);
    for (uint32_t b = 0; b < count; b++)
        lives[b] = (struct lifetime){b, trace->buffers[b].first, trace->buffers[b].last,
                                     trace->buffers[b].bytes};
    qsort(lives, count, sizeof *lives, longest_first);

    GArray *placed = g_array_sized_new(FALSE, FALSE, sizeof(struct lifetime), count);
    result->offset = g_new0(uint64_t, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t position;
        uint64_t offset = lowest_free_offset(placed, result->offset, &lives[i], &position);
        result->offset[lives[i].buffer] = offset;
        g_array_insert_val(placed, position, lives[i]);
        for (uint32_t m = lives[i].first; m <= lives[i].last; m++)
            result->extent[m] = MAX(result->extent[m], offset + lives[i].bytes);
    }
    g_array_free(placed, TRUE);
}

struct non_model *non_model_place(const struct trace *trace)
{
    struct non_model *result = g_new0(struct non_model, 1);
    result->moment_count = trace->operator_count;
    result->buffer_count = trace->buffer_count;
    result->extent = g_new0(uint64_t, trace->operator_count);
    if (trace->buffer_count)
        place_buffers(trace, result);
    for (uint32_t m = 0; m < result->moment_count; m++) {
        if (!trace->buffer_count)
            result->extent[m] = trace->non_model_bytes[m];
        result->peak_bytes = MAX(result->peak_bytes, result->extent[m]);
        result->peak_live_bytes = MAX(result->peak_live_bytes, trace->non_model_bytes[m]);
    }
    return result;
}

void non_model_free(struct non_model *non_model)
{
    if (!non_model)
        return;
    g_free(non_model->extent);
    g_free(non_model->offset);
    g_free(non_model);
}
