#include "traces/offload.h"

#include <string.h>

enum { SMALL_SHARE = 32 }; /* of the largest buffer of a layer that may leave */

/* The uses of one buffer. */
struct uses {
    const struct trace_use *rows;
    uint32_t count;
    const struct trace_use *save; /* NULL if it never leaves */
    uint32_t restores;
};

struct offloading {
    const struct trace *trace;
    GArray *buffers;  /* of the new trace */
    GArray *uses;     /* of buffers that stay */
    GArray *accesses; /* struct held_access */
};

/* An access of a chunk that holds a buffer, before accesses are in the order of their operators. */
struct held_access {
    moment_id moment;
    struct trace_access access;
};

bool trace_may_offload(const struct trace *trace)
{
    g_autofree uint8_t *held = trace_held_buffers(trace);
    return trace->ranks <= 1 && trace->stages <= 1 && trace->use_count && !held;
}

/* Returns the uses of the buffer whose first row is `row`. */
static struct uses uses_at(const struct trace *trace, uint32_t row)
{
    struct uses uses = {.rows = &trace->uses[row]};
    for (; row + uses.count < trace->use_count && uses.rows[uses.count].buffer == uses.rows->buffer;
         uses.count++) {
        const struct trace_use *use = &uses.rows[uses.count];
        if (use->kind == TRACE_SAVES)
            uses.save = use;
        uses.restores += use->kind == TRACE_RESTORES;
    }
    if (!uses.restores)
        uses.save = NULL;
    return uses;
}

/* Returns the layer whose backward is the last to restore the buffer; -1 if it never leaves. */
static int32_t layer_of(const struct trace *trace, const struct uses *uses)
{
    int32_t last = -1;
    for (uint32_t i = 0; uses->save && i < uses->count; i++) {
        int32_t layer = trace->operators[uses->rows[i].moment].layer;
        if (uses->rows[i].kind == TRACE_RESTORES && layer >= 0)
            last = layer;
    }
    return last;
}

/* Returns whether all layers that restore the buffer are marked. run_choices_of() finds the marks
 * in the result by what layers restore, and from these the same buffers must leave. */
static bool is_marked(const struct trace *trace, const struct uses *uses, const uint8_t *layers)
{
    bool marked = true;
    for (uint32_t i = 0; i < uses->count; i++) {
        int32_t layer = trace->operators[uses->rows[i].moment].layer;
        if (uses->rows[i].kind == TRACE_RESTORES && layer >= 0)
            marked &= layers[layer];
    }
    return marked;
}

/* Returns the bytes of the largest buffer of each layer that may leave. */
static uint64_t *largest_of_layers(const struct trace *trace, uint32_t *layer_count)
{
    *layer_count = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        *layer_count = MAX(*layer_count, (uint32_t)trace->operators[m].layer + 1);
    uint64_t *largest = g_new0(uint64_t, *layer_count + 1);
    for (uint32_t row = 0; row < trace->use_count;) {
        struct uses uses = uses_at(trace, row);
        int32_t layer = layer_of(trace, &uses);
        if (layer >= 0)
            largest[layer] = MAX(largest[layer], trace->buffers[uses.rows->buffer].bytes);
        row += uses.count;
    }
    return largest;
}

static void add_copy(struct offloading *o, const struct trace_buffer *of, moment_id first,
                     moment_id last)
{
    struct trace_buffer copy = {
        .name = g_strdup(of->name), .bytes = of->bytes, .first = first, .last = last};
    g_array_append_val(o->buffers, copy);
}

/* Adds the buffer where it was made. */
static void add_made(struct offloading *o, const struct uses *uses)
{
    const struct trace_buffer *old = &o->trace->buffers[uses->rows->buffer];
    moment_id last = uses->save->moment;
    for (uint32_t i = 0; i < uses->count; i++)
        if (o->trace->operators[uses->rows[i].moment].phase == TRACE_FORWARD)
            last = MAX(last, uses->rows[i].moment);
    add_copy(o, old, old->first, last);
}

/* Adds a copy of what is restored, where later operators use it. */
static void add_restored(struct offloading *o, const struct uses *uses, uint32_t row)
{
    const struct trace_use *use = &uses->rows[row], *last = use;
    while (++row < uses->count && uses->rows[row].kind == TRACE_USES)
        last = &uses->rows[row];
    if (last != use)
        add_copy(o, &o->trace->buffers[use->buffer], use->moment, last->moment);
}

static void add_access(struct offloading *o, const struct trace_use *use)
{
    enum trace_mode mode = use->kind == TRACE_SAVES ? TRACE_OVERWRITE : TRACE_READ;
    const struct held_access held = {use->moment,
                                     {use->buffer, TRACE_ACTIVATION, (uint8_t)mode, 0}};
    g_array_append_val(o->accesses, held);
}

static void hold(struct offloading *o, const struct uses *uses)
{
    struct trace_buffer *buffer = &g_array_index(o->buffers, struct trace_buffer,
                                                 uses->rows->buffer);
    buffer->first = uses->save->moment;
    add_made(o, uses);
    for (uint32_t i = 0; i < uses->count; i++) {
        const struct trace_use *use = &uses->rows[i];
        if (use->kind == TRACE_USES)
            continue;
        add_access(o, use);
        if (use->kind == TRACE_RESTORES) {
            add_restored(o, uses, i);
            g_array_index(o->buffers, struct trace_buffer, use->buffer).last = use->moment;
        }
    }
}

/* Holds what marked layers restore, and keeps the uses of other buffers. */
static void hold_layers(struct offloading *o, const uint8_t *layers)
{
    uint32_t layer_count;
    g_autofree uint64_t *largest = largest_of_layers(o->trace, &layer_count);
    for (uint32_t row = 0; row < o->trace->use_count;) {
        struct uses uses = uses_at(o->trace, row);
        int32_t layer = layer_of(o->trace, &uses);
        if (layer >= 0 && is_marked(o->trace, &uses, layers) &&
            o->trace->buffers[uses.rows->buffer].bytes >= largest[layer] / SMALL_SHARE)
            hold(o, &uses);
        else
            g_array_append_vals(o->uses, uses.rows, uses.count);
        row += uses.count;
    }
}

static int by_moment(gconstpointer a, gconstpointer b)
{
    const struct held_access *x = a, *y = b;
    if (x->moment != y->moment)
        return x->moment < y->moment ? -1 : 1;
    return x->access.tensor < y->access.tensor ? -1 : x->access.tensor > y->access.tensor;
}

/* Returns the accesses of all operators, each with those of chunks that hold buffers behind. */
static void merge_accesses(struct offloading *o, struct trace *result)
{
    GArray *merged = g_array_new(false, false, sizeof(struct trace_access));
    guint next = 0;
    g_array_sort(o->accesses, by_moment);
    for (moment_id m = 0; m < result->operator_count; m++) {
        struct trace_operator *op = &result->operators[m];
        const struct trace_access *own = o->trace->accesses + op->first_access;
        op->first_access = merged->len;
        g_array_append_vals(merged, own, op->access_count);
        for (; next < o->accesses->len; next++) {
            const struct held_access *held = &g_array_index(o->accesses, struct held_access, next);
            if (held->moment != m)
                break;
            g_array_append_val(merged, held->access);
        }
        op->access_count = merged->len - op->first_access;
    }
    g_free(result->accesses);
    result->access_count = merged->len;
    result->accesses = (struct trace_access *)(void *)g_array_free(merged, false);
}

struct trace *trace_offload(const struct trace *trace, const uint8_t *layers)
{
    g_assert(trace_may_offload(trace));
    struct trace *result = trace_copy(trace);
    struct offloading o = {
        .trace = trace,
        .buffers = g_array_new(false, false, sizeof(struct trace_buffer)),
        .uses = g_array_new(false, false, sizeof(struct trace_use)),
        .accesses = g_array_new(false, false, sizeof(struct held_access)),
    };
    g_array_append_vals(o.buffers, result->buffers, result->buffer_count); /* with their names */
    hold_layers(&o, layers);
    merge_accesses(&o, result);
    g_free(result->buffers);
    result->buffer_count = o.buffers->len;
    result->buffers = (struct trace_buffer *)(void *)g_array_free(o.buffers, false);
    g_free(result->uses);
    result->use_count = o.uses->len;
    result->uses = (struct trace_use *)(void *)g_array_free(o.uses, o.uses->len == 0);
    g_array_unref(o.accesses);
    trace_sum_buffers(result);
    return result;
}
