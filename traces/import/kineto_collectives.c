/* Makes operators of the collectives of data-parallel training: of ranks that have everything and
 * get the sums of all gradients, and of ranks that have shards, gather parameters and get the sums
 * of their part of the gradients. */
#include "traces/import/kineto.h"

static bool is_in_step(const struct kineto_step *step, const struct kineto_collective *collective)
{
    uint32_t last = step->works->len - 1;
    return collective->start_ns >= kineto_work_at(step, 0)->start_ns &&
           collective->start_ns < kineto_work_at(step, last)->end_ns;
}

static int by_start(const void *left, const void *right)
{
    const struct kineto_collective *a = left, *b = right;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

/* Returns whether the exchanges are all that the step has, and among one number of ranks. What is
 * gathered is taken for parameters only where gradients are summed in parts, too. */
static bool are_known(const struct kineto_parts *parts, const uint32_t *counts)
{
    bool known = parts->exchanges->len && parts->exchanges->len == parts->step->collectives &&
                 !counts[KINETO_UNKNOWN] && (!counts[KINETO_GATHER] || counts[KINETO_SCATTER]);
    for (guint i = 0; i < parts->exchanges->len; i++)
        known &= kineto_exchange_at(parts, i)->ranks == kineto_exchange_at(parts, 0)->ranks;
    return known;
}

static void note_ranks(const struct kineto_parts *parts)
{
    const struct trace *trace = parts->trace;
    g_ptr_array_add(parts->notes,
                    g_strdup_printf("what other ranks do: the trace is of one of %u, which %s",
                                    trace->ranks,
                                    trace->whole_states ? "all have everything and sum gradients"
                                    : trace->shared_parameters
                                        ? "have shards of everything, gather parameters "
                                          "and sum gradients in parts"
                                        : "have shards of gradients and of the "
                                          "optimizer's states, which they sum in parts"));
}

void kineto_find_exchanges(struct kineto_parts *parts)
{
    const GArray *collectives = parts->kineto->collectives;
    uint32_t counts[KINETO_SCATTER + 1] = {0};
    for (guint i = 0; i < collectives->len && parts->update < parts->step->works->len; i++) {
        const struct kineto_collective *c = &g_array_index(collectives, struct kineto_collective,
                                                           i);
        if (!is_in_step(parts->step, c))
            continue;
        g_array_append_val(parts->exchanges, *c);
        counts[c->exchange]++;
    }
    if (!are_known(parts, counts)) {
        g_array_set_size(parts->exchanges, 0);
        return;
    }
    g_array_sort(parts->exchanges, by_start);
    parts->trace->ranks = kineto_exchange_at(parts, 0)->ranks;
    parts->trace->shared_parameters = counts[KINETO_GATHER] > 0;
    parts->trace->whole_gradients = parts->trace->whole_states = !counts[KINETO_SCATTER];
    note_ranks(parts);
}

/* Returns how many operators of forward and backward had ended on the device when the exchange
 * began. */
static moment_id ended_before(const struct kineto_parts *parts,
                              const struct kineto_collective *collective)
{
    moment_id ended = 0;
    for (uint32_t i = 0; i < parts->update; i++)
        if (kineto_work_at(parts->step, i)->end_ns <= collective->start_ns)
            ended = parts->moment[i] + 1;
    return ended;
}

/* Returns the time of the kernel, or, of a gather, for which the operators wait, the time in which
 * the device did nothing else. */
static uint64_t time_of(const struct kineto_parts *parts,
                        const struct kineto_collective *collective)
{
    uint64_t start_ns = collective->start_ns, end_ns = collective->end_ns;
    return collective->exchange == KINETO_GATHER
               ? MAX(1, kineto_step_alone_ns(parts->step, start_ns, end_ns))
               : end_ns - start_ns;
}

/* A rank sends the others its part, or their parts, and in a sum both. `beside` is the operator
 * next to which it runs. */
static struct trace_operator make_exchange(const struct kineto_parts *parts,
                                           const struct trace_operator *beside, uint32_t access,
                                           uint32_t number,
                                           const struct kineto_collective *collective)
{
    static const char *const names[] = {[KINETO_SUM] = "reduce bucket",
                                        [KINETO_GATHER] = "gather shards",
                                        [KINETO_SCATTER] = "reduce shards"};
    uint64_t part = collective->bytes / collective->ranks, others = collective->bytes - part;
    struct trace_operator op = {
        .name = g_strdup_printf("%s %u", names[collective->exchange], number),
        .phase = beside->phase,
        .place = TRACE_ON_DEVICE,
        .layer = -1,
        .micro_batch = beside->micro_batch,
        .first_access = access,
        .bytes = collective->bytes +
                 (collective->exchange == KINETO_SUM ? collective->bytes : part),
        .duration_ns = time_of(parts, collective)};
    if (collective->exchange != KINETO_GATHER)
        op.exchange[TRACE_REDUCE] = (struct trace_exchange){others, others};
    if (collective->exchange != KINETO_SCATTER)
        op.exchange[TRACE_GATHER] = (struct trace_exchange){others, others};
    return op;
}

/* Appends the exchanges from `next` on that began when no more than `ended` operators had ended.
 * Returns the next exchange. */
static guint append_exchanges(const struct kineto_parts *parts, guint next, moment_id ended,
                              GArray *operators)
{
    const struct trace_operator *beside = &parts->trace->operators[ended ? ended - 1 : 0];
    uint32_t access = ended ? beside->first_access + beside->access_count : 0;
    while (next < parts->exchanges->len &&
           ended_before(parts, kineto_exchange_at(parts, next)) <= ended) {
        const struct trace_operator op = make_exchange(parts, beside, access, next,
                                                       kineto_exchange_at(parts, next));
        g_array_append_val(operators, op);
        next++;
    }
    return next;
}

void kineto_add_exchanges(struct kineto_parts *parts)
{
    struct trace *trace = parts->trace;
    if (!parts->exchanges->len)
        return;
    GArray *operators = g_array_new(FALSE, FALSE, sizeof(struct trace_operator));
    g_autofree moment_id *moved = g_new(moment_id, trace->operator_count);
    guint next = append_exchanges(parts, 0, 0, operators);
    for (moment_id m = 0; m < trace->operator_count; m++) {
        moved[m] = operators->len;
        g_array_append_val(operators, trace->operators[m]);
        next = append_exchanges(parts, next, m + 1, operators);
    }
    for (uint32_t i = 0; i < trace->buffer_count; i++) {
        trace->buffers[i].first = moved[trace->buffers[i].first];
        trace->buffers[i].last = moved[trace->buffers[i].last];
    }
    g_free(trace->operators);
    trace->operator_count = operators->len;
    trace->operators = (struct trace_operator *)(void *)g_array_free(operators, FALSE);
    trace_sum_buffers(trace);
}
