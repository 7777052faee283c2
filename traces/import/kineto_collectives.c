/* Makes operators of the collectives of data-parallel training, in which every rank has everything
 * and all ranks get the sums of all gradients. */
#include "traces/import/kineto.h"

#include <string.h>

static bool is_in_step(const struct kineto_step *step, const struct kineto_collective *collective)
{
    uint32_t last = step->works->len - 1;
    return collective->start_ns >= kineto_work_at(step, 0)->start_ns &&
           collective->start_ns < kineto_work_at(step, last)->end_ns;
}

/* Returns the step's collectives if they are sums among one number of ranks, whose bytes are known;
 * else NULL. */
static GArray *find_sums(const struct kineto *kineto, const struct kineto_step *step)
{
    GArray *sums = g_array_new(FALSE, FALSE, sizeof(struct kineto_collective));
    bool known = true;
    for (guint i = 0; i < kineto->collectives->len; i++) {
        const struct kineto_collective *c = &g_array_index(kineto->collectives,
                                                           struct kineto_collective, i);
        if (!is_in_step(step, c))
            continue;
        g_array_append_val(sums, *c);
        known &= c->sums && c->bytes && c->ranks > 1 &&
                 c->ranks == g_array_index(sums, struct kineto_collective, 0).ranks;
    }
    if (sums->len && known && sums->len == step->collectives)
        return sums;
    g_array_unref(sums);
    return NULL;
}

/* Returns the last operator of forward or backward that had ended on the device when the collective
 * began. */
static moment_id moment_before(const struct kineto_parts *parts,
                               const struct kineto_collective *collective)
{
    moment_id moment = 0;
    for (uint32_t i = 0; i < parts->update; i++)
        if (kineto_work_at(parts->step, i)->end_ns <= collective->start_ns)
            moment = parts->moment[i];
    return moment;
}

/* A rank sends the others their parts, and its own part's sum to all of them. */
static struct trace_operator make_sum(const struct trace_operator *behind, uint32_t number,
                                      const struct kineto_collective *collective)
{
    uint64_t others = collective->bytes / collective->ranks * (collective->ranks - 1);
    struct trace_operator op = {.name = g_strdup_printf("reduce bucket %u", number),
                                .phase = behind->phase,
                                .place = TRACE_ON_DEVICE,
                                .layer = -1,
                                .micro_batch = behind->micro_batch,
                                .first_access = behind->first_access + behind->access_count,
                                .bytes = 2 * collective->bytes,
                                .duration_ns = collective->end_ns - collective->start_ns};
    op.exchange[TRACE_REDUCE] = op.exchange[TRACE_GATHER] = (struct trace_exchange){others, others};
    return op;
}

/* Inserts the sums behind the operators, and moves the buffers with these. */
static void insert(struct kineto_parts *parts, const GArray *sums)
{
    struct trace *trace = parts->trace;
    GArray *operators = g_array_new(FALSE, FALSE, sizeof(struct trace_operator));
    g_autofree moment_id *moved = g_new(moment_id, trace->operator_count);
    for (moment_id m = 0; m < trace->operator_count; m++) {
        moved[m] = operators->len;
        g_array_append_val(operators, trace->operators[m]);
        for (guint i = 0; i < sums->len; i++) {
            const struct kineto_collective *c = &g_array_index(sums, struct kineto_collective, i);
            if (moment_before(parts, c) != m)
                continue;
            const struct trace_operator op = make_sum(&trace->operators[m], i, c);
            g_array_append_val(operators, op);
        }
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

void kineto_add_collectives(struct kineto_parts *parts)
{
    g_autoptr(GArray) sums = parts->update < parts->step->works->len
                                 ? find_sums(parts->kineto, parts->step)
                                 : NULL;
    struct trace *trace = parts->trace;
    if (!sums)
        return;
    insert(parts, sums);
    trace->ranks = g_array_index(sums, struct kineto_collective, 0).ranks;
    trace->micro_batches *= trace->ranks;
    trace->whole_gradients = trace->whole_states = true;
    g_ptr_array_add(
        parts->notes,
        g_strdup_printf("what other ranks do: the trace is of one of %u, which all have "
                        "everything and sum gradients",
                        trace->ranks));
}
