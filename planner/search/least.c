#include "planner/search/least.h"

/* What the operators of an iteration take. */
struct busy_times {
    uint64_t device_ns, host_ns, h2d_ns, d2h_ns;
    uint64_t backward_ns; /* on the device, and on the host between two backwards */
    uint64_t link_bytes;  /* activations of host operators */
};

static uint64_t copy_ns(const struct costs *costs, enum mover_queue queue, uint64_t bytes)
{
    return costs_copy(costs, queue, bytes, 0).alone_ns;
}

/* The device uses what the operator wrote before this moment, counted from the iteration's start.
 */
static bool is_used_before(const struct accesses *accesses, uint32_t operator_moment,
                           uint32_t moment)
{
    for (uint32_t a = accesses->first[operator_moment]; a < accesses->first[operator_moment + 1];
         a++)
        if (accesses->items[a].flags & ACCESS_WRITES && accesses->next_device_use[a] < moment)
            return true;
    return false;
}

/* The work in order: operators on the host after the last of backward, as updates are, begin when
 * that has ended, and are over before the next one begins if forward uses what they wrote. */
static void count_backward(const struct replay_view *view, struct busy_times *busy)
{
    const struct trace *trace = view->trace;
    uint32_t first = NO_INDEX, last = 0;

    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        if (op->phase != TRACE_BACKWARD || op->place != TRACE_ON_DEVICE)
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

static struct busy_times count_busy(const struct replay_view *view)
{
    const struct trace *trace = view->trace;
    struct busy_times busy = {0};

    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        *(op->place == TRACE_ON_HOST ? &busy.host_ns : &busy.device_ns) += op->duration_ns;
        busy.h2d_ns += copy_ns(view->costs, MOVER_H2D, op->h2d_bytes);
        busy.d2h_ns += copy_ns(view->costs, MOVER_D2H, op->d2h_bytes);
        busy.link_bytes += op->h2d_bytes + op->d2h_bytes;
    }
    count_backward(view, &busy);
    return busy;
}

double candidate_lower_bound(const struct candidate *candidate, enum objective objective)
{
    const struct costs *costs = candidate->job->costs;
    const struct replay_view view = {candidate->trace, candidate->accesses, costs};
    const struct reuses *reuses = candidate->reuses;
    struct busy_times busy = count_busy(&view);

    for (uint32_t c = 0; c < reuses->chunk_count; c++) {
        struct reuse_copies copies = reuses_chunk_copies(reuses, c, candidate->retention->retained);
        busy.h2d_ns += copies.fetches * copy_ns(costs, MOVER_H2D, reuses->copy_bytes[c]);
        busy.d2h_ns += copies.writes * copy_ns(costs, MOVER_D2H, reuses->copy_bytes[c]);
    }
    uint64_t ns = MAX(MAX(busy.device_ns, busy.backward_ns), MAX(busy.h2d_ns, busy.d2h_ns));
    ns = MAX(ns, busy.host_ns);
    return objective_figure(objective, candidate->retention->traffic, (double)ns * 1e-9);
}

static bool is_used_at(const struct accesses *accesses, uint32_t moment, uint32_t chunk)
{
    for (uint32_t a = accesses->first[moment]; a < accesses->first[moment + 1]; a++)
        if (accesses->items[a].chunk == chunk && !(accesses->items[a].flags & ACCESS_ON_HOST))
            return true;
    return false;
}

double on_demand_lower_bound(const struct replay_view *view, const struct plan *plan,
                             enum objective objective)
{
    struct busy_times busy = count_busy(view);
    uint64_t bytes = busy.link_bytes, ns = busy.device_ns;

    for (uint32_t m = 0; m <= plan->moment_count; m++)
        for (uint32_t i = plan->first_action[m]; i < plan->first_action[m + 1]; i++) {
            const struct plan_action *action = &plan->actions[i];
            uint64_t used = plan->layout->chunks[action->chunk].copy_bytes;
            bool fetch = action->kind == PLAN_FETCH;
            bool write = action->kind == PLAN_WRITE_BACK || action->kind == PLAN_FLUSH;
            bytes += fetch || write ? used : 0;
            if (fetch && m < plan->moment_count && is_used_at(view->accesses, m, action->chunk))
                ns += copy_ns(view->costs, MOVER_H2D, used);
        }
    return objective_figure(objective, bytes, (double)ns * 1e-9);
}
