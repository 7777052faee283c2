#include "traces/trace.h"

#include <math.h>
#include <string.h>

/* With these limits no sum overflows 64 bits or SQLite's signed integers. A step takes at most 208
 * days, because the planner and the clock add the times of many steps. */
#define MOST_BYTES (UINT64_C(1) << 60)
#define MOST_NS    (UINT64_C(1) << 54)
#define MOST_RANKS (UINT32_C(1) << 20)

struct checker {
    const struct trace *trace;
    const char *origin;
    GError **error;
};

G_GNUC_PRINTF(2, 3)
static bool refuse(const struct checker *checker, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *reason = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(checker->error, TRACE_ERROR, TRACE_ERROR_INVALID, "%s: %s", checker->origin,
                reason);
    g_free(reason);
    return false;
}

static bool is_name(const char *text)
{
    return text && text[0] != '\0' && g_utf8_validate(text, -1, NULL);
}

static bool check_texts(const struct checker *checker)
{
    const struct trace *trace = checker->trace;
    const struct {
        const char *key, *text;
    } texts[] = {{"producer", trace->producer},
                 {"model", trace->model},
                 {"precision", trace->precision},
                 {"machine", trace->machine}};
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        if (texts[i].text && !g_utf8_validate(texts[i].text, -1, NULL))
            return refuse(checker, "meta: %s is not UTF-8", texts[i].key);
    return true;
}

static bool check_meta(const struct checker *checker)
{
    const struct trace *trace = checker->trace;
    if (trace->batch == 0 || trace->sequence == 0 || trace->micro_batches == 0)
        return refuse(checker,
                      "meta: batch %" G_GUINT32_FORMAT ", sequence %" G_GUINT32_FORMAT
                      " and micro_batches %" G_GUINT32_FORMAT " must be at least 1",
                      trace->batch, trace->sequence, trace->micro_batches);
    if (trace->ranks > MOST_RANKS || trace->micro_batches % MAX(1, trace->ranks) != 0)
        return refuse(checker,
                      "meta: ranks are %" G_GUINT32_FORMAT
                      "; they must be at most %" G_GUINT32_FORMAT
                      " and divide the %" G_GUINT32_FORMAT " micro_batches",
                      trace->ranks, MOST_RANKS, trace->micro_batches);
    if (trace->stages > MOST_RANKS || (trace->stage > 0 && trace->stage >= trace->stages))
        return refuse(checker,
                      "meta: stage %" G_GUINT32_FORMAT " of %" G_GUINT32_FORMAT
                      " stages; they must be at most %" G_GUINT32_FORMAT,
                      trace->stage, trace->stages, MOST_RANKS);
    if (trace->shared_parameters && trace->ranks <= 1)
        return refuse(checker, "meta: shared_parameters need several ranks");
    if (trace->whole_gradients && (trace->ranks <= 1 || trace->shared_parameters))
        return refuse(checker, "meta: whole_gradients need several ranks with whole parameters");
    if (trace->whole_states && !trace->whole_gradients)
        return refuse(checker, "meta: ranks with all optimizer states have all gradients, too");
    if (trace->library_bytes > MOST_BYTES)
        return refuse(checker, "meta: library_bytes is too large");
    for (int list = 0; list < TRACE_LISTS; list++)
        if (trace->list_element_bytes[list] > 8)
            return refuse(checker, "meta: an element of list %s has %d bytes, more than 8",
                          trace_list_name(list), trace->list_element_bytes[list]);
    if (trace->list_element_bytes[TRACE_GATHERED] &&
        !(trace->ranks > 1 && trace->shared_parameters))
        return refuse(checker, "meta: only ranks that share parameters have a gathered list");
    if (trace->operator_count == 0)
        return refuse(checker, "operators: the table is empty");
    return true;
}

static bool check_tensors(const struct checker *checker)
{
    const struct trace *trace = checker->trace;
    uint64_t element_bytes = 0, bytes = 0;
    for (int list = 0; list < TRACE_LISTS; list++)
        element_bytes += trace->list_element_bytes[list];
    GHashTable *names = g_hash_table_new(g_str_hash, g_str_equal);
    bool ok = true;
    for (uint32_t i = 0; ok && i < trace->tensor_count; i++) {
        const struct trace_tensor *tensor = &trace->tensors[i];
        if (!is_name(tensor->name))
            ok = refuse(checker,
                        "tensors: row %" G_GUINT32_FORMAT ": its name is missing or not UTF-8", i);
        else if (!g_hash_table_add(names, tensor->name))
            ok = refuse(checker, "tensors: row %" G_GUINT32_FORMAT ": the name '%s' appears twice",
                        i, tensor->name);
        else if (tensor->elements == 0)
            ok = refuse(checker, "tensors: row %" G_GUINT32_FORMAT ": '%s' has no elements", i,
                        tensor->name);
        else if (!trace_has(trace, TRACE_PARAM, i) && trace->list_element_bytes[TRACE_PARAM])
            ok = refuse(checker, "tensors: row %" G_GUINT32_FORMAT ": '%s' is no parameter", i,
                        tensor->name);
        else if (tensor->elements > MOST_BYTES / 64 ||
                 (bytes += tensor->elements * element_bytes) > MOST_BYTES)
            ok = refuse(checker, "tensors: row %" G_GUINT32_FORMAT ": '%s' is too large", i,
                        tensor->name);
    }
    g_hash_table_unref(names);
    return ok;
}

static bool check_blocks(const struct checker *checker)
{
    const struct trace *trace = checker->trace;
    bool cut = trace->state_block == 0;
    if (trace->state_block % TRACE_BLOCK_STEP != 0 || trace->state_block > MOST_BYTES / 64)
        return refuse(checker,
                      "meta: state_block is %" G_GUINT64_FORMAT
                      " elements; it must be a multiple of %d",
                      trace->state_block, TRACE_BLOCK_STEP);
    if (trace->state_block > 0 && trace->ranks > 1)
        return refuse(checker, "meta: several ranks have no state blocks");
    for (uint32_t t = 0; t < trace->tensor_count; t++) {
        cut = cut || trace_is_cut(trace, t);
        if (trace->state_block &&
            trace->tensors[t].elements / trace->state_block >= TRACE_MOST_BLOCKS)
            return refuse(checker, "meta: state_block cuts '%s' into more than %d blocks",
                          trace->tensors[t].name, TRACE_MOST_BLOCKS);
    }
    return cut || refuse(checker, "meta: state_block cuts no tensor");
}

uint64_t trace_duration_ns(double seconds, uint32_t operator_count)
{
    const uint64_t most = MOST_NS / operator_count;
    return seconds > 0 ? (uint64_t)CLAMP(round(seconds * 1e9), 1, (double)most) : 0;
}

static const char *fault_of_exchanges(const struct trace *trace, const struct trace_operator *op)
{
    const struct trace_exchange *exchange = op->exchange;
    for (int c = 0; c < TRACE_COLLECTIVES; c++) {
        if (exchange[c].sent_bytes > MOST_BYTES / trace->operator_count ||
            exchange[c].received_bytes > MOST_BYTES / trace->operator_count)
            return "it exchanges too many bytes";
        bool exchanges = exchange[c].sent_bytes || exchange[c].received_bytes;
        if (exchanges && trace->ranks <= 1 && trace->stages <= 1)
            return "it exchanges bytes with other ranks, but there is one";
        if (exchanges && c == TRACE_PASS && trace->stages <= 1)
            return "it passes bytes to another stage, but there is one";
    }
    return NULL;
}

static bool check_operator(const struct checker *checker, moment_id moment, uint32_t first_access)
{
    const struct trace *trace = checker->trace;
    const struct trace_operator *op = &trace->operators[moment];
    const char *fault = fault_of_exchanges(trace, op);
    if (fault)
        ;
    else if (!is_name(op->name))
        fault = "its name is missing or not UTF-8";
    else if (op->phase > TRACE_UPDATE_PHASE)
        fault = "its phase is unknown";
    else if (op->place > TRACE_ON_HOST)
        fault = "its place is unknown";
    else if (op->layer < -1 || op->layer > TRACE_LAST_LAYER)
        fault = "its layer is below -1 or above 999999";
    else if (op->micro_batch >= trace->micro_batches)
        fault = "its micro-batch does not exist";
    else if (op->first_access != first_access ||
             op->access_count > trace->access_count - first_access)
        fault = "its accesses do not follow those of the operator before it";
    else if (op->flops > INT64_MAX || op->bytes > INT64_MAX)
        fault = "its flops or bytes are too large";
    else if (op->duration_ns > MOST_NS / trace->operator_count)
        fault = "its duration is too long";
    else if (op->h2d_bytes > MOST_BYTES || op->d2h_bytes > MOST_BYTES)
        fault = "its h2d_bytes or d2h_bytes are too large";
    else if (op->place == TRACE_ON_DEVICE && (op->h2d_bytes > 0 || op->d2h_bytes > 0))
        fault = "it runs on the device, but its activations cross the link";
    if (fault)
        return refuse(checker, "operators: row %" G_GUINT32_FORMAT " (%s): %s", moment,
                      is_name(op->name) ? op->name : "", fault);
    return true;
}

static bool check_operators(const struct checker *checker)
{
    const struct trace *trace = checker->trace;
    uint32_t first_access = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        if (!check_operator(checker, m, first_access))
            return false;
        first_access += trace->operators[m].access_count;
    }
    if (first_access != trace->access_count)
        return refuse(checker, "accesses: row %" G_GUINT32_FORMAT ": belongs to no operator",
                      first_access);
    return true;
}

/* Checks an access of a buffer that a chunk holds. Returns NULL or the fault. */
static const char *fault_of_held(const struct trace *trace, uint32_t moment,
                                 const struct trace_access *access)
{
    const struct trace_buffer *buffer = &trace->buffers[access->tensor];
    if (trace->operators[moment].place != TRACE_ON_DEVICE)
        return "an operator on the host accesses an activation";
    if (moment < buffer->first || moment > buffer->last)
        return "it accesses a buffer that is not alive";
    if ((access->mode == TRACE_OVERWRITE) != (moment == buffer->first))
        return "a buffer must be overwritten by its first operator and by no other";
    return NULL;
}

static bool ends_copy(const struct trace_access *access)
{
    return access->list == TRACE_GATHERED && access->mode == TRACE_UPDATE;
}

static const char *fault_of_gathered(const struct trace *trace, uint32_t moment,
                                     const struct trace_access *access)
{
    const struct trace_operator *op = &trace->operators[moment];
    bool is_first = access == &trace->accesses[op->first_access];
    if (access->list != TRACE_GATHERED)
        return !is_first && ends_copy(access - 1) ? "an update of gathered tensors must come last"
                                                  : NULL;
    if (access->mode == TRACE_OVERWRITE)
        return "gathered tensors are read, or updated with the parameter";
    return access->mode == TRACE_READ && op->place == TRACE_ON_HOST
               ? "gathered tensors are on the device"
               : NULL;
}

static const char *fault_of_access(const struct trace *trace, uint32_t moment,
                                   const struct trace_access *access)
{
    bool held = access->list == TRACE_ACTIVATION;
    if (access->list >= TRACE_ACCESS_LISTS)
        return "its list is unknown";
    if (access->tensor >= (held ? trace->buffer_count : trace->tensor_count))
        return held ? "its buffer does not exist" : "its tensor does not exist";
    if (access->mode > TRACE_OVERWRITE)
        return "its mode is unknown";
    if (held)
        return access->block ? "an activation has no blocks" : fault_of_held(trace, moment, access);
    if (!trace->list_element_bytes[access->list])
        return "this trace does not have its list";
    if (!trace_has(trace, access->list, access->tensor))
        return "its list lacks the tensor";
    if (access->block >= trace_blocks(trace, access->list, access->tensor))
        return "its block does not exist";
    return fault_of_gathered(trace, moment, access);
}

/* seen[tensor * TRACE_LISTS + list] is 1 + the last operator that accessed it. Buffers follow the
 * tensors. */
static bool check_access(const struct checker *checker, moment_id moment, uint32_t row,
                         uint32_t *seen)
{
    const struct trace *trace = checker->trace;
    const struct trace_access *access = &trace->accesses[row];
    const char *fault = fault_of_access(trace, moment, access);
    if (!fault) {
        uint32_t *last = access->list == TRACE_ACTIVATION
                             ? &seen[(size_t)trace->tensor_count * TRACE_LISTS + access->tensor]
                             : &seen[(size_t)access->tensor * TRACE_LISTS + access->list];
        if (*last == moment + 1)
            fault = "the operator accesses the same list of this tensor a second time";
        *last = moment + 1;
    }
    if (fault)
        return refuse(checker, "accesses: row %" G_GUINT32_FORMAT " (%s): %s", row,
                      trace->operators[moment].name, fault);
    return true;
}

/* A held buffer must be accessed in its first and its last moment. */
static bool check_ends(const struct checker *checker, const uint32_t *first, const uint32_t *last)
{
    const struct trace *trace = checker->trace;
    for (uint32_t b = 0; b < trace->buffer_count; b++)
        if (last[b] &&
            (first[b] != trace->buffers[b].first + 1 || last[b] != trace->buffers[b].last + 1))
            return refuse(checker,
                          "buffers: row %" G_GUINT32_FORMAT
                          " (%s): operators do not access it from its first moment to its last",
                          b, trace->buffers[b].name);
    return true;
}

static bool check_held(const struct checker *checker)
{
    const struct trace *trace = checker->trace;
    uint32_t *first = g_new0(uint32_t, (size_t)trace->buffer_count + 1);
    uint32_t *last = g_new0(uint32_t, (size_t)trace->buffer_count + 1);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        for (uint32_t i = 0; i < op->access_count; i++) {
            const struct trace_access *access = &trace->accesses[op->first_access + i];
            if (access->list != TRACE_ACTIVATION)
                continue;
            last[access->tensor] = m + 1;
            if (!first[access->tensor])
                first[access->tensor] = m + 1;
        }
    }
    bool ok = check_ends(checker, first, last);
    g_free(first);
    g_free(last);
    return ok;
}

static bool check_accesses(const struct checker *checker)
{
    const struct trace *trace = checker->trace;
    uint32_t *seen = g_new0(uint32_t,
                            (size_t)trace->tensor_count * TRACE_LISTS + trace->buffer_count + 1);
    bool ok = true;
    for (uint32_t m = 0; ok && m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        for (uint32_t i = 0; ok && i < op->access_count; i++)
            ok = check_access(checker, m, op->first_access + i, seen);
    }
    g_free(seen);
    return ok;
}

static bool check_buffers(const struct checker *checker)
{
    const struct trace *trace = checker->trace;
    uint64_t total = 0;
    for (uint32_t i = 0; i < trace->buffer_count; i++) {
        const struct trace_buffer *buffer = &trace->buffers[i];
        const char *fault = NULL;
        if (!is_name(buffer->name))
            fault = "its name is missing or not UTF-8";
        else if (buffer->bytes == 0)
            fault = "it has no bytes";
        else if (buffer->bytes > MOST_BYTES || (total += buffer->bytes) > MOST_BYTES)
            fault = "it is too large";
        else if (buffer->first > buffer->last)
            fault = "it ends before it begins";
        else if (buffer->last >= trace->operator_count)
            fault = "it lives beyond the last moment";
        else if (buffer->recompute_flops > INT64_MAX)
            fault = "its recompute_flops are too large";
        if (fault)
            return refuse(checker, "buffers: row %" G_GUINT32_FORMAT " (%s): %s", i,
                          is_name(buffer->name) ? buffer->name : "", fault);
    }
    return true;
}

/* What earlier rows say of a buffer's uses. */
struct known_uses {
    bool saved, restored;
};

static const char *fault_of_kind(const struct trace_use *use, const struct trace_operator *op,
                                 const struct known_uses *known)
{
    bool on_device = op->place == TRACE_ON_DEVICE;
    if (use->kind == TRACE_SAVES && (known->saved || op->phase != TRACE_FORWARD || !on_device))
        return "a buffer is saved once, by an operator of forward on the device";
    if (use->kind == TRACE_RESTORES && (!known->saved || op->phase != TRACE_BACKWARD || !on_device))
        return "what is restored was saved, and an operator of backward on the device gets it";
    if (use->kind == TRACE_USES && op->phase != TRACE_FORWARD && !known->restored)
        return "backward uses what was not restored";
    return op->phase == TRACE_UPDATE_PHASE ? "an update uses no activation that may leave" : NULL;
}

static const char *fault_of_use(const struct trace *trace, uint32_t row,
                                const struct known_uses *known)
{
    const struct trace_use *use = &trace->uses[row];
    if (use->buffer >= trace->buffer_count)
        return "its buffer does not exist";
    if (use->moment >= trace->operator_count)
        return "its operator does not exist";
    if (use->kind > TRACE_RESTORES)
        return "its kind is unknown";
    if (row && (use->buffer < use[-1].buffer ||
                (use->buffer == use[-1].buffer && use->moment <= use[-1].moment)))
        return "it is not in the order of the buffers and their moments";
    if (use->moment < trace->buffers[use->buffer].first)
        return "its buffer is not alive";
    return fault_of_kind(use, &trace->operators[use->moment], known);
}

static bool check_uses(const struct checker *checker)
{
    const struct trace *trace = checker->trace;
    struct known_uses known = {false, false};
    for (uint32_t i = 0; i < trace->use_count; i++) {
        const struct trace_use *use = &trace->uses[i];
        if (i && use->buffer != use[-1].buffer)
            known = (struct known_uses){false, false};
        const char *fault = fault_of_use(trace, i, &known);
        if (fault)
            return refuse(checker, "uses: row %" G_GUINT32_FORMAT ": %s", i, fault);
        known.saved |= use->kind == TRACE_SAVES;
        known.restored |= use->kind == TRACE_RESTORES;
    }
    return true;
}

static bool check_sums(const struct checker *checker)
{
    const struct trace *trace = checker->trace;
    if (!trace->non_model_bytes)
        return refuse(checker, "moments: the table is empty");
    struct trace sums = {
        .operator_count = trace->operator_count,
        .access_count = trace->access_count,
        .accesses = trace->accesses,
        .buffer_count = trace->buffer_count,
        .buffers = trace->buffers,
    };
    trace_sum_buffers(&sums);
    bool ok = true;
    for (uint32_t m = 0; ok && m < trace->operator_count; m++) {
        if (trace->non_model_bytes[m] > MOST_BYTES)
            ok = refuse(checker, "moments: row %" G_GUINT32_FORMAT ": too many bytes", m);
        else if (trace->buffer_count > 0 && trace->non_model_bytes[m] != sums.non_model_bytes[m])
            ok = refuse(checker,
                        "moments: row %" G_GUINT32_FORMAT ": %" G_GUINT64_FORMAT
                        " bytes, but the buffers alive then have %" G_GUINT64_FORMAT,
                        m, trace->non_model_bytes[m], sums.non_model_bytes[m]);
    }
    g_free(sums.non_model_bytes);
    return ok;
}

bool trace_check(const struct trace *trace, const char *origin, GError **error)
{
    struct checker checker = {.trace = trace, .origin = origin, .error = error};
    return check_meta(&checker) && check_texts(&checker) && check_tensors(&checker) &&
           check_blocks(&checker) && check_operators(&checker) && check_buffers(&checker) &&
           check_uses(&checker) && check_accesses(&checker) && check_held(&checker) &&
           check_sums(&checker);
}
