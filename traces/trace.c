#include "traces/trace.h"

#include "traces/shard.h"

#include <string.h>

G_DEFINE_QUARK(pstar_trace_error, trace_error)

void trace_free(struct trace *trace)
{
    if (!trace)
        return;
    for (uint32_t i = 0; i < trace->tensor_count; i++)
        g_free(trace->tensors[i].name);
    for (uint32_t i = 0; i < trace->operator_count; i++)
        g_free(trace->operators[i].name);
    for (uint32_t i = 0; i < trace->buffer_count; i++)
        g_free(trace->buffers[i].name);
    g_free(trace->tensors);
    g_free(trace->operators);
    g_free(trace->accesses);
    g_free(trace->buffers);
    g_free(trace->uses);
    g_free(trace->non_model_bytes);
    g_free(trace->producer);
    g_free(trace->model);
    g_free(trace->precision);
    g_free(trace->machine);
    g_free(trace);
}

struct trace *trace_copy(const struct trace *trace)
{
    struct trace *copy = g_memdup2(trace, sizeof *trace);
    copy->producer = g_strdup(trace->producer);
    copy->model = g_strdup(trace->model);
    copy->precision = g_strdup(trace->precision);
    copy->machine = g_strdup(trace->machine);
    copy->tensors = g_memdup2(trace->tensors, trace->tensor_count * sizeof *trace->tensors);
    copy->operators = g_memdup2(trace->operators, trace->operator_count * sizeof *trace->operators);
    copy->accesses = g_memdup2(trace->accesses, trace->access_count * sizeof *trace->accesses);
    copy->buffers = g_memdup2(trace->buffers, trace->buffer_count * sizeof *trace->buffers);
    copy->uses = g_memdup2(trace->uses, trace->use_count * sizeof *trace->uses);
    copy->non_model_bytes = g_memdup2(trace->non_model_bytes,
                                      trace->operator_count * sizeof *trace->non_model_bytes);
    for (uint32_t i = 0; i < copy->tensor_count; i++)
        copy->tensors[i].name = g_strdup(trace->tensors[i].name);
    for (uint32_t i = 0; i < copy->operator_count; i++)
        copy->operators[i].name = g_strdup(trace->operators[i].name);
    for (uint32_t i = 0; i < copy->buffer_count; i++)
        copy->buffers[i].name = g_strdup(trace->buffers[i].name);
    return copy;
}

uint8_t *trace_held_buffers(const struct trace *trace)
{
    uint8_t *held = NULL;
    for (uint32_t a = 0; a < trace->access_count; a++) {
        if (trace->accesses[a].list != TRACE_ACTIVATION)
            continue;
        if (!held)
            held = g_new0(uint8_t, trace->buffer_count);
        held[trace->accesses[a].tensor] = 1;
    }
    return held;
}

void trace_sum_buffers(struct trace *trace)
{
    g_autofree uint8_t *held = trace_held_buffers(trace);
    /* Sum of what begins minus what ends at each moment. Unsigned wrap-around cancels out. */
    uint64_t *change = g_new0(uint64_t, (size_t)trace->operator_count + 1);
    for (uint32_t i = 0; i < trace->buffer_count; i++) {
        const struct trace_buffer *buffer = &trace->buffers[i];
        if (held && held[i])
            continue;
        change[buffer->first] += buffer->bytes;
        change[buffer->last + 1] -= buffer->bytes;
    }
    for (uint32_t m = 1; m < trace->operator_count; m++)
        change[m] += change[m - 1];
    g_free(trace->non_model_bytes);
    trace->non_model_bytes = change;
}

bool trace_list_is_whole(const struct trace *trace, enum trace_list list)
{
    switch (list) {
    case TRACE_GATHERED:
        return true;
    case TRACE_PARAM:
        return !trace->shared_parameters;
    case TRACE_GRAD:
        return trace->ranks <= 1 || trace->whole_gradients;
    default:
        return trace->ranks <= 1 || trace->whole_states;
    }
}

bool trace_has(const struct trace *trace, enum trace_list list, tensor_id tensor)
{
    return trace->list_element_bytes[list] && !(trace->tensors[tensor].absent >> list & 1);
}

char *trace_lists_of(const struct trace *trace, tensor_id tensor)
{
    GString *lists = g_string_new(NULL);
    for (int list = 0; list < TRACE_LISTS; list++)
        if (trace_has(trace, (enum trace_list)list, tensor))
            g_string_append_printf(lists, "%s%s", lists->len ? " " : "",
                                   trace_list_name((enum trace_list)list));
    return g_string_free(lists, FALSE);
}

uint64_t trace_list_elements(const struct trace *trace, enum trace_list list, tensor_id tensor)
{
    uint64_t elements = trace->tensors[tensor].elements;
    if (trace->tensors[tensor].absent >> list & 1)
        return 0;
    return trace_list_is_whole(trace, list) ? elements : shard_room(elements, trace->ranks);
}

uint64_t trace_list_bytes(const struct trace *trace, enum trace_list list, tensor_id tensor)
{
    return trace_list_elements(trace, list, tensor) * trace->list_element_bytes[list];
}

uint32_t trace_blocks_of(uint64_t elements, uint64_t state_block)
{
    bool cut = state_block > 0 && elements > TRACE_UNCUT_BLOCKS * state_block;
    return cut ? (uint32_t)((elements + state_block - 1) / state_block) : 1;
}

/* Returns whether no list of states has the tensor. */
static bool lacks_states(const struct trace *trace, tensor_id tensor)
{
    bool has = false;
    for (int list = TRACE_MASTER; list <= TRACE_EXP_AVG_SQ; list++)
        has = has || trace_has(trace, (enum trace_list)list, tensor);
    return trace->tensors[tensor].absent && !has;
}

bool trace_is_cut(const struct trace *trace, tensor_id tensor)
{
    return !lacks_states(trace, tensor) &&
           trace_blocks_of(trace->tensors[tensor].elements, trace->state_block) > 1;
}

uint32_t trace_blocks(const struct trace *trace, enum trace_list list, tensor_id tensor)
{
    bool states = list >= TRACE_MASTER && list <= TRACE_EXP_AVG_SQ && !lacks_states(trace, tensor);
    return states ? trace_blocks_of(trace->tensors[tensor].elements, trace->state_block) : 1;
}

uint64_t trace_block_elements(const struct trace *trace, enum trace_list list, tensor_id tensor,
                              uint32_t block)
{
    uint64_t elements = trace_list_elements(trace, list, tensor);
    if (trace_blocks(trace, list, tensor) == 1)
        return elements;
    uint64_t first = block * trace->state_block;
    return elements ? MIN(trace->state_block, elements - first) : 0;
}

uint64_t trace_block_bytes(const struct trace *trace, enum trace_list list, tensor_id tensor,
                           uint32_t block)
{
    return trace_block_elements(trace, list, tensor, block) * trace->list_element_bytes[list];
}

char *trace_block_name(const struct trace *trace, enum trace_list list, tensor_id tensor,
                       uint32_t block)
{
    const char *name = trace->tensors[tensor].name;
    return trace_blocks(trace, list, tensor) > 1 ? g_strdup_printf("%s[%u]", name, block)
                                                 : g_strdup(name);
}

struct trace_exchange trace_operator_exchange(const struct trace_operator *op)
{
    struct trace_exchange sum = {0, 0};
    for (int c = 0; c < TRACE_COLLECTIVES; c++) {
        sum.sent_bytes += op->exchange[c].sent_bytes;
        sum.received_bytes += op->exchange[c].received_bytes;
    }
    return sum;
}

bool trace_operator_reduces(const struct trace_operator *op)
{
    const struct trace_exchange *reduce = &op->exchange[TRACE_REDUCE];
    return op->place == TRACE_ON_DEVICE && reduce->sent_bytes + reduce->received_bytes > 0;
}

struct trace_exchange trace_exchanged(const struct trace *trace, enum trace_collective collective)
{
    struct trace_exchange sum = {0, 0};
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_exchange *exchange = &trace->operators[m].exchange[collective];
        sum.sent_bytes += exchange->sent_bytes;
        sum.received_bytes += exchange->received_bytes;
    }
    return sum;
}

uint32_t trace_most_in_flight(const struct trace *trace)
{
    g_autofree uint32_t *last = g_new0(uint32_t, trace->micro_batches);
    g_autofree bool *begun = g_new0(bool, trace->micro_batches);
    uint32_t now = 0, most = 0;
    for (uint32_t m = trace->operator_count; m-- > 0;) {
        const struct trace_operator *op = &trace->operators[m];
        if (op->phase == TRACE_UPDATE_PHASE)
            continue;
        begun[op->micro_batch] = op->phase == TRACE_BACKWARD;
        if (op->phase == TRACE_BACKWARD)
            last[op->micro_batch] = MAX(last[op->micro_batch], m);
    }
    for (uint32_t i = 0; i < trace->micro_batches; i++)
        now += begun[i];
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        if (op->phase == TRACE_UPDATE_PHASE)
            continue;
        now += !begun[op->micro_batch];
        begun[op->micro_batch] = true;
        most = MAX(most, now);
        now -= m == last[op->micro_batch];
        begun[op->micro_batch] = m != last[op->micro_batch];
    }
    return most;
}

uint64_t trace_model_bytes(const struct trace *trace)
{
    uint64_t bytes = 0;
    for (int list = 0; list < TRACE_GATHERED; list++)
        for (uint32_t t = 0; t < trace->tensor_count; t++)
            bytes += trace_list_bytes(trace, list, t);
    return bytes;
}

/* Names of enumerations for tables, files and messages. */

static const char *const lists[TRACE_ACCESS_LISTS] = {
    "param", "grad", "master", "exp_avg", "exp_avg_sq", "gathered", "activation"};
static const char *const modes[] = {"read", "update", "overwrite"};
static const char *const phases[] = {"forward", "backward", "update"};
static const char *const places[] = {"device", "host"};
static const char *const collectives[] = {"gather", "reduce", "pass"};
static const char *const uses[] = {"use", "save", "restore"};

static bool find(const char *const *names, size_t count, const char *name, uint8_t *number)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) {
            *number = (uint8_t)i;
            return true;
        }
    return false;
}

const char *trace_list_name(enum trace_list list)
{
    g_assert((size_t)list < G_N_ELEMENTS(lists));
    return lists[list];
}

char *trace_list_names(void)
{
    const char *names[TRACE_LISTS + 1] = {NULL};
    for (int list = 0; list < TRACE_LISTS; list++)
        names[list] = lists[list];
    return g_strjoinv(", ", (char **)names);
}

bool trace_list_parse(const char *name, uint8_t *list)
{
    return find(lists, TRACE_LISTS, name, list);
}

bool trace_access_list_parse(const char *name, uint8_t *list)
{
    return find(lists, G_N_ELEMENTS(lists), name, list);
}

const char *trace_mode_name(enum trace_mode mode)
{
    g_assert((size_t)mode < G_N_ELEMENTS(modes));
    return modes[mode];
}

bool trace_mode_parse(const char *name, uint8_t *mode)
{
    return find(modes, G_N_ELEMENTS(modes), name, mode);
}

const char *trace_phase_name(enum trace_phase phase)
{
    g_assert((size_t)phase < G_N_ELEMENTS(phases));
    return phases[phase];
}

bool trace_phase_parse(const char *name, uint8_t *phase)
{
    return find(phases, G_N_ELEMENTS(phases), name, phase);
}

const char *trace_place_name(enum trace_place place)
{
    g_assert((size_t)place < G_N_ELEMENTS(places));
    return places[place];
}

bool trace_place_parse(const char *name, uint8_t *place)
{
    return find(places, G_N_ELEMENTS(places), name, place);
}

const char *trace_collective_name(enum trace_collective collective)
{
    g_assert((size_t)collective < G_N_ELEMENTS(collectives));
    return collectives[collective];
}

bool trace_collective_parse(const char *name, uint8_t *collective)
{
    return find(collectives, G_N_ELEMENTS(collectives), name, collective);
}

const char *trace_use_name(enum trace_use_kind kind)
{
    g_assert((size_t)kind < G_N_ELEMENTS(uses));
    return uses[kind];
}

bool trace_use_parse(const char *name, uint8_t *kind)
{
    return find(uses, G_N_ELEMENTS(uses), name, kind);
}

/* The digest covers what a plan depends on, in the same bytes on every machine. */

enum { FLUSH_BYTES = 1 << 16 };

struct digester {
    GChecksum *checksum;
    GByteArray *pending; /* fields are short, so they are digested in blocks */
};

static void flush(struct digester *digester)
{
    g_checksum_update(digester->checksum, digester->pending->data, (gssize)digester->pending->len);
    g_byte_array_set_size(digester->pending, 0);
}

static void add_number(struct digester *digester, uint64_t number)
{
    uint64_t little_endian = GUINT64_TO_LE(number);
    g_byte_array_append(digester->pending, (const guint8 *)&little_endian, sizeof little_endian);
    if (digester->pending->len >= FLUSH_BYTES)
        flush(digester);
}

static void add_text(struct digester *digester, const char *text)
{
    size_t length = !text ? 0 : strlen(text);
    add_number(digester, length);
    if (length > 0)
        g_byte_array_append(digester->pending, (const guint8 *)text, (guint)length);
}

static void add_tensors(struct digester *digester, const struct trace *trace)
{
    for (int list = 0; list < TRACE_GATHERED; list++)
        add_number(digester, trace->list_element_bytes[list]);
    if (trace->list_element_bytes[TRACE_GATHERED])
        add_number(digester, trace->list_element_bytes[TRACE_GATHERED]);
    add_number(digester, trace->tensor_count);
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        add_text(digester, trace->tensors[i].name);
        add_number(digester, trace->tensors[i].elements);
        if (trace->tensors[i].absent)
            add_number(digester, trace->tensors[i].absent);
    }
}

/* Returns the number that stands for a list, which is as old as the list. */
static uint64_t list_number(uint8_t list)
{
    enum { ACTIVATION = 5, GATHERED };
    return list == TRACE_ACTIVATION ? ACTIVATION : list == TRACE_GATHERED ? GATHERED : list;
}

static void add_operators(struct digester *digester, const struct trace *trace)
{
    add_number(digester, trace->operator_count);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        add_text(digester, op->name);
        add_number(digester, op->place);
        add_number(digester, op->h2d_bytes);
        add_number(digester, op->d2h_bytes);
        add_number(digester, op->access_count);
        for (uint32_t i = 0; i < op->access_count; i++) {
            const struct trace_access *access = &trace->accesses[op->first_access + i];
            add_number(digester, access->tensor);
            add_number(digester, list_number(access->list));
            add_number(digester, access->mode);
            if (trace->state_block)
                add_number(digester, access->block);
        }
    }
}

static void add_non_model(struct digester *digester, const struct trace *trace)
{
    add_number(digester, trace->buffer_count);
    for (uint32_t i = 0; i < trace->buffer_count; i++) {
        add_number(digester, trace->buffers[i].bytes);
        add_number(digester, trace->buffers[i].first);
        add_number(digester, trace->buffers[i].last);
    }
    if (trace->buffer_count == 0)
        for (uint32_t m = 0; m < trace->operator_count; m++)
            add_number(digester, trace->non_model_bytes[m]);
}

char *trace_digest(const struct trace *trace)
{
    struct digester digester = {
        .checksum = g_checksum_new(G_CHECKSUM_SHA256),
        .pending = g_byte_array_sized_new(FLUSH_BYTES),
    };
    add_text(&digester, trace->precision);
    add_number(&digester, trace->batch);
    add_number(&digester, trace->sequence);
    add_number(&digester, trace->micro_batches);
    if (trace->ranks > 1) {
        add_number(&digester, trace->ranks);
        add_number(&digester, trace->shared_parameters);
    }
    if (trace->stages > 1) {
        add_number(&digester, trace->stages);
        add_number(&digester, trace->stage);
    }
    if (trace->whole_gradients || trace->whole_states) {
        add_number(&digester, trace->whole_gradients);
        add_number(&digester, trace->whole_states);
    }
    if (trace->state_block)
        add_number(&digester, trace->state_block);
    add_tensors(&digester, trace);
    add_operators(&digester, trace);
    add_non_model(&digester, trace);
    flush(&digester);
    char *digest = g_strdup(g_checksum_get_string(digester.checksum));
    g_byte_array_unref(digester.pending);
    g_checksum_free(digester.checksum);
    return digest;
}
