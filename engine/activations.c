#include "engine/activations.h"

#include <string.h>

struct buffer {
    uint32_t uses; /* times that operators of an iteration name it */
    uint32_t left; /* namings that are still to come; 0 if it is not claimed */
    bool held;     /* a chunk holds it, so it is not claimed here */
    bool always;   /* it lives through the whole iteration, and from one to the next */
};

struct activations {
    const struct model_iteration *iteration;
    const struct non_model *places;
    uint64_t arena_bytes;
    struct buffer *buffers; /* [buffer_count] */
    GArray *live;           /* uint32_t: claimed buffers, by offset */
    uint64_t live_bytes, extent;
};

enum { NAMES = MODEL_INPUTS + MODEL_OUTPUTS + 2 * MODEL_TENSORS + 2 };

/* Lists the buffers that an operator names. Entries may be NO_INDEX, and are NO_INDEX for buffers
 * that chunks hold. */
static void name_buffers(const struct activations *activations, uint32_t moment,
                         uint32_t names[NAMES])
{
    const struct model_operator *op = &activations->iteration->operators[moment];
    uint32_t *rest = names + MODEL_INPUTS + MODEL_OUTPUTS;
    memcpy(names, op->in, sizeof op->in);
    memcpy(names + MODEL_INPUTS, op->out, sizeof op->out);
    memcpy(rest, op->gradient, sizeof op->gradient);
    rest += MODEL_TENSORS;
    *rest++ = op->workspace;
    *rest++ = op->masked;
    memcpy(rest, op->newest, sizeof op->newest);
    for (int i = 0; i < NAMES; i++)
        if (names[i] != NO_INDEX && activations->buffers[names[i]].held)
            names[i] = NO_INDEX;
}

static void count_uses(struct activations *activations)
{
    const struct model_iteration *iteration = activations->iteration;
    for (uint32_t m = 0; m < iteration->trace->operator_count; m++) {
        uint32_t names[NAMES];
        name_buffers(activations, m, names);
        for (int i = 0; i < NAMES; i++)
            if (names[i] != NO_INDEX)
                activations->buffers[names[i]].uses++;
    }
}

static uint64_t bytes_of(const struct activations *activations, uint32_t buffer)
{
    return activations->iteration->trace->buffers[buffer].bytes;
}

/* Returns the bytes from the arena's top down to the buffer's start. */
static uint64_t depth(const struct activations *activations, uint32_t buffer)
{
    return activations->places->offset[buffer] + bytes_of(activations, buffer);
}

static bool overlap(const struct activations *activations, uint32_t a, uint32_t b)
{
    const uint64_t *offset = activations->places->offset;
    return offset[a] < depth(activations, b) && offset[b] < depth(activations, a);
}

/* Returns the index of the first claimed buffer that begins at or after the offset, or the number
 * of claimed buffers. */
static guint place_of(const struct activations *activations, uint64_t offset)
{
    guint first = 0, last = activations->live->len;
    while (first < last) {
        guint middle = (first + last) / 2;
        uint32_t buffer = g_array_index(activations->live, uint32_t, middle);
        if (activations->places->offset[buffer] < offset)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

/* Claimed buffers do not overlap, so a new one can only overlap its neighbours. */
static void claim(struct activations *activations, uint32_t buffer)
{
    const GArray *live = activations->live;
    guint place = place_of(activations, activations->places->offset[buffer]);
    for (guint i = place ? place - 1 : 0; i <= place && i < live->len; i++)
        g_assert(!overlap(activations, buffer, g_array_index(live, uint32_t, i)));
    g_array_insert_val(activations->live, place, buffer);
    activations->buffers[buffer].left = activations->buffers[buffer].uses;
    activations->live_bytes += bytes_of(activations, buffer);
    activations->extent = MAX(activations->extent, depth(activations, buffer));
}

/* Claims the buffers that live through the whole iteration. */
static void claim_always(struct activations *activations)
{
    const struct trace *trace = activations->iteration->trace;
    for (uint32_t b = 0; b < trace->buffer_count; b++) {
        struct buffer *buffer = &activations->buffers[b];
        buffer->always = !buffer->held && trace->buffers[b].first == 0 &&
                         trace->buffers[b].last + 1 == trace->operator_count;
        if (buffer->always)
            claim(activations, b);
    }
}

struct activations *activations_new(const struct model_iteration *iteration,
                                    const struct non_model *places, uint64_t arena_bytes)
{
    struct activations *activations = g_new0(struct activations, 1);
    activations->iteration = iteration;
    activations->places = places;
    activations->arena_bytes = arena_bytes;
    activations->buffers = g_new0(struct buffer, iteration->trace->buffer_count);
    activations->live = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_autofree uint8_t *held = trace_held_buffers(iteration->trace);
    for (uint32_t b = 0; held && b < iteration->trace->buffer_count; b++)
        activations->buffers[b].held = held[b];
    count_uses(activations);
    claim_always(activations);
    return activations;
}

void activations_free(struct activations *activations)
{
    if (!activations)
        return;
    g_array_unref(activations->live);
    g_free(activations->buffers);
    g_free(activations);
}

void activations_claim(struct activations *activations, moment_id moment)
{
    uint32_t names[NAMES];
    name_buffers(activations, moment, names);
    for (int i = 0; i < NAMES; i++)
        if (names[i] != NO_INDEX && activations->buffers[names[i]].left == 0)
            claim(activations, names[i]);
}

static void release(struct activations *activations, uint32_t buffer)
{
    const GArray *live = activations->live;
    guint place = place_of(activations, activations->places->offset[buffer]);
    while (g_array_index(live, uint32_t, place) != buffer)
        place++; /* skips buffers without bytes */
    g_array_remove_index(activations->live, place);
    activations->live_bytes -= bytes_of(activations, buffer);
    activations->extent = live->len
                              ? depth(activations, g_array_index(live, uint32_t, live->len - 1))
                              : 0;
}

void activations_release(struct activations *activations, moment_id moment)
{
    uint32_t names[NAMES];
    name_buffers(activations, moment, names);
    for (int i = 0; i < NAMES; i++)
        if (names[i] != NO_INDEX && !activations->buffers[names[i]].always &&
            --activations->buffers[names[i]].left == 0)
            release(activations, names[i]);
}

void activations_reset(struct activations *activations)
{
    for (uint32_t i = 0; i < activations->live->len; i++)
        activations->buffers[g_array_index(activations->live, uint32_t, i)].left = 0;
    g_array_set_size(activations->live, 0);
    activations->live_bytes = activations->extent = 0;
    claim_always(activations);
}

uint64_t activations_address(const struct activations *activations, uint32_t buffer)
{
    g_assert(activations->buffers[buffer].left > 0);
    g_assert(depth(activations, buffer) <= activations->arena_bytes);
    return activations->arena_bytes - depth(activations, buffer);
}

uint64_t activations_live_bytes(const struct activations *activations)
{
    return activations->live_bytes;
}

uint64_t activations_extent(const struct activations *activations)
{
    return activations->extent;
}
