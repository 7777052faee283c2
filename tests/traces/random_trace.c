#include "tests/traces/random_trace.h"

static uint64_t some(GRand *random, uint64_t below)
{
    return (((uint64_t)g_rand_int(random) << 32) | g_rand_int(random)) % below;
}

static bool chance(GRand *random)
{
    return g_rand_boolean(random);
}

static char *some_text(GRand *random)
{
    static const char *const texts[] = {"gpt2 12x768", "a 'quoted' \"name\"", "Größe, 模型", "x"};
    return chance(random) ? g_strdup(texts[some(random, G_N_ELEMENTS(texts))]) : NULL;
}

static void add_meta(struct trace *trace, GRand *random)
{
    static const uint8_t widths[] = {0, 2, 4};
    trace->producer = some_text(random);
    trace->model = some_text(random);
    trace->precision = some_text(random);
    trace->machine = some_text(random);
    trace->batch = 1 + (uint32_t)some(random, 64);
    trace->sequence = 1 + (uint32_t)some(random, 4096);
    trace->ranks = chance(random) ? 0 : 2 + (uint32_t)some(random, 3);
    trace->shared_parameters = trace->ranks && chance(random);
    trace->whole_gradients = trace->ranks && !trace->shared_parameters && chance(random);
    trace->whole_states = trace->whole_gradients && chance(random);
    trace->stages = chance(random) ? 0 : 2 + (uint32_t)some(random, 3);
    trace->stage = trace->stages ? (uint32_t)some(random, trace->stages) : 0;
    trace->micro_batches = MAX(1, trace->ranks) * (1 + (uint32_t)some(random, 4));
    trace->list_element_bytes[TRACE_PARAM] = chance(random) ? 2 : 4;
    for (int list = TRACE_GRAD; list < TRACE_GATHERED; list++)
        trace->list_element_bytes[list] = widths[some(random, G_N_ELEMENTS(widths))];
    trace->library_bytes = some(random, UINT64_C(1) << 32);
    trace->estimated = chance(random);
    trace->partial = chance(random);
}

/* Some lists lack some tensors. */
static void add_tensors(struct trace *trace, GRand *random)
{
    bool partial = chance(random);
    trace->tensor_count = (uint32_t)some(random, 20);
    trace->tensors = g_new0(struct trace_tensor, trace->tensor_count);
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        trace->tensors[i].name = g_strdup_printf("h.%u.\"größe' %%s", i);
        trace->tensors[i].elements = 1 + some(random, UINT64_C(1) << 40);
        for (int list = TRACE_GRAD; partial && list < TRACE_GATHERED; list++)
            if (trace->list_element_bytes[list] && chance(random))
                trace->tensors[i].absent |= (uint8_t)(1 << list);
    }
}

/* Sometimes cuts the largest tensor, and perhaps others, into blocks. */
static void cut_tensors(struct trace *trace, GRand *random)
{
    uint64_t largest = 0;
    for (uint32_t i = 0; i < trace->tensor_count; i++)
        largest = MAX(largest, trace->tensors[i].elements);
    uint64_t block = largest / (5 + some(random, 100)) / TRACE_BLOCK_STEP * TRACE_BLOCK_STEP;
    if (chance(random) && !trace->ranks && block > 0)
        trace->state_block = block;
    bool cut = false;
    for (uint32_t i = 0; i < trace->tensor_count; i++)
        cut = cut || trace_is_cut(trace, i);
    if (!cut)
        trace->state_block = 0;
}

/* Adds each existing list of each tensor with probability 1 / `one_in`. */
static uint32_t add_accesses(const struct trace *trace, GArray *accesses, GRand *random,
                             uint32_t one_in)
{
    guint before = accesses->len;
    for (uint32_t tensor = 0; tensor < trace->tensor_count; tensor++)
        for (uint8_t list = 0; list < TRACE_GATHERED; list++)
            if (trace_has(trace, list, tensor) && some(random, one_in) == 0) {
                struct trace_access access = {
                    .tensor = tensor,
                    .list = list,
                    .mode = (uint8_t)some(random, 3),
                    .block = (uint16_t)some(random, trace_blocks(trace, list, tensor))};
                g_array_append_val(accesses, access);
            }
    return accesses->len - before;
}

static void add_operators(struct trace *trace, GRand *random, uint32_t most_operators)
{
    GArray *accesses = g_array_new(false, false, sizeof(struct trace_access));
    trace->operator_count = 1 + (uint32_t)some(random, most_operators);
    trace->operators = g_new0(struct trace_operator, trace->operator_count);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        struct trace_operator *op = &trace->operators[m];
        op->name = g_strdup_printf("forward h.%u 'Maß'", m);
        op->phase = (uint8_t)some(random, 3);
        op->place = (uint8_t)some(random, 2);
        op->layer = (int32_t)some(random, 10) - 1;
        op->micro_batch = (uint32_t)some(random, trace->micro_batches);
        op->first_access = accesses->len;
        op->access_count = add_accesses(trace, accesses, random, 20);
        op->flops = some(random, UINT64_C(1) << 62);
        op->bytes = some(random, UINT64_C(1) << 50);
        op->duration_ns = chance(random) ? some(random, UINT64_C(1) << 40) : 0;
        for (int c = 0; c < TRACE_COLLECTIVES; c++) {
            if (c == TRACE_PASS ? !trace->stages : !trace->ranks)
                continue;
            if (chance(random))
                op->exchange[c] = (struct trace_exchange){some(random, UINT64_C(1) << 40),
                                                          some(random, UINT64_C(1) << 40)};
        }
        if (op->place == TRACE_ON_HOST) {
            op->h2d_bytes = some(random, UINT64_C(1) << 30);
            op->d2h_bytes = some(random, UINT64_C(1) << 30);
        }
    }
    trace->access_count = accesses->len;
    trace->accesses = (struct trace_access *)(void *)g_array_free(accesses, false);
}

/* Lets chunks hold a quarter of the buffers whose first and last operators run on the device. */
static void hold_buffers(struct trace *trace, GRand *random)
{
    GArray *accesses = g_array_new(false, false, sizeof(struct trace_access));
    g_autofree uint8_t *held = g_new0(uint8_t, trace->buffer_count);
    for (uint32_t b = 0; b < trace->buffer_count; b++)
        held[b] = some(random, 4) == 0 &&
                  trace->operators[trace->buffers[b].first].place == TRACE_ON_DEVICE &&
                  trace->operators[trace->buffers[b].last].place == TRACE_ON_DEVICE;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        struct trace_operator *op = &trace->operators[m];
        guint first = accesses->len;
        g_array_append_vals(accesses, trace->accesses + op->first_access, op->access_count);
        for (uint32_t b = 0; b < trace->buffer_count; b++) {
            bool makes = trace->buffers[b].first == m;
            struct trace_access access = {b, TRACE_ACTIVATION, makes ? TRACE_OVERWRITE : TRACE_READ,
                                          0};
            if (held[b] && (makes || trace->buffers[b].last == m))
                g_array_append_val(accesses, access);
        }
        op->first_access = first;
        op->access_count = accesses->len - first;
    }
    g_free(trace->accesses);
    trace->access_count = accesses->len;
    trace->accesses = (struct trace_access *)(void *)g_array_free(accesses, accesses->len == 0);
}

static void add_buffers(struct trace *trace, GRand *random)
{
    trace->buffer_count = 1 + (uint32_t)some(random, 2 * (uint64_t)trace->operator_count);
    trace->buffers = g_new0(struct trace_buffer, trace->buffer_count);
    for (uint32_t i = 0; i < trace->buffer_count; i++) {
        struct trace_buffer *buffer = &trace->buffers[i];
        buffer->name = g_strdup_printf("h.%u.saved", i);
        buffer->bytes = 1 + some(random, UINT64_C(1) << 36);
        buffer->first = (uint32_t)some(random, trace->operator_count);
        buffer->last = buffer->first +
                       (uint32_t)some(random, trace->operator_count - buffer->first);
        buffer->saved = chance(random);
        buffer->recompute_flops = buffer->saved ? some(random, UINT64_C(1) << 40) : 0;
    }
    if (chance(random))
        hold_buffers(trace, random);
    trace_sum_buffers(trace);
}

struct trace *random_trace(GRand *random, uint32_t most_operators)
{
    struct trace *trace = g_new0(struct trace, 1);
    add_meta(trace, random);
    add_tensors(trace, random);
    cut_tensors(trace, random);
    add_operators(trace, random, most_operators);
    if (chance(random)) {
        add_buffers(trace, random);
    } else {
        trace->non_model_bytes = g_new0(uint64_t, trace->operator_count);
        for (uint32_t m = 0; m < trace->operator_count; m++)
            trace->non_model_bytes[m] = some(random, UINT64_C(1) << 40);
    }
    return trace;
}

static void assert_meta_equal(const struct trace *a, const struct trace *b)
{
    g_assert_cmpstr(a->producer, ==, b->producer);
    g_assert_cmpstr(a->model, ==, b->model);
    g_assert_cmpstr(a->precision, ==, b->precision);
    g_assert_cmpstr(a->machine, ==, b->machine);
    g_assert_cmpuint(a->batch, ==, b->batch);
    g_assert_cmpuint(a->sequence, ==, b->sequence);
    g_assert_cmpuint(a->micro_batches, ==, b->micro_batches);
    g_assert_cmpuint(a->ranks, ==, b->ranks);
    g_assert_cmpuint(a->stages, ==, b->stages);
    g_assert_cmpuint(a->stage, ==, b->stage);
    g_assert_cmpint(a->shared_parameters, ==, b->shared_parameters);
    g_assert_cmpint(a->whole_gradients, ==, b->whole_gradients);
    g_assert_cmpint(a->whole_states, ==, b->whole_states);
    g_assert_cmpmem(a->list_element_bytes, TRACE_LISTS, b->list_element_bytes, TRACE_LISTS);
    g_assert_cmpuint(a->state_block, ==, b->state_block);
    g_assert_cmpuint(a->library_bytes, ==, b->library_bytes);
    g_assert_cmpint(a->estimated, ==, b->estimated);
    g_assert_cmpint(a->partial, ==, b->partial);
    g_assert_cmpuint(a->tensor_count, ==, b->tensor_count);
    g_assert_cmpuint(a->operator_count, ==, b->operator_count);
    g_assert_cmpuint(a->access_count, ==, b->access_count);
    g_assert_cmpuint(a->buffer_count, ==, b->buffer_count);
}

static void assert_operators_equal(const struct trace_operator *a, const struct trace_operator *b)
{
    g_assert_cmpstr(a->name, ==, b->name);
    g_assert_cmpuint(a->phase, ==, b->phase);
    g_assert_cmpuint(a->place, ==, b->place);
    g_assert_cmpint(a->layer, ==, b->layer);
    g_assert_cmpuint(a->micro_batch, ==, b->micro_batch);
    g_assert_cmpuint(a->first_access, ==, b->first_access);
    g_assert_cmpuint(a->access_count, ==, b->access_count);
    g_assert_cmpuint(a->flops, ==, b->flops);
    g_assert_cmpuint(a->bytes, ==, b->bytes);
    g_assert_cmpuint(a->h2d_bytes, ==, b->h2d_bytes);
    g_assert_cmpuint(a->d2h_bytes, ==, b->d2h_bytes);
    g_assert_cmpuint(a->duration_ns, ==, b->duration_ns);
    for (int c = 0; c < TRACE_COLLECTIVES; c++) {
        g_assert_cmpuint(a->exchange[c].sent_bytes, ==, b->exchange[c].sent_bytes);
        g_assert_cmpuint(a->exchange[c].received_bytes, ==, b->exchange[c].received_bytes);
    }
}

static void assert_buffers_equal(const struct trace_buffer *a, const struct trace_buffer *b)
{
    g_assert_cmpstr(a->name, ==, b->name);
    g_assert_cmpuint(a->bytes, ==, b->bytes);
    g_assert_cmpuint(a->first, ==, b->first);
    g_assert_cmpuint(a->last, ==, b->last);
    g_assert_cmpint(a->saved, ==, b->saved);
    g_assert_cmpuint(a->recompute_flops, ==, b->recompute_flops);
}

void assert_traces_equal(const struct trace *a, const struct trace *b)
{
    assert_meta_equal(a, b);
    for (uint32_t i = 0; i < a->tensor_count; i++) {
        g_assert_cmpstr(a->tensors[i].name, ==, b->tensors[i].name);
        g_assert_cmpuint(a->tensors[i].elements, ==, b->tensors[i].elements);
        g_assert_cmpuint(a->tensors[i].absent, ==, b->tensors[i].absent);
    }
    for (uint32_t m = 0; m < a->operator_count; m++) {
        assert_operators_equal(&a->operators[m], &b->operators[m]);
        g_assert_cmpuint(a->non_model_bytes[m], ==, b->non_model_bytes[m]);
    }
    for (uint32_t i = 0; i < a->access_count; i++) {
        g_assert_cmpuint(a->accesses[i].tensor, ==, b->accesses[i].tensor);
        g_assert_cmpuint(a->accesses[i].list, ==, b->accesses[i].list);
        g_assert_cmpuint(a->accesses[i].mode, ==, b->accesses[i].mode);
        g_assert_cmpuint(a->accesses[i].block, ==, b->accesses[i].block);
    }
    for (uint32_t i = 0; i < a->buffer_count; i++)
        assert_buffers_equal(&a->buffers[i], &b->buffers[i]);
    g_assert_cmpuint(a->use_count, ==, b->use_count);
    for (uint32_t i = 0; i < a->use_count; i++) {
        g_assert_cmpuint(a->uses[i].buffer, ==, b->uses[i].buffer);
        g_assert_cmpuint(a->uses[i].moment, ==, b->uses[i].moment);
        g_assert_cmpuint(a->uses[i].kind, ==, b->uses[i].kind);
    }
}
