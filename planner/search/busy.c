#include "planner/search/busy.h"

#include "sim/network_times.h"

static uint64_t copy_ns(const struct costs *costs, enum mover_queue queue, uint64_t bytes)
{
    return costs_copy(costs, queue, bytes, 0).alone_ns;
}

/* Returns whether the device needs what the operator wrote before this moment, which counts from
 * the iteration's start. */
static bool is_used_before(const struct accesses *accesses, uint32_t operator_moment,
                           moment_id moment)
{
    for (uint32_t a = accesses->first[operator_moment]; a < accesses->first[operator_moment + 1];
         a++)
        if (accesses_next_need(accesses, a) < moment)
            return true;
    return false;
}

/* Operators of the host after the end of backward, such as updates, begin when backward has ended.
 * They end before the next backward begins if forward uses what they wrote. */
static void count_backward(const struct replay_view *view, struct busy_times *busy)
{
    const struct trace *trace = view->trace;
    uint32_t first = NO_INDEX, last = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        if (op->phase != TRACE_BACKWARD || op->place != TRACE_ON_DEVICE ||
            trace_operator_reduces(op))
            continue;
        first = MIN(first, m);
        last = m;
        busy->backward_ns += op->duration_ns;
    }
    for (uint32_t m = last + 1; first != NO_INDEX && m < trace->operator_count; m++)
        if (trace->operators[m].place == TRACE_ON_HOST &&
            is_used_before(view->accesses, m, trace->operator_count + first))
            busy->backward_ns += trace->operators[m].duration_ns;
}

struct busy_times busy_count(const struct replay_view *view)
{
    const struct trace *trace = view->trace;
    struct busy_times busy = {0};
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        *(op->place == TRACE_ON_HOST   ? &busy.host_ns
          : trace_operator_reduces(op) ? &busy.network_ns
                                       : &busy.device_ns) += op->duration_ns;
        busy.network_ns += costs_exchanges(view->costs, op).alone_ns;
        busy.h2d_ns += copy_ns(view->costs, MOVER_H2D, op->h2d_bytes);
        busy.d2h_ns += copy_ns(view->costs, MOVER_D2H, op->d2h_bytes);
        busy.link_bytes += op->h2d_bytes + op->d2h_bytes;
    }
    count_backward(view, &busy);
    return busy;
}

void busy_add(struct busy_times *busy, const struct costs *costs, enum mover_queue queue,
              uint64_t bytes, uint32_t copies)
{
    *(queue == MOVER_H2D ? &busy->h2d_ns : &busy->d2h_ns) += copies * copy_ns(costs, queue, bytes);
    busy->link_bytes += copies * bytes;
}

double busy_lower_bound(const struct busy_times *busy, enum objective objective)
{
    uint64_t ns = MAX(MAX(busy->device_ns, busy->backward_ns), MAX(busy->h2d_ns, busy->d2h_ns));
    ns = MAX(ns, MAX(busy->host_ns, busy->network_ns));
    return objective_figure(objective, busy->link_bytes, (double)ns * 1e-9);
}

static bool is_used_at(const struct accesses *accesses, moment_id moment, chunk_id chunk)
{
    for (uint32_t a = accesses->first[moment]; a < accesses->first[moment + 1]; a++)
        if (accesses->items[a].chunk == chunk && !(accesses->items[a].flags & ACCESS_ON_HOST))
            return true;
    return false;
}

/* Adds a fetch, which is a gather if `gather_ns` is not 0. Of a gather, what the link carries is
 * left out, because the shards may be on the device. */
static void add_fetch(struct busy_times *busy, const struct costs *costs, uint64_t bytes,
                      uint64_t gather_ns, bool on_demand)
{
    busy->device_ns += !on_demand ? 0 : gather_ns ? gather_ns : copy_ns(costs, MOVER_H2D, bytes);
    if (gather_ns)
        busy->network_ns += gather_ns;
    else
        busy_add(busy, costs, MOVER_H2D, bytes, 1);
}

double busy_policy_lower_bound(const struct replay_view *view, const struct busy_actions *actions,
                               enum objective objective)
{
    struct busy_times busy = busy_count(view);
    struct network_times *network = network_times_new(view->trace, actions->layout, view->costs);
    uint32_t moments = view->trace->operator_count;
    for (uint32_t m = 0; m <= moments; m++)
        for (uint32_t i = actions->first[m]; i < actions->first[m + 1]; i++) {
            const struct plan_action *action = &actions->actions[i];
            const struct chunk *chunk = &actions->layout->chunks[action->chunk];
            if (action->kind == PLAN_FETCH)
                add_fetch(&busy, view->costs, chunk->list == TRACE_GATHERED ? 0 : chunk->copy_bytes,
                          network->gather_ns[action->chunk],
                          !actions->look_ahead && m < moments &&
                              is_used_at(view->accesses, m, action->chunk));
            else if (action->kind == PLAN_WRITE_BACK || action->kind == PLAN_FLUSH)
                busy_add(&busy, view->costs, MOVER_D2H, chunk->copy_bytes, 1);
        }
    network_times_free(network);
    return busy_lower_bound(&busy, objective);
}
