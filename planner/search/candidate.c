#include "planner/search/candidate.h"
#include "chunks/parts.h"
#include "chunks/place.h"
#include "planner/schedule/dispatch.h"
#include "planner/schedule/intervals.h"
#include "planner/schedule/stays.h"
#include "planner/search/busy.h"
#include "planner/search/trials.h"
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
    plan_lacks_memory(error, candidate->trace, worst, *needed, "", job->device_budget);
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

/* A gather is worth what the link carries in its time. A chunk of shards that has left crosses the
 * link again for at least one gather an iteration. */
static void value_gathers(struct candidate *candidate)
{
    const struct layout *layout = candidate->layout;
    double bytes_per_ns = costs_link_rate(candidate->job->costs, MOVER_H2D) * 1e-9;
    bool gathers = candidate->network->gathering != NULL;
    for (uint32_t c = 0; gathers && c < layout->chunk_count; c++) {
        uint64_t *worth = &candidate->reuses->worth[c];
        uint64_t gather_ns = candidate->network->gather_ns[c];
        if (gather_ns)
            *worth = (uint64_t)(bytes_per_ns * (double)gather_ns);
        else if (layout->chunks[c].list == TRACE_PARAM)
            *worth *= 2;
    }
}

/* Chunks are copied in parts where few of them fill the room, and where that takes hardly longer.
 */
enum { ROOM_SHARE = 32, LONGER_SHARE = 16, LEAST_CUT_BITS = 18, MOST_CUT_BITS = 48 };

static bool hardly_takes_longer(const struct costs *costs, enum mover_queue queue, uint64_t bytes)
{
    uint64_t whole_ns = costs_copy(costs, queue, bytes, 0).alone_ns;
    uint64_t parts_ns =
        COPY_PARTS * (costs_part(costs, queue, bytes, 0).alone_ns + costs_copy_overhead_ns(costs));
    return parts_ns <= whole_ns + whole_ns / LONGER_SHARE;
}

/* Returns the least size from which on copies in parts take hardly longer; UINT64_MAX if none does.
 */
static uint64_t least_cut_bytes(const struct costs *costs)
{
    for (uint64_t bytes = UINT64_C(1) << LEAST_CUT_BITS; bytes >> MOST_CUT_BITS == 0; bytes *= 2)
        if (hardly_takes_longer(costs, MOVER_H2D, bytes) &&
            hardly_takes_longer(costs, MOVER_D2H, bytes))
            return bytes;
    return UINT64_MAX;
}

static uint64_t mean_room(const struct candidate_job *job)
{
    uint64_t non_model = 0, count = MAX(1, job->trace->operator_count);
    for (uint32_t m = 0; m < job->trace->operator_count; m++)
        non_model += job->non_model->extent[m];
    return job->device_budget - MIN(non_model / count, job->device_budget);
}

/* Returns from which size on chunks are copied in parts; 0 if none is. */
static uint64_t choose_parts(const struct candidate_job *job, const struct layout *layout)
{
    uint64_t bytes = MAX(least_cut_bytes(job->costs), mean_room(job) / ROOM_SHARE);
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        if (layout->chunks[c].copy_bytes >= bytes)
            return bytes;
    return 0;
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
    candidate->accesses = accesses_new_digested(candidate->trace, job->digest, candidate->layout,
                                                job->non_model->extent);
    candidate->homes = homes_choose(candidate->trace, candidate->layout, candidate->accesses,
                                    job->device_budget, job->host_budget, error);
    if (candidate->homes) {
        candidate->reuses = reuses_new(candidate->trace, candidate->layout, candidate->accesses,
                                       candidate->homes, NULL, job->device_budget);
        if (check_room(candidate, needed, error)) {
            candidate->cut_from_bytes = choose_parts(job, candidate->layout);
            candidate->network = network_times_new(candidate->trace, candidate->layout, job->costs);
            value_gathers(candidate);
            candidate->retention = retention_new(candidate->reuses);
            return candidate;
        }
    }
    candidate_free(candidate);
    return NULL;
}

static void free_choice(struct candidate *candidate)
{
    retention_free(candidate->retention);
    reuses_free(candidate->reuses);
    homes_free(candidate->homes);
}

void candidate_free(struct candidate *candidate)
{
    if (!candidate)
        return;
    free_choice(candidate);
    network_times_free(candidate->network);
    accesses_free(candidate->accesses);
    trace_free(candidate->placed);
    layout_free(candidate->layout);
    g_free(candidate);
}

/* Replaces homes, intervals and retention of a shallow copy: every chunk has a slot on the host,
 * except those of `stays` [chunk_count], which may be NULL. What is retained is not chosen yet. */
static void let_stay(struct candidate *copy, const uint8_t *stays)
{
    g_autofree uint8_t *none = g_new0(uint8_t, copy->layout->chunk_count);
    copy->homes = homes_assign(copy->trace, copy->layout, none, NULL);
    copy->reuses = reuses_new(copy->trace, copy->layout, copy->accesses, copy->homes, stays,
                              copy->job->device_budget);
    value_gathers(copy);
    copy->retention = retention_new(copy->reuses);
}

/* Returns which chunks stay, as stays_choose, or NULL. */
static uint8_t *find_stays(const struct candidate *candidate, const struct retention_bias *bias)
{
    struct candidate copy = *candidate;
    let_stay(&copy, NULL);
    if (iteration_is_very_long(copy.trace))
        retention_choose_quickly(copy.retention, bias);
    else
        retention_choose(copy.retention, bias);
    uint64_t excess = copy.homes->host_pool_bytes - candidate->job->host_budget;
    uint8_t *stays = stays_choose(copy.layout, copy.retention, excess);
    free_choice(&copy);
    return stays;
}

static bool host_holds_all(const struct candidate *candidate)
{
    for (uint32_t c = 0; c < candidate->layout->chunk_count; c++)
        if (candidate->homes->host_address[c] == NO_ADDRESS &&
            candidate->layout->chunks[c].list != TRACE_GATHERED)
            return false;
    return true;
}

void candidate_choose(struct candidate *candidate, const struct retention_bias *bias)
{
    uint64_t needed;
    retention_choose(candidate->retention, bias);
    if (host_holds_all(candidate))
        return;
    g_autofree uint8_t *stays = find_stays(candidate, bias);
    if (!stays)
        return;
    struct candidate copy = *candidate;
    let_stay(&copy, stays);
    retention_choose(copy.retention, bias);
    bool better = check_room(&copy, &needed, NULL) &&
                  copy.retention->cost <= candidate->retention->cost;
    free_choice(better ? candidate : &copy);
    if (better)
        *candidate = copy;
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
    return homes_assign(candidate->trace, candidate->layout, on_device,
                        candidate->homes->transient);
}

/* Replays the plan and returns its moment times. */
static struct moment_times *predict_times(const struct candidate *candidate, struct plan *plan)
{
    struct replay_view view = {candidate->trace, candidate->accesses, candidate->job->costs};
    uint64_t *issue_ns = g_new0(uint64_t, plan->moment_count);
    plan->predicted = replay_times(plan, &view, issue_ns).steady;
    return moment_times_new(issue_ns, candidate->trace, plan->predicted.iteration_seconds);
}

/* Returns the duration of a copy of each chunk, with all its parts. */
static uint64_t *copy_times(const struct candidate *candidate, enum mover_queue queue)
{
    const struct costs *costs = candidate->job->costs;
    uint64_t *ns = g_new(uint64_t, candidate->layout->chunk_count);
    for (uint32_t c = 0; c < candidate->layout->chunk_count; c++) {
        uint64_t bytes = candidate->layout->chunks[c].copy_bytes;
        ns[c] = copy_is_cut(candidate->cut_from_bytes, bytes)
                    ? COPY_PARTS * costs_part(costs, queue, bytes, 0).alone_ns
                    : costs_copy(costs, queue, bytes, 0).alone_ns;
    }
    return ns;
}

/* Returns for each moment the duration of the copy of its activations, 0 if there is none. */
static uint64_t *activation_times(const struct candidate *candidate, enum mover_queue queue)
{
    const struct trace *trace = candidate->trace;
    uint64_t *ns = g_new0(uint64_t, trace->operator_count);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        uint64_t bytes = queue == MOVER_H2D ? op->h2d_bytes : op->d2h_bytes;
        if (bytes)
            ns[m] = costs_copy(candidate->job->costs, queue, bytes, 0).alone_ns;
    }
    return ns;
}

/* Which addresses a plan may have. */
enum address_choice {
    STILL,          /* nothing moves within the device; there is no plan if none are found */
    STILL_IF_FOUND, /* .. but chunks move if none are found */
    MOVING          /* each chunk comes when it should, and others may move for it */
};

static struct plan *schedule_plan(const struct candidate *candidate,
                                  const struct intervals *intervals, enum address_choice choice)
{
    struct homes *homes = settle_homes(candidate, intervals);
    struct offsets *offsets = choice == MOVING ? NULL
                                               : offsets_find(intervals, homes, candidate->accesses,
                                                              candidate->job->device_budget);
    struct plan *plan = NULL;
    if (offsets || choice != STILL) {
        struct decisions *decisions = intervals_decisions(intervals, homes);
        const struct plan_inputs inputs = {.trace = candidate->trace,
                                           .layout = candidate->layout,
                                           .accesses = candidate->accesses,
                                           .homes = homes,
                                           .device_budget = candidate->job->device_budget,
                                           .host_budget = candidate->job->host_budget};
        plan = plan_make(&inputs, offsets ? offsets_addresses(offsets, decisions)
                                          : place_decisions(decisions, &inputs, PLACE_WELL));
        plan->cut_from_bytes = candidate->cut_from_bytes;
        plan->made_by = g_strdup("planner");
        plan->look_ahead = intervals_look_ahead(intervals);
        decisions_free(decisions);
    }
    offsets_free(offsets);
    homes_free(homes);
    return plan;
}

static struct plan *make_plan(const struct candidate *candidate,
                              const struct interval_options *options, enum address_choice choice,
                              struct moment_times **times)
{
    struct interval_options known = *options;
    g_autofree uint64_t *h2d_ns = copy_times(candidate, MOVER_H2D);
    g_autofree uint64_t *d2h_ns = copy_times(candidate, MOVER_D2H);
    known.copy_ns[0] = h2d_ns;
    known.copy_ns[1] = d2h_ns;
    known.gather_ns = candidate->network->gather_ns;
    struct intervals *intervals = intervals_new(candidate->retention, &known);
    struct plan *plan = schedule_plan(candidate, intervals, choice);

    intervals_free(intervals);
    if (plan && times)
        *times = predict_times(candidate, plan);
    else if (plan)
        predict(candidate, plan);
    return plan;
}

/* Marks chunks that are not on the device throughout. A gather may find them on the host. */
static uint8_t *find_leavers(const struct candidate *candidate)
{
    const struct reuses *reuses = candidate->reuses;
    uint8_t *leaves = g_new0(uint8_t, reuses->chunk_count);
    for (uint32_t c = 0; c < reuses->chunk_count; c++) {
        leaves[c] = reuses->first[c] == reuses->first[c + 1] && !candidate->homes->on_device[c];
        for (uint32_t g = reuses->first[c]; g < reuses->first[c + 1]; g++)
            leaves[c] |= !candidate->retention->retained[g];
    }
    return leaves;
}

struct intervals *candidate_dispatch(const struct candidate *candidate,
                                     const struct walk_options *options)
{
    g_autofree uint8_t *leavers = find_leavers(candidate);
    g_autofree uint64_t *shards_ns = network_link_times(
        candidate->network, candidate->trace, candidate->layout, candidate->job->costs, leavers);
    g_autofree uint64_t *h2d_ns = copy_times(candidate, MOVER_H2D);
    g_autofree uint64_t *d2h_ns = copy_times(candidate, MOVER_D2H);
    g_autofree uint64_t *received_ns = activation_times(candidate, MOVER_H2D);
    g_autofree uint64_t *sent_ns = activation_times(candidate, MOVER_D2H);
    const struct dispatch_job job = {
        .trace = candidate->trace,
        .accesses = candidate->accesses,
        .copy_ns = {h2d_ns, d2h_ns},
        .cut_from_bytes = options->as_wholes ? 0 : candidate->cut_from_bytes,
        .activations_ns = {received_ns, sent_ns},
        .gathering = candidate->network->gathering,
        .gather_ns = candidate->network->gather_ns,
        .exchange_ns = candidate->network->exchange_ns,
        .shards_ns = shards_ns,
        .slack_bytes = (int64_t)options->slack_bytes,
        .leaves_late = options->leaves_late};
    return intervals_new_dispatched(candidate->retention, &job);
}

struct plan *candidate_plan_dispatched(const struct candidate *candidate,
                                       const struct intervals *dispatched,
                                       enum dispatch_addresses addresses,
                                       struct moment_times **times)
{
    struct intervals *intervals = intervals_copy(dispatched);
    intervals->period_ns = addresses == ADDRESSES_BY_TIME ? dispatched->period_ns : 0;
    struct plan *plan = schedule_plan(candidate, intervals,
                                      addresses == ADDRESSES_MOVING ? MOVING : STILL);
    intervals_free(intervals);
    *times = plan ? predict_times(candidate, plan) : NULL;
    return plan;
}

struct plan *candidate_plan(const struct candidate *candidate,
                            const struct interval_options *options, struct moment_times **times)
{
    return make_plan(candidate, options, STILL_IF_FOUND, times);
}

struct plan *candidate_plan_still(const struct candidate *candidate,
                                  const struct interval_options *options,
                                  struct moment_times **times)
{
    return make_plan(candidate, options, STILL, times);
}

double candidate_lower_bound(const struct candidate *candidate, enum objective objective)
{
    const struct costs *costs = candidate->job->costs;
    const struct replay_view view = {candidate->trace, candidate->accesses, costs};
    const struct reuses *reuses = candidate->reuses;
    struct busy_times busy = busy_count(&view);
    for (uint32_t c = 0; c < reuses->chunk_count; c++) {
        struct reuse_copies copies = reuses_chunk_copies(reuses, c, candidate->retention->retained);
        busy.network_ns += copies.fetches * candidate->network->gather_ns[c];
        busy_add(&busy, costs, MOVER_H2D, reuses->copy_bytes[c], copies.fetches);
        busy_add(&busy, costs, MOVER_D2H, reuses->copy_bytes[c], copies.writes);
    }
    return busy_lower_bound(&busy, objective);
}
