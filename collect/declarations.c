#include "collect/declarations.h"

#include <string.h>

static void clear_fused(gpointer data)
{
    g_free(((struct fused *)data)->bytes);
}

GArray *fused_new(void)
{
    GArray *fused = g_array_new(FALSE, FALSE, sizeof(struct fused));
    g_array_set_clear_func(fused, clear_fused);
    return fused;
}

bool fused_weigh(GArray *fused, const struct trace *trace, GError **error)
{
    for (guint i = 0; i < fused->len; i++) {
        struct fused *group = &g_array_index(fused, struct fused, i);
        if (group->count == 0 || group->first >= trace->operator_count ||
            group->count > trace->operator_count - group->first) {
            g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                        "declarations: fused: there are fewer than %u operators from moment %u on",
                        group->count, group->first);
            return false;
        }
        group->bytes = g_new(uint64_t, group->count);
        for (uint32_t m = 0; m < group->count; m++)
            group->bytes[m] = trace->operators[group->first + m].bytes;
    }
    return true;
}

/* Divides by differences of rounded sums, so that the parts add up to the whole. */
static void divide(const struct fused *group, uint64_t *durations_ns)
{
    double whole = (double)durations_ns[group->first], total = 0, before = 0;
    for (uint32_t m = 0; m < group->count; m++)
        total += (double)group->bytes[m];
    for (uint32_t m = 0; total > 0 && m < group->count; m++) {
        double after = before + (double)group->bytes[m];
        durations_ns[group->first + m] = (uint64_t)(whole * (after / total)) -
                                         (uint64_t)(whole * (before / total));
        before = after;
    }
}

void fused_divide(const GArray *fused, uint64_t *durations_ns)
{
    for (guint i = 0; i < fused->len; i++)
        divide(&g_array_index(fused, struct fused, i), durations_ns);
}

struct declarations {
    struct trace *trace; /* only metadata; the arrays are below */
    GArray *tensors, *operators, *accesses, *buffers, *uses, *moments, *fused;
    char *unknown; /* may be NULL */
    bool queued, resident;
    bool complete; /* "declared" was seen with correct counts */
    char *fault;   /* the first error; NULL if there is none */
};

/* The rest of a declaration's text. */
struct words {
    const char *rest;
};

/* Returns the next word, to be freed; NULL at the end. */
static char *next_word(struct words *words)
{
    size_t length = strcspn(words->rest, " ");
    if (length == 0)
        return NULL;
    char *word = g_strndup(words->rest, length);
    words->rest += length + (words->rest[length] == ' ');
    return word;
}

static bool next_number(struct words *words, uint64_t most, uint64_t *number)
{
    char *word = next_word(words);
    bool ok = word && g_ascii_string_to_unsigned(word, 10, 0, most, number, NULL);
    g_free(word);
    return ok;
}

static bool next_number_32(struct words *words, uint32_t *number)
{
    uint64_t wide = 0;
    if (!next_number(words, UINT32_MAX, &wide))
        return false;
    *number = (uint32_t)wide;
    return true;
}

/* Parses the next word as the name of an enumerator. */
static bool next_name(struct words *words, bool (*parse)(const char *, uint8_t *), uint8_t *number)
{
    char *word = next_word(words);
    bool ok = word && parse(word, number);
    g_free(word);
    return ok;
}

/* Returns the rest as a name; NULL if nothing is left. */
static char *rest_as_name(const struct words *words)
{
    return words->rest[0] == '\0' ? NULL : g_utf8_make_valid(words->rest, -1);
}

static bool set_text(char **field, const struct words *words)
{
    g_free(*field);
    *field = rest_as_name(words);
    return *field != NULL;
}

static bool add_line(char **lines, const struct words *words)
{
    g_autofree char *line = rest_as_name(words);
    g_autofree char *before = *lines;
    *lines = !before ? g_strdup(line) : g_strconcat(before, "\n", line, NULL);
    return line != NULL;
}

static bool set_number(uint32_t *field, uint64_t payload)
{
    *field = (uint32_t)payload;
    return payload <= UINT32_MAX;
}

static bool add_element_bytes(struct trace *trace, const char *name, uint64_t payload)
{
    uint8_t list;
    if (!trace_list_parse(name, &list) || payload > UINT8_MAX)
        return false;
    trace->list_element_bytes[list] = (uint8_t)payload;
    return true;
}

static bool add_meta(struct declarations *declarations, struct words *words, uint64_t payload)
{
    struct trace *trace = declarations->trace;
    char *key = next_word(words);
    bool ok = false;
    if (!key)
        ;
    else if (strcmp(key, "producer") == 0)
        ok = set_text(&trace->producer, words);
    else if (strcmp(key, "model") == 0)
        ok = set_text(&trace->model, words);
    else if (strcmp(key, "precision") == 0)
        ok = set_text(&trace->precision, words);
    else if (strcmp(key, "machine") == 0)
        ok = set_text(&trace->machine, words);
    else if (strcmp(key, "unknown") == 0)
        ok = add_line(&declarations->unknown, words);
    else if (strcmp(key, "batch") == 0)
        ok = set_number(&trace->batch, payload);
    else if (strcmp(key, "sequence") == 0)
        ok = set_number(&trace->sequence, payload);
    else if (strcmp(key, "micro_batches") == 0)
        ok = set_number(&trace->micro_batches, payload);
    else if (strcmp(key, "ranks") == 0)
        ok = set_number(&trace->ranks, payload);
    else if (strcmp(key, "shared_parameters") == 0)
        ok = (trace->shared_parameters = payload == 1) || payload == 0;
    else if (strcmp(key, "whole_gradients") == 0)
        ok = (trace->whole_gradients = payload == 1) || payload == 0;
    else if (strcmp(key, "whole_states") == 0)
        ok = (trace->whole_states = payload == 1) || payload == 0;
    else if (strcmp(key, "stages") == 0)
        ok = set_number(&trace->stages, payload);
    else if (strcmp(key, "stage") == 0)
        ok = set_number(&trace->stage, payload);
    else if (strcmp(key, "state_block") == 0)
        ok = (trace->state_block = payload) <= INT64_MAX;
    else if (strcmp(key, "library_bytes") == 0)
        ok = (trace->library_bytes = payload) <= INT64_MAX;
    else if (g_str_has_prefix(key, "element_bytes_"))
        ok = add_element_bytes(trace, key + strlen("element_bytes_"), payload);
    g_free(key);
    return ok;
}

static bool add_tensor(struct declarations *declarations, struct words *words, uint64_t payload)
{
    struct trace_tensor tensor = {0};
    if (payload != declarations->tensors->len || !next_number(words, INT64_MAX, &tensor.elements) ||
        !(tensor.name = rest_as_name(words)))
        return false;
    g_array_append_val(declarations->tensors, tensor);
    return true;
}

/* Says that a list lacks a tensor. */
static bool add_absent(struct declarations *declarations, struct words *words, uint64_t payload)
{
    uint8_t list;
    if (payload >= declarations->tensors->len || !next_name(words, trace_list_parse, &list))
        return false;
    g_array_index(declarations->tensors, struct trace_tensor, payload).absent |= (uint8_t)(1
                                                                                           << list);
    return true;
}

static bool next_layer(struct words *words, int32_t *layer)
{
    char *word = next_word(words);
    gint64 number = -1;
    bool ok = word && g_ascii_string_to_signed(word, 10, -1, INT32_MAX, &number, NULL);
    *layer = (int32_t)number;
    g_free(word);
    return ok;
}

static bool add_operator(struct declarations *declarations, struct words *words, uint64_t payload)
{
    struct trace_operator op = {.first_access = declarations->accesses->len};
    if (payload != declarations->operators->len ||
        !next_name(words, trace_phase_parse, &op.phase) ||
        !next_name(words, trace_place_parse, &op.place) || !next_layer(words, &op.layer) ||
        !next_number_32(words, &op.micro_batch) || !next_number(words, INT64_MAX, &op.flops) ||
        !next_number(words, INT64_MAX, &op.bytes) ||
        !next_number(words, INT64_MAX, &op.h2d_bytes) ||
        !next_number(words, INT64_MAX, &op.d2h_bytes) || !(op.name = rest_as_name(words)))
        return false;
    g_array_append_val(declarations->operators, op);
    return true;
}

/* Adds an access of the last declared operator. */
static bool add_access(struct declarations *declarations, struct words *words, uint64_t payload)
{
    struct trace_access access = {.tensor = (uint32_t)payload};
    uint32_t moment = 0;
    uint64_t block = 0;
    if (payload > UINT32_MAX || !next_number_32(words, &moment) ||
        moment + 1 != declarations->operators->len ||
        !next_name(words, trace_access_list_parse, &access.list) ||
        !next_name(words, trace_mode_parse, &access.mode) ||
        (words->rest[0] != '\0' && !next_number(words, UINT16_MAX, &block)))
        return false;
    access.block = (uint16_t)block;
    g_array_index(declarations->operators, struct trace_operator, moment).access_count++;
    g_array_append_val(declarations->accesses, access);
    return true;
}

/* Adds what the last declared operator sends; the payload is what it receives. */
static bool add_exchange(struct declarations *declarations, struct words *words, uint64_t payload)
{
    struct trace_exchange exchange = {.received_bytes = payload};
    uint8_t collective = 0;
    uint32_t moment = 0;
    if (payload > INT64_MAX || !next_number_32(words, &moment) ||
        moment + 1 != declarations->operators->len ||
        !next_name(words, trace_collective_parse, &collective) ||
        !next_number(words, INT64_MAX, &exchange.sent_bytes))
        return false;
    g_array_index(declarations->operators, struct trace_operator, moment).exchange[collective] =
        exchange;
    return true;
}

static bool add_buffer(struct declarations *declarations, struct words *words, uint64_t payload)
{
    struct trace_buffer buffer = {0};
    uint64_t saved = 0;
    if (payload != declarations->buffers->len || !next_number(words, INT64_MAX, &buffer.bytes) ||
        !next_number_32(words, &buffer.first) || !next_number_32(words, &buffer.last) ||
        !next_number(words, 1, &saved) || !next_number(words, INT64_MAX, &buffer.recompute_flops) ||
        !(buffer.name = rest_as_name(words)))
        return false;
    buffer.saved = saved == 1;
    g_array_append_val(declarations->buffers, buffer);
    return true;
}

/* Adds an operator's use of a buffer; the payload is the buffer. */
static bool add_use(struct declarations *declarations, struct words *words, uint64_t payload)
{
    struct trace_use use = {.buffer = (uint32_t)payload};
    if (payload >= declarations->buffers->len || !next_number_32(words, &use.moment) ||
        !next_name(words, trace_use_parse, &use.kind))
        return false;
    g_array_append_val(declarations->uses, use);
    return true;
}

static bool add_moment(struct declarations *declarations, struct words *words, uint64_t payload)
{
    uint32_t moment = 0;
    if (!next_number_32(words, &moment) || moment != declarations->moments->len)
        return false;
    g_array_append_val(declarations->moments, payload);
    return true;
}

static bool add_fused(struct declarations *declarations, struct words *words, uint64_t payload)
{
    struct fused fused = {.count = (uint32_t)payload};
    if (payload > UINT32_MAX || !next_number_32(words, &fused.first))
        return false;
    g_array_append_val(declarations->fused, fused);
    return true;
}

static bool add_queued(struct declarations *declarations, struct words *words, uint64_t payload)
{
    declarations->queued = true;
    declarations->resident = payload == 1;
    return payload <= 1 && *words->rest == '\0';
}

static bool end(struct declarations *declarations, struct words *words, uint64_t payload)
{
    uint32_t tensors, operators, accesses, buffers;
    (void)payload;
    declarations->complete = next_number_32(words, &tensors) && next_number_32(words, &operators) &&
                             next_number_32(words, &accesses) && next_number_32(words, &buffers) &&
                             tensors == declarations->tensors->len &&
                             operators == declarations->operators->len &&
                             accesses == declarations->accesses->len &&
                             buffers == declarations->buffers->len;
    return declarations->complete;
}

static const struct {
    const char *kind;
    bool (*add)(struct declarations *, struct words *, uint64_t payload);
} kinds[] = {
    {"meta", add_meta},         {"tensor", add_tensor}, {"absent", add_absent},
    {"operator", add_operator}, {"access", add_access}, {"exchange", add_exchange},
    {"buffer", add_buffer},     {"moment", add_moment}, {"fused", add_fused},
    {"queued", add_queued},     {"use", add_use},       {"declared", end},
};

static void clear_tensor(void *tensor)
{
    g_free(((struct trace_tensor *)tensor)->name);
}

static void clear_operator(void *op)
{
    g_free(((struct trace_operator *)op)->name);
}

static void clear_buffer(void *buffer)
{
    g_free(((struct trace_buffer *)buffer)->name);
}

static GArray *new_array(guint element_bytes, GDestroyNotify clear)
{
    GArray *array = g_array_new(false, false, element_bytes);
    g_array_set_clear_func(array, clear);
    return array;
}

static void set_up(struct declarations *declarations)
{
    *declarations =
        (struct declarations){.trace = g_new0(struct trace, 1),
                              .tensors = new_array(sizeof(struct trace_tensor), clear_tensor),
                              .operators = new_array(sizeof(struct trace_operator), clear_operator),
                              .accesses = new_array(sizeof(struct trace_access), NULL),
                              .buffers = new_array(sizeof(struct trace_buffer), clear_buffer),
                              .uses = new_array(sizeof(struct trace_use), NULL),
                              .moments = new_array(sizeof(uint64_t), NULL),
                              .fused = fused_new()};
}

static void tear_down(struct declarations *declarations)
{
    trace_free(declarations->trace);
    g_array_unref(declarations->tensors);
    g_array_unref(declarations->operators);
    g_array_unref(declarations->accesses);
    g_array_unref(declarations->buffers);
    g_array_unref(declarations->uses);
    g_array_unref(declarations->moments);
    g_array_unref(declarations->fused);
    g_free(declarations->unknown);
    g_free(declarations->fault);
}

struct declarations *declarations_new(void)
{
    struct declarations *declarations = g_new0(struct declarations, 1);
    set_up(declarations);
    return declarations;
}

void declarations_free(struct declarations *declarations)
{
    if (!declarations)
        return;
    tear_down(declarations);
    g_free(declarations);
}

void declarations_add(struct declarations *declarations, const char *text, uint64_t payload)
{
    if (declarations->complete) { /* the program declares another iteration */
        tear_down(declarations);
        set_up(declarations);
    }
    if (declarations->fault)
        return;
    struct words words = {.rest = text};
    char *kind = next_word(&words);
    bool ok = false;
    for (size_t i = 0; kind && i < G_N_ELEMENTS(kinds); i++)
        if (strcmp(kind, kinds[i].kind) == 0)
            ok = kinds[i].add(declarations, &words, payload);
    g_free(kind);
    if (!ok)
        declarations->fault = g_strdup_printf("the declaration '%s' with payload %" G_GUINT64_FORMAT
                                              " is wrong or out of place",
                                              text, payload);
}

/* Moves the elements out of an array. */
static void *take(GArray **array, uint32_t *count)
{
    *count = (*array)->len;
    g_array_set_clear_func(*array, NULL);
    void *elements = g_array_free(*array, (*array)->len == 0);
    *array = g_array_new(false, false, 1);
    return elements;
}

static struct trace *assemble(struct declarations *declarations)
{
    struct trace *trace = g_steal_pointer(&declarations->trace);
    uint32_t moments;
    trace->tensors = take(&declarations->tensors, &trace->tensor_count);
    trace->operators = take(&declarations->operators, &trace->operator_count);
    trace->accesses = take(&declarations->accesses, &trace->access_count);
    trace->buffers = take(&declarations->buffers, &trace->buffer_count);
    trace->uses = take(&declarations->uses, &trace->use_count);
    trace->non_model_bytes = take(&declarations->moments, &moments);
    if (moments != trace->operator_count)
        g_clear_pointer(&trace->non_model_bytes, g_free);
    return trace;
}

static bool lifetimes_are_in_range(const struct trace *trace)
{
    for (uint32_t i = 0; i < trace->buffer_count; i++)
        if (trace->buffers[i].first > trace->buffers[i].last ||
            trace->buffers[i].last >= trace->operator_count)
            return false;
    return true;
}

void declared_clear(struct declared *declared)
{
    g_clear_pointer(&declared->fused, g_array_unref);
    g_clear_pointer(&declared->unknown, g_free);
}

struct trace *declarations_take(struct declarations *declarations, struct declared *declared,
                                GError **error)
{
    struct trace *trace = NULL;
    *declared = (struct declared){0};
    if (declarations->fault || !declarations->complete) {
        g_set_error_literal(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                            declarations->fault != NULL
                                ? declarations->fault
                                : "its declarations are not complete: 'declared' is missing");
    } else {
        trace = assemble(declarations);
        if (trace->buffer_count > 0 && lifetimes_are_in_range(trace))
            trace_sum_buffers(trace);
        if (!trace_check(trace, "declarations", error) ||
            !fused_weigh(declarations->fused, trace, error))
            g_clear_pointer(&trace, trace_free);
    }
    if (trace) {
        declared->fused = g_array_ref(declarations->fused);
        declared->unknown = g_steal_pointer(&declarations->unknown);
        declared->queued = declarations->queued;
        declared->resident = declarations->resident;
    }
    tear_down(declarations);
    set_up(declarations);
    return trace;
}
