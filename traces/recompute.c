#include "traces/recompute.h"
#include "traces/choices.h"

#include <string.h>

/* Forward operators of one layer and one micro-batch that follow each other. Moments are those of
 * the recorded trace, except `again`. */
struct segment {
    int32_t layer;
    uint32_t micro_batch;
    uint32_t first, last;   /* its operators */
    uint32_t backward;      /* the first operator of its backward */
    uint32_t last_repeated; /* the last operator that runs again */
    uint32_t again;         /* moment in the new trace at which the first operator runs again */
};

struct recomputation {
    const struct trace *trace;
    GArray *segments;     /* struct segment, in the order of `first`; later only those that run
                             again */
    uint32_t *segment_of; /* [operator_count] index of a forward operator's segment; NO_INDEX */
    uint32_t *moved;      /* [operator_count] moment in the new trace */
    GArray *operators, *accesses, *buffers, *uses; /* of the new trace */
};

static struct segment *segment_at(const struct recomputation *r, uint32_t index)
{
    return &g_array_index(r->segments, struct segment, index);
}

/* ---- segments ---- */

bool trace_may_recompute(const struct trace *trace)
{
    g_autofree uint8_t *held = trace_held_buffers(trace);
    return trace->ranks <= 1 && trace->stages <= 1 && trace->buffer_count && !held &&
           trace->list_element_bytes[TRACE_GRAD];
}

static bool may_run_again(const struct trace *trace, const struct trace_operator *op)
{
    const struct trace_exchange exchange = trace_operator_exchange(op);
    bool may = op->place == TRACE_ON_DEVICE && !exchange.sent_bytes && !exchange.received_bytes;
    for (uint32_t i = 0; may && i < op->access_count; i++) {
        const struct trace_access *access = &trace->accesses[op->first_access + i];
        may = access->list == TRACE_PARAM && access->mode == TRACE_READ;
    }
    return may;
}

static bool continues(const struct segment *segment, uint32_t m, const struct trace_operator *op)
{
    return segment->last + 1 == m && segment->layer == op->layer &&
           segment->micro_batch == op->micro_batch;
}

static void find_segments(struct recomputation *r)
{
    for (uint32_t m = 0; m < r->trace->operator_count; m++) {
        const struct trace_operator *op = &r->trace->operators[m];
        r->segment_of[m] = NO_INDEX;
        if (op->phase != TRACE_FORWARD || op->layer < 0)
            continue;
        uint32_t count = r->segments->len;
        if (count && continues(segment_at(r, count - 1), m, op)) {
            segment_at(r, count - 1)->last = m;
        } else {
            const struct segment segment = {op->layer, op->micro_batch, m, m,
                                            NO_INDEX,  NO_INDEX,        0};
            g_array_append_val(r->segments, segment);
        }
        r->segment_of[m] = r->segments->len - 1;
    }
}

/* Backward visits the segments of a layer from the last to the first. `begins` has the moments at
 * which a run of the layer's operators begins in backward. If there are as many of them as
 * segments, each belongs to one; otherwise all segments take the first. */
static void pair_layer(struct recomputation *r, const GArray *segments, const GArray *begins)
{
    for (guint i = 0; begins->len && i < segments->len; i++) {
        guint from = begins->len == segments->len ? segments->len - 1 - i : 0;
        segment_at(r, g_array_index(segments, uint32_t, i))->backward =
            g_array_index(begins, uint32_t, from);
    }
}

/* The key of a layer in a micro-batch. */
static gint64 *key_of(int32_t layer, uint32_t micro_batch)
{
    gint64 *key = g_new(gint64, 1);
    *key = (gint64)layer << 32 | micro_batch;
    return key;
}

static GArray *list_of(GHashTable *lists, int32_t layer, uint32_t micro_batch)
{
    g_autofree gint64 *key = key_of(layer, micro_batch);
    GArray *list = g_hash_table_lookup(lists, key);
    if (!list) {
        list = g_array_new(false, false, sizeof(uint32_t));
        g_hash_table_insert(lists, g_steal_pointer(&key), list);
    }
    return list;
}

static GHashTable *lists_new(void)
{
    return g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free,
                                 (GDestroyNotify)g_array_unref);
}

static void find_backward(struct recomputation *r)
{
    g_autoptr(GHashTable) segments = lists_new();
    g_autoptr(GHashTable) begins = lists_new();
    for (uint32_t s = 0; s < r->segments->len; s++) {
        const struct segment *segment = segment_at(r, s);
        g_array_append_val(list_of(segments, segment->layer, segment->micro_batch), s);
    }
    const struct trace_operator *before = NULL;
    for (uint32_t m = 0; m < r->trace->operator_count; m++) {
        const struct trace_operator *op = &r->trace->operators[m];
        if (op->phase != TRACE_BACKWARD)
            continue;
        bool same = before && before->layer == op->layer && before->micro_batch == op->micro_batch;
        if (op->layer >= 0 && !same)
            g_array_append_val(list_of(begins, op->layer, op->micro_batch), m);
        before = op;
    }
    for (uint32_t s = 0; s < r->segments->len; s++) {
        const struct segment *segment = segment_at(r, s);
        const GArray *own = list_of(segments, segment->layer, segment->micro_batch);
        if (g_array_index(own, uint32_t, 0) == s)
            pair_layer(r, own, list_of(begins, segment->layer, segment->micro_batch));
    }
}

/* ---- what leaves ---- */

/* Returns the segment of the operator that makes a buffer, if the buffer is kept for the segment's
 * backward; or NULL. */
static struct segment *saving_segment(const struct recomputation *r,
                                      const struct trace_buffer *buffer)
{
    uint32_t s = r->segment_of[buffer->first];
    if (!buffer->saved || s == NO_INDEX)
        return NULL;
    struct segment *segment = segment_at(r, s);
    return segment->backward != NO_INDEX && buffer->last >= segment->backward ? segment : NULL;
}

/* Returns whether the buffer is made by the segment's last operator, for the next layer. */
static bool is_output(const struct segment *segment, const struct trace_buffer *buffer)
{
    return buffer->first == segment->last;
}

static bool segment_may_run_again(const struct recomputation *r, const struct segment *segment,
                                  const uint8_t *layers, const uint8_t *recomputed)
{
    bool may = layers[segment->layer] && !recomputed[segment->layer];
    for (uint32_t m = segment->first; may && m <= segment->last; m++)
        may = may_run_again(r->trace, &r->trace->operators[m]);
    return may;
}

/* Keeps the segments that run again: those of the marked layers of which something can leave. */
static void choose_segments(struct recomputation *r, const uint8_t *layers)
{
    g_autofree uint8_t *leaves = g_new0(uint8_t, r->segments->len + 1);
    struct run_choices *traced = run_choices_of(r->trace);
    for (uint32_t b = 0; b < r->trace->buffer_count; b++) {
        const struct trace_buffer *buffer = &r->trace->buffers[b];
        struct segment *segment = saving_segment(r, buffer);
        if (!segment)
            continue;
        if (segment->last_repeated == NO_INDEX || segment->last_repeated < buffer->first)
            segment->last_repeated = buffer->first;
        leaves[r->segment_of[buffer->first]] |= !is_output(segment, buffer);
    }
    uint32_t kept = 0;
    for (uint32_t s = 0; s < r->segments->len; s++) {
        const struct segment segment = *segment_at(r, s);
        bool again = leaves[s] && segment_may_run_again(r, &segment, layers, traced->recompute);
        for (uint32_t m = segment.first; m <= segment.last; m++)
            r->segment_of[m] = again ? kept : NO_INDEX;
        if (again)
            *segment_at(r, kept++) = segment;
    }
    g_array_set_size(r->segments, kept);
    run_choices_free(traced);
}

/* ---- the new trace ---- */

static void add_operator(struct recomputation *r, uint32_t m, bool again)
{
    const struct trace_operator *old = &r->trace->operators[m];
    struct trace_operator op = *old;
    const char *work = g_str_has_prefix(op.name, "forward ") ? strchr(op.name, ' ') + 1 : op.name;
    op.name = again ? g_strconcat("recompute ", work, NULL) : g_strdup(op.name);
    op.phase = again ? TRACE_BACKWARD : op.phase;
    op.first_access = r->accesses->len;
    g_array_append_vals(r->accesses, r->trace->accesses + old->first_access, old->access_count);
    g_array_append_val(r->operators, op);
}

static int by_backward(gconstpointer a, gconstpointer b)
{
    const struct segment *const *x = a, *const *y = b;
    return (*x)->backward != (*y)->backward
               ? ((*x)->backward < (*y)->backward ? -1 : 1)
               : ((*x)->first > (*y)->first) - ((*x)->first < (*y)->first);
}

/* Returns the segments in the order in which they run again. */
static GPtrArray *order_segments(const struct recomputation *r)
{
    GPtrArray *order = g_ptr_array_new();
    for (uint32_t s = 0; s < r->segments->len; s++)
        g_ptr_array_add(order, segment_at(r, s));
    g_ptr_array_sort(order, by_backward);
    return order;
}

static void add_operators(struct recomputation *r)
{
    g_autoptr(GPtrArray) order = order_segments(r);
    guint next = 0;
    for (uint32_t m = 0; m < r->trace->operator_count; m++) {
        for (; next < order->len; next++) {
            struct segment *segment = g_ptr_array_index(order, next);
            if (segment->backward != m)
                break;
            segment->again = r->operators->len;
            for (uint32_t k = segment->first; k <= segment->last_repeated; k++)
                add_operator(r, k, true);
        }
        r->moved[m] = r->operators->len;
        add_operator(r, m, false);
    }
}

/* Returns the moment in the new trace at which an operator of the segment runs again. */
static uint32_t again_at(const struct segment *segment, uint32_t m)
{
    return segment->again + (MIN(m, segment->last_repeated) - segment->first);
}

/* Makes what an operator that runs again makes. */
static void add_buffer_again(struct recomputation *r, const struct trace_buffer *old)
{
    uint32_t s = r->segment_of[old->first];
    if (s == NO_INDEX || old->first > segment_at(r, s)->last_repeated)
        return;
    const struct segment *segment = segment_at(r, s);
    struct trace_buffer buffer = *old;
    buffer.name = g_strdup(old->name);
    buffer.first = again_at(segment, old->first);
    buffer.last = saving_segment(r, old) ? r->moved[old->last] : again_at(segment, old->last);
    buffer.saved = false;
    buffer.recompute_flops = 0;
    g_array_append_val(r->buffers, buffer);
}

/* Makes the buffers of the recorded trace, which keep their indices, and then those that are made
 * again. */
static void add_buffers(struct recomputation *r)
{
    for (uint32_t b = 0; b < r->trace->buffer_count; b++) {
        const struct trace_buffer *old = &r->trace->buffers[b];
        const struct segment *segment = saving_segment(r, old);
        struct trace_buffer buffer = *old;
        buffer.name = g_strdup(old->name);
        buffer.first = r->moved[old->first];
        buffer.last = r->moved[old->last];
        if (segment && !is_output(segment, old)) {
            buffer.last = r->moved[segment->last];
            buffer.saved = false;
            buffer.recompute_flops = 0;
        }
        g_array_append_val(r->buffers, buffer);
    }
    for (uint32_t b = 0; b < r->trace->buffer_count; b++)
        add_buffer_again(r, &r->trace->buffers[b]);
}

/* Keeps what is on the device when a segment begins, until it has run again; not what another
 * segment makes again. */
static void keep_inputs(struct recomputation *r)
{
    for (uint32_t b = 0; b < r->trace->buffer_count; b++) {
        const struct trace_buffer *old = &r->trace->buffers[b];
        const struct segment *owner = saving_segment(r, old);
        struct trace_buffer *buffer = &g_array_index(r->buffers, struct trace_buffer, b);
        if (owner && !is_output(owner, old))
            continue;
        for (uint32_t s = 0; s < r->segments->len; s++) {
            const struct segment *segment = segment_at(r, s);
            if (segment->first > old->last)
                break;
            if (old->first < segment->first)
                buffer->last = MAX(buffer->last, again_at(segment, segment->last_repeated));
        }
    }
}

/* ---- how operators use buffers ---- */

/* Adds the use of an operator that runs again. Returns whether there is one. */
static bool add_use_again(struct recomputation *r, const struct trace_use *old)
{
    uint32_t s = r->segment_of[old->moment];
    if (s == NO_INDEX || old->moment > segment_at(r, s)->last_repeated)
        return false;
    const struct trace_use again = {old->buffer, again_at(segment_at(r, s), old->moment),
                                    TRACE_USES};
    g_array_append_val(r->uses, again);
    return true;
}

static int by_use(gconstpointer a, gconstpointer b)
{
    const struct trace_use *x = a, *y = b;
    return x->moment < y->moment ? -1 : x->moment > y->moment;
}

/* Puts the uses of a buffer from row `first` on in order. The first operator of backward that runs
 * again, or that restores the buffer, restores it; once one runs again, what it has restored is
 * what later ones use. */
static void order_uses(struct recomputation *r, guint first, bool again)
{
    struct trace_use *uses = &g_array_index(r->uses, struct trace_use, first);
    uint32_t count = r->uses->len - first;
    bool restored = false;
    qsort(uses, count, sizeof *uses, by_use);
    for (uint32_t i = 0; again && i < count; i++) {
        const struct trace_operator *op = &g_array_index(r->operators, struct trace_operator,
                                                         uses[i].moment);
        if (op->phase != TRACE_BACKWARD)
            continue;
        uses[i].kind = restored ? TRACE_USES : TRACE_RESTORES;
        restored = true;
    }
}

/* What a segment makes again does not leave the device otherwise, so its uses are not needed. */
static void add_uses(struct recomputation *r)
{
    const struct trace *trace = r->trace;
    for (uint32_t i = 0; i < trace->use_count;) {
        uint32_t buffer = trace->uses[i].buffer;
        guint first = r->uses->len;
        bool again = false;
        const struct segment *owner = saving_segment(r, &trace->buffers[buffer]);
        bool leaves = owner && !is_output(owner, &trace->buffers[buffer]);
        for (; i < trace->use_count && trace->uses[i].buffer == buffer; i++) {
            struct trace_use use = trace->uses[i];
            use.moment = r->moved[use.moment];
            if (leaves)
                continue;
            g_array_append_val(r->uses, use);
            again |= add_use_again(r, &trace->uses[i]);
        }
        if (r->uses->len > first)
            order_uses(r, first, again);
    }
}

static void take_arrays(struct recomputation *r, struct trace *result)
{
    result->operator_count = r->operators->len;
    result->access_count = r->accesses->len;
    result->buffer_count = r->buffers->len;
    result->operators = (struct trace_operator *)g_array_free(r->operators, false);
    result->accesses = (struct trace_access *)g_array_free(r->accesses, false);
    result->buffers = (struct trace_buffer *)g_array_free(r->buffers, false);
    result->use_count = r->uses->len;
    result->uses = (struct trace_use *)(void *)g_array_free(r->uses, r->uses->len == 0);
    result->non_model_bytes = g_new0(uint64_t, result->operator_count);
    trace_sum_buffers(result);
}

/* Returns a copy of everything but operators, accesses, buffers, their uses and their sums. */
static struct trace *copy_rest(const struct trace *trace)
{
    struct trace rest = *trace;
    rest.operator_count = rest.access_count = rest.buffer_count = rest.use_count = 0;
    rest.operators = NULL;
    rest.accesses = NULL;
    rest.buffers = NULL;
    rest.uses = NULL;
    rest.non_model_bytes = NULL;
    return trace_copy(&rest);
}

static bool any_is_timed(const struct recomputation *r)
{
    bool timed = false;
    for (uint32_t s = 0; s < r->segments->len; s++)
        for (uint32_t m = segment_at(r, s)->first; m <= segment_at(r, s)->last_repeated; m++)
            timed |= r->trace->operators[m].duration_ns > 0;
    return timed;
}

struct trace *trace_recompute(const struct trace *trace, const uint8_t *layers)
{
    g_assert(trace_may_recompute(trace));
    struct recomputation r = {
        .trace = trace,
        .segments = g_array_new(false, false, sizeof(struct segment)),
        .segment_of = g_new(uint32_t, trace->operator_count),
        .moved = g_new(uint32_t, trace->operator_count),
        .operators = g_array_new(false, false, sizeof(struct trace_operator)),
        .accesses = g_array_new(false, false, sizeof(struct trace_access)),
        .buffers = g_array_new(false, false, sizeof(struct trace_buffer)),
        .uses = g_array_new(false, false, sizeof(struct trace_use)),
    };
    find_segments(&r);
    find_backward(&r);
    choose_segments(&r, layers);
    add_operators(&r);
    add_buffers(&r);
    keep_inputs(&r);
    add_uses(&r);
    struct trace *result = copy_rest(trace);
    take_arrays(&r, result);
    result->estimated |= any_is_timed(&r);
    g_array_unref(r.segments);
    g_free(r.segment_of);
    g_free(r.moved);
    return result;
}
