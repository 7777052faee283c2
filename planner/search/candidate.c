#include "planner/search/candidate.h"
#include "chunks/place.h"
#include "planner/schedule/intervals.h"
#include "sim/replay.h"

static bool check_room(const struct candidate *candidate, uint64_t *needed, GError **error)
{
    const struct candidate_job *job = candidate->job;
    const int64_t *room = candidate->reuses->room;
    uint32_t worst = 0;
    for (uint32_t m = 0; m < candidate->reuses->moment_count; m++)
        if (room[m] < room[worst])
            worst = m;
    *needed = (uint64_t)((int64_t)job->device_budget - room[worst]);
    if (*needed <= job->device_budget)
        return true;
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
                "device memory: moment %u (%s) needs %" G_GUINT64_FORMAT
                " bytes, %" G_GUINT64_FORMAT " more than the budget of %" G_GUINT64_FORMAT
                "; %" G_GUINT64_FORMAT " bytes would fit",
                worst, candidate->trace->operators[worst].name, *needed,
                *needed - job->device_budget, job->device_budget, *needed);
    return false;
}

static void place(struct candidate *candidate, const struct placement *placement)
{
    const struct candidate_job *job = candidate->job;
    candidate->trace = job->trace;
    if (placement->pattern != PLACEMENT_TRACED)
        candidate->trace = candidate->placed = placement_trace(placement, job->trace,
                                                               candidate->layout, job->platform);
}

struct candidate *candidate_new(const struct candidate_job *job, const struct layout_spec *spec,
                                const struct placement *placement, uint64_t *needed, GError **error)
{
    struct candidate *candidate = g_new0(struct candidate, 1);
    *needed = UINT64_MAX;
    candidate->job = job;
    candidate->layout = layout_pack(job->trace, spec, NULL);
    g_assert(candidate->layout);
    place(candidate, placement);
    candidate->accesses =
        job->digest ? accesses_new_digested(candidate->trace, job->digest, candidate->layout,
                                            job->non_model->extent)
                    : accesses_new(candidate->trace, candidate->layout, job->non_model->extent);
    candidate->homes = homes_choose(candidate->trace, candidate->layout, candidate->accesses,
                                    job->host_budget, error);
    if (candidate->homes) {
        candidate->reuses = reuses_new(candidate->trace, candidate->layout, candidate->accesses,
                                       candidate->homes, job->device_budget);
        if (check_room(candidate, needed, error)) {
            candidate->retention = retention_new(candidate->reuses);
            return candidate;
        }
    }
    candidate_free(candidate);
    return NULL;
}

void candidate_free(struct candidate *candidate)
{
    if (!candidate)
        return;
    retention_free(candidate->retention);
    reuses_free(candidate->reuses);
    homes_free(candidate->homes);
    accesses_free(candidate->accesses);
    trace_free(candidate->placed);
    layout_free(candidate->layout);
    g_free(candidate);
}

static void predict(const struct candidate *candidate, struct plan *plan)
{
    struct replay_view view = {candidate->trace, candidate->accesses, candidate->job->costs};
    plan->predicted = replay(plan, &view).steady;
}

/* Chunks that must live on the device, and those that never leave it and that no host operator
 * uses. */
static struct homes *settle_homes(const struct candidate *candidate,
                                  const struct intervals *intervals)
{
    const struct reuses *reuses = candidate->reuses;
    g_autofree uint8_t *on_device = g_memdup2(candidate->homes->on_device,
                                              candidate->layout->chunk_count);
    for (uint32_t c = 0; c < reuses->chunk_count; c++) {
        on_device[c] |= intervals->permanent[c];
        for (uint32_t g = reuses->first[c]; g < reuses->first[c + 1]; g++)
            if (reuses->items[g].flags & REUSE_FLUSH)
                on_device[c] = 0;
    }
    return homes_assign(candidate->trace, candidate->layout, on_device);
}

/* Replays the plan and returns its moment times. */
static struct moment_times *predict_times(const struct candidate *candidate, struct plan *plan)
{
    struct replay_view view = {candidate->trace, candidate->accesses, candidate->job->costs};
    uint64_t *issue_ns = g_new0(uint64_t, plan->moment_count);
    plan->predicted = replay_times(plan, &view, issue_ns).steady;
    return moment_times_new(issue_ns, candidate->trace, plan->predicted.iteration_seconds);
}

/* Returns the duration of a copy of each chunk. */
static uint64_t *copy_times(const struct candidate *candidate, const struct cost *cost)
{
    uint64_t *ns = g_new(uint64_t, candidate->layout->chunk_count);
    for (uint32_t c = 0; c < candidate->layout->chunk_count; c++)
        ns[c] = costs_ns(cost, candidate->layout->chunks[c].copy_bytes);
    return ns;
}

/* Uses addresses by which nothing moves within the device. If none are found, returns NULL or, with
 * `moves`, a plan with other addresses. */
static struct plan *schedule_plan(const struct candidate *candidate,
                                  const struct intervals *intervals, bool moves)
{
    struct homes *homes = settle_homes(candidate, intervals);
    struct offsets *offsets = offsets_find(intervals, homes, candidate->accesses,
                                           candidate->job->device_budget);
    struct plan *plan = NULL;
    if (offsets || moves) {
        struct decisions *decisions = intervals_decisions(intervals, homes);
        const struct plan_inputs inputs = {.trace = candidate->trace,
                                           .layout = candidate->layout,
                                           .accesses = candidate->accesses,
                                           .homes = homes,
                                           .device_budget = candidate->job->device_budget,
                                           .host_budget = candidate->job->host_budget};
        plan = plan_make(&inputs, offsets ? offsets_addresses(offsets, decisions)
                                          : place_decisions(decisions, &inputs, PLACE_WELL));
        plan->made_by = g_strdup("planner");
        plan->look_ahead = intervals_look_ahead(intervals);
        decisions_free(decisions);
    }
    offsets_free(offsets);
    homes_free(homes);
    return plan;
}

static struct plan *make_plan(const struct candidate *candidate,
                              const struct interval_options *options, bool moves,
                              struct moment_times **times)
{
    struct interval_options known = *options;
    g_autofree uint64_t *h2d_ns = copy_times(candidate, &candidate->job->costs->h2d);
    g_autofree uint64_t *d2h_ns = copy_times(candidate, &candidate->job->costs->d2h);
    known.copy_ns[0] = h2d_ns;
    known.copy_ns[1] = d2h_ns;
    struct intervals *intervals = intervals_new(candidate->retention, &known);
    struct plan *plan = schedule_plan(candidate, intervals, moves);

    intervals_free(intervals);
    if (plan && times)
        *times = predict_times(candidate, plan);
    else if (plan)
        predict(candidate, plan);
    return plan;
}

struct plan *candidate_plan(const struct candidate *candidate,
                            const struct interval_options *options, struct moment_times **times)
{
    return make_plan(candidate, options, true, times);
}

struct plan *candidate_plan_still(const struct candidate *candidate,
                                  const struct interval_options *options,
                                  struct moment_times **times)
{
    return make_plan(candidate, options, false, times);
}

/* The time that the operators of an iteration keep each resource busy. */
struct busy_times {
    uint64_t device_ns, host_ns, h2d_ns, d2h_ns;
    uint64_t backward_ns; /* on the device, and on the host between two backwards */
    uint64_t link_bytes;  /* activations of host operators */
};

static uint64_t copy_ns(const struct costs *costs, enum mover_queue queue, uint64_t bytes)
{
    return costs_copy(costs, queue, bytes, 0).alone_ns;
}

/* Returns whether the device uses what the operator wrote before this moment, which counts from the
 * iteration's start. */
static bool is_used_before(const struct accesses *accesses, uint32_t operator_moment,
                           moment_id moment)
{
    for (uint32_t a = accesses->first[operator_moment]; a < accesses->first[operator_moment + 1];
         a++)
        if (accesses->items[a].flags & ACCESS_WRITES && accesses->next_device_use[a] < moment)
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

static bool is_used_at(const struct accesses *accesses, moment_id moment, chunk_id chunk)
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
