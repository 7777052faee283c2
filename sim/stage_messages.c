#include "sim/stage_messages.h"

#include <stdio.h>
#include <string.h>

static bool refuse(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);

static bool refuse(GError **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *why = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error_literal(error, TRACE_ERROR, TRACE_ERROR_INVALID, why);
    return false;
}

/* ---- reading operators ---- */

/* Takes a name apart: "send activation to stage 1", "receive activation from stage 0". Returns what
 * is passed, which the caller frees, or NULL. */
static char *parse_name(const char *name, bool sends, uint32_t *peer)
{
    const char *verb = sends ? "send " : "receive ", *way = sends ? " to stage " : " from stage ";
    const char *end = g_strrstr(name, way);
    guint64 number;
    if (!g_str_has_prefix(name, verb) || !end || end < name + strlen(verb) ||
        !g_ascii_string_to_unsigned(end + strlen(way), 10, 0, UINT32_MAX, &number, NULL))
        return NULL;
    *peer = (uint32_t)number;
    return g_strndup(name + strlen(verb), (gsize)(end - name) - strlen(verb));
}

/* Returns the number of the queue, which is new if there was none of this name. */
static uint32_t queue_of(GHashTable *queues, uint32_t from, uint32_t to, const char *what)
{
    char *key = g_strdup_printf("%u %u %s", from, to, what);
    gpointer found;
    if (g_hash_table_lookup_extended(queues, key, NULL, &found)) {
        g_free(key);
        return GPOINTER_TO_UINT(found);
    }
    uint32_t queue = g_hash_table_size(queues);
    g_hash_table_insert(queues, key, GUINT_TO_POINTER(queue));
    return queue;
}

static bool find_message(const struct trace *trace, moment_id moment, GHashTable *queues,
                         struct stage_message *message, GError **error)
{
    const struct trace_operator *op = &trace->operators[moment];
    const struct trace_exchange passed = op->exchange[TRACE_PASS];
    bool sends = passed.sent_bytes > 0;
    uint32_t peer = 0;
    message->queue = NO_INDEX;
    if (!sends && !passed.received_bytes)
        return true;
    g_autofree char *what = parse_name(op->name, sends, &peer);
    if (!what || peer >= trace->stages || peer == trace->stage ||
        (sends && passed.received_bytes) || op->place != TRACE_ON_DEVICE)
        return refuse(error,
                      "stage %u: operator '%s' passes something, but it is not known to which "
                      "stage",
                      trace->stage, op->name);
    *message = (struct stage_message){.from = sends ? trace->stage : peer,
                                      .to = sends ? peer : trace->stage,
                                      .sends = sends,
                                      .micro_batch = op->micro_batch,
                                      .bytes = MAX(passed.sent_bytes, passed.received_bytes)};
    message->queue = queue_of(queues, message->from, message->to, what);
    return true;
}

static moment_id first_update(const struct trace *trace)
{
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (trace->operators[m].phase == TRACE_UPDATE_PHASE)
            return m;
    return NO_INDEX;
}

/* The messages of a queue in a step: as they are received, and as they are sent. */
struct queue_ends {
    const struct stage_message *first[2], *last[2];
    uint32_t count[2];
};

/* Returns the ends of all queues. The caller frees them with g_free. */
static struct queue_ends *find_ends(const struct trace *const *traces,
                                    const struct stage_messages *messages)
{
    struct queue_ends *ends = g_new0(struct queue_ends, messages->queues);
    for (uint32_t s = 0; s < messages->stages; s++)
        for (uint32_t m = 0; m < traces[s]->operator_count; m++) {
            const struct stage_message *message = &messages->of[s][m];
            if (message->queue == NO_INDEX)
                continue;
            struct queue_ends *of = &ends[message->queue];
            if (of->count[message->sends]++ == 0)
                of->first[message->sends] = message;
            of->last[message->sends] = message;
        }
    return ends;
}

/* Where a step begins with sending a later micro-batch than it receives, those between are under
 * way, unless some are missing. */
static void find_under_way(const struct trace *const *traces, struct stage_messages *messages)
{
    g_autofree struct queue_ends *ends = find_ends(traces, messages);
    messages->under_way = g_new0(uint32_t, messages->queues);
    for (uint32_t q = 0; q < messages->queues; q++) {
        const struct stage_message *received = ends[q].first[false], *sent = ends[q].first[true];
        if (ends[q].count[false] == ends[q].count[true] &&
            sent->micro_batch > received->micro_batch)
            messages->under_way[q] = MIN(sent->micro_batch - received->micro_batch,
                                         ends[q].count[true]);
    }
}

static bool find_messages(const struct trace *const *traces, struct stage_messages *messages,
                          GError **error)
{
    g_autoptr(GHashTable) queues = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    uint64_t tensors = 0;
    for (uint32_t s = 0; s < messages->stages; s++) {
        const struct trace *trace = traces[s];
        messages->of[s] = g_new0(struct stage_message, trace->operator_count);
        messages->meeting[s] = first_update(trace);
        tensors += trace->tensor_count;
        for (uint32_t m = 0; m < trace->operator_count; m++)
            if (!find_message(trace, m, queues, &messages->of[s][m], error))
                return false;
    }
    messages->queues = g_hash_table_size(queues);
    find_under_way(traces, messages);
    messages->shown_bytes = (traces[0]->micro_batches + 1 + tensors) * sizeof(double);
    return true;
}

/* ---- do they belong together ---- */

static bool is_alike(const struct trace *a, const struct trace *b)
{
    return a->batch == b->batch && a->sequence == b->sequence &&
           a->micro_batches == b->micro_batches && MAX(a->ranks, 1) == MAX(b->ranks, 1) &&
           a->shared_parameters == b->shared_parameters && !g_strcmp0(a->model, b->model) &&
           !g_strcmp0(a->precision, b->precision);
}

static bool check_stages(const struct trace *const *traces, uint32_t stages, GError **error)
{
    for (uint32_t s = 0; s < stages; s++) {
        if (traces[s]->stages <= 1)
            return refuse(error, "a trace is of a whole model: of several traces, each must be of "
                                 "a stage of one pipeline");
        if (traces[s]->stages != stages)
            return refuse(error, "a trace of each stage is needed: of %u, and there are %u",
                          traces[s]->stages, stages);
        if (traces[s]->stage != s)
            return refuse(error, "there is no trace of stage %u", s);
        if (!is_alike(traces[s], traces[0]))
            return refuse(error,
                          "the traces of stages 0 and %u are not of one run: model, precision, "
                          "batch, sequence, micro-batches and ranks must be alike",
                          s);
    }
    return true;
}

/* The stages while they run without a clock. */
struct dry_stages {
    const struct trace *const *traces;
    const struct stage_messages *messages;
    GQueue *sent; /* [queues] of struct stage_message: those under way */
    uint32_t *at; /* [stages] moment */
};

/* Takes the next message of the queue of the stage's operator. Returns false if it is not the one
 * that is expected; *waits is set if there is none. */
static bool take(const struct dry_stages *dry, uint32_t s, bool *waits, GError **error)
{
    const struct stage_message *expected = &dry->messages->of[s][dry->at[s]];
    g_autofree struct stage_message *message = g_queue_pop_head(&dry->sent[expected->queue]);
    const char *name = dry->traces[s]->operators[dry->at[s]].name;
    *waits = !message;
    if (!message)
        return true;
    if (message->bytes != expected->bytes)
        return refuse(error,
                      "stage %u: '%s' has %" G_GUINT64_FORMAT
                      " bytes, but stage %u sends %" G_GUINT64_FORMAT,
                      s, name, expected->bytes, expected->from, message->bytes);
    return message->micro_batch == expected->micro_batch ||
           refuse(error, "stage %u: '%s' is of micro-batch %u, but stage %u sends that of %u", s,
                  name, expected->micro_batch, expected->from, message->micro_batch);
}

/* Runs a stage until it waits, or to its end. Returns false if a message is not the one that is
 * expected. */
static bool run_on(struct dry_stages *dry, uint32_t s, GError **error)
{
    for (; dry->at[s] < dry->traces[s]->operator_count; dry->at[s]++) {
        const struct stage_message *message = &dry->messages->of[s][dry->at[s]];
        bool waits = false;
        if (message->queue == NO_INDEX)
            continue;
        if (message->sends)
            g_queue_push_tail(&dry->sent[message->queue], g_memdup2(message, sizeof *message));
        else if (!take(dry, s, &waits, error))
            return false;
        if (waits)
            return true;
    }
    return true;
}

/* Sends what the step before has left under way, which was like what this one leaves. */
static void send_before(struct dry_stages *dry)
{
    g_autofree struct queue_ends *ends = find_ends(dry->traces, dry->messages);
    for (uint32_t q = 0; q < dry->messages->queues; q++)
        for (uint32_t i = 0; i < dry->messages->under_way[q]; i++) {
            struct stage_message *message = g_memdup2(ends[q].last[true], sizeof *message);
            message->micro_batch = ends[q].first[false]->micro_batch + i;
            g_queue_push_tail(&dry->sent[q], message);
        }
}

static bool check_ends(const struct dry_stages *dry, GError **error)
{
    for (uint32_t s = 0; s < dry->messages->stages; s++)
        if (dry->at[s] < dry->traces[s]->operator_count) {
            const struct trace_operator *op = &dry->traces[s]->operators[dry->at[s]];
            return refuse(error,
                          "stage %u waits for ever: nothing comes for '%s' of micro-batch %u", s,
                          op->name, op->micro_batch);
        }
    for (uint32_t q = 0; q < dry->messages->queues; q++)
        if (g_queue_get_length(&dry->sent[q]) != dry->messages->under_way[q])
            return refuse(error, "a stage sends what no stage receives");
    return true;
}

static uint64_t sum_of(const struct dry_stages *dry)
{
    uint64_t sum = 0;
    for (uint32_t s = 0; s < dry->messages->stages; s++)
        sum += dry->at[s];
    return sum;
}

static bool check_order(const struct trace *const *traces, const struct stage_messages *messages,
                        GError **error)
{
    struct dry_stages dry = {.traces = traces,
                             .messages = messages,
                             .sent = g_new0(GQueue, messages->queues),
                             .at = g_new0(uint32_t, messages->stages)};
    bool ok = true;
    send_before(&dry);
    for (uint64_t before = UINT64_MAX; ok && sum_of(&dry) != before;) {
        before = sum_of(&dry);
        for (uint32_t s = 0; ok && s < messages->stages; s++)
            ok = run_on(&dry, s, error);
    }
    ok = ok && check_ends(&dry, error);
    for (uint32_t q = 0; q < messages->queues; q++)
        g_queue_clear_full(&dry.sent[q], g_free);
    g_free(dry.sent);
    g_free(dry.at);
    return ok;
}

struct stage_messages *stage_messages_new(const struct trace *const *traces, uint32_t stages,
                                          GError **error)
{
    if (!check_stages(traces, stages, error))
        return NULL;
    struct stage_messages *messages = g_new0(struct stage_messages, 1);
    messages->stages = stages;
    messages->of = g_new0(struct stage_message *, stages);
    messages->meeting = g_new0(moment_id, stages);
    if (find_messages(traces, messages, error) && check_order(traces, messages, error))
        return messages;
    stage_messages_free(messages);
    return NULL;
}

void stage_messages_free(struct stage_messages *messages)
{
    if (!messages)
        return;
    for (uint32_t s = 0; s < messages->stages; s++)
        g_free(messages->of[s]);
    g_free(messages->of);
    g_free(messages->meeting);
    g_free(messages->under_way);
    g_free(messages);
}
