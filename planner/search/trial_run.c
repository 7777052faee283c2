#include "planner/search/candidate.h"
#include "planner/search/trials.h"

#include <math.h>
#include <string.h>

/* Candidates whose lower bound is more than 5 % worse than the incumbent's are pruned unless the
 * search is thorough, and further schedules are made only if the first is at most 15 % worse. */
#define PRUNE_RATIO 1.05
#define VARY_RATIO  1.15

/* Candidates whose schedule by dispatch() takes this much longer than the incumbent get no
 * addresses; in very long iterations, where addresses take long, it is LONG_RATIO. Addresses are
 * good enough if the plan takes at most 0.2 % longer than its schedule; chunks do not leave late if
 * it takes at most 3 % longer, and schedules of other kinds are not tried if it takes at most 1 %
 * longer. */
#define DISPATCH_RATIO  1.01
#define LONG_RATIO      1.002
#define ADDRESSES_RATIO 1.002
#define LATE_RATIO      1.03
#define CLOSE_RATIO     1.01

/* In iterations of so many operators all kinds of schedules are tried, because that is quick and
 * each is better for some. */
enum { SMALL = 500 };

/* The number of moments ahead to fetch if moment times are unknown. If they are known, margins are
 * these fractions of an iteration. */
enum { LOOK_AHEAD = 64, FIRST_MARGIN = 16, LAST_MARGIN = 64, TIMED_MOST = 6 };

/* The number of attempts to reserve room for bytes that addresses waste, if schedules need moves
 * without it. */
enum { RESERVES_MOST = 3 };

/* Local search runs in stages, each twice as long as the one before. It minimises traffic, and less
 * traffic is not always faster, so schedules are made after each stage. */
static const struct effort_budget {
    uint32_t stages, rounds; /* of the first */
} effort_budgets[] = {
    [EFFORT_0] = {1, 40}, [EFFORT_1] = {1, 40}, [EFFORT_2] = {2, 150}, [EFFORT_3] = {4, 150}};

bool trial_is_hurried(const struct trial_context *context, const struct trial *trial)
{
    bool has_plan = trial->plan || trial->policy || trial->strategy;
    return context->hurry &&
           (g_atomic_int_get(context->stop) || (has_plan && g_atomic_int_get(context->hurry)));
}

/* Takes ownership of `plan` and its times. Returns whether it is better than those before. */
static bool take_plan(const struct trial_context *context, struct plan *plan,
                      struct moment_times *times, struct trial *trial)
{
    bool better = objective_prefers(context->objective, plan, trial->plan);
    trial->plans++;
    if (better) {
        moment_times_free(trial->times);
        trial->times = times;
    } else {
        moment_times_free(times);
    }
    trials_take_better(context->objective, &trial->plan, plan);
    return better;
}

static struct interval_options timed_options(const struct moment_times *times, uint32_t margin,
                                             bool flush_early)
{
    return (struct interval_options){.look_ahead = UINT32_MAX,
                                     .flush_early = flush_early,
                                     .times = times,
                                     .margin_ns = times->period_ns / margin};
}

/* Returns whether the new plan is better than those before. */
static bool try_timed(const struct trial_context *context, const struct candidate *candidate,
                      uint32_t margin, bool flush_early, struct trial *trial)
{
    const struct interval_options options = timed_options(trial->times, margin, flush_early);
    struct moment_times *times;
    struct plan *plan = candidate_plan(candidate, &options, &times);
    return take_plan(context, plan, times, trial);
}

static uint64_t largest_chunk(const struct candidate *candidate)
{
    uint64_t largest = 0;
    for (uint32_t c = 0; c < candidate->layout->chunk_count; c++)
        largest = MAX(largest, candidate->layout->chunks[c].slot_bytes);
    return largest;
}

/* Returns the times of the candidate's best plan, of where it starts, or of the incumbent; or NULL.
 */
static struct moment_times *first_times(const struct trial_context *context,
                                        const struct candidate *candidate,
                                        const struct trial *trial)
{
    const struct moment_times *times = trial->times ? trial->times : trial->start;
    if (!times && context->incumbent)
        times = context->incumbent->times;
    return times ? moment_times_for(times, candidate->trace) : NULL;
}

/* Makes a plan with these times; returns whether no chunk moves within the device. A plan that
 * moves chunks counts only with `moves`. */
static bool try_first(const struct trial_context *context, const struct candidate *candidate,
                      bool moves, struct trial *trial)
{
    struct moment_times *known = first_times(context, candidate, trial), *times;
    const struct interval_options untimed = {.look_ahead = LOOK_AHEAD, .flush_early = true};
    const struct interval_options options = known ? timed_options(known, FIRST_MARGIN, true)
                                                  : untimed;
    struct plan *plan = moves ? candidate_plan(candidate, &options, &times)
                              : candidate_plan_still(candidate, &options, &times);
    bool still = plan && !plan->predicted.moves;
    if (plan)
        take_plan(context, plan, times, trial);
    moment_times_free(known);
    return still;
}

/* Reserves more and more room if no addresses are found by which nothing moves. */
static void try_reserves(const struct trial_context *context, const struct candidate *candidate,
                         struct trial *trial)
{
    bool still = try_first(context, candidate, true, trial);
    for (int reserves = 1; !still && reserves <= RESERVES_MOST && !trial_is_hurried(context, trial);
         reserves++) {
        retention_reserve(candidate->retention, largest_chunk(candidate));
        still = try_first(context, candidate, reserves == RESERVES_MOST, trial);
    }
}

/* Returns whether the trial's best plan takes no longer. It should also move nothing within the
 * device, unless to try that takes very long. */
static bool is_reached(const struct trial *trial, double seconds)
{
    return trial->plan && trial->plan->predicted.iteration_seconds <= seconds &&
           (!trial->plan->predicted.moves || trial->plan->moment_count > VERY_LONG_ITERATION);
}

/* Finds addresses for the schedule in one way after the other, from the one that was best before,
 * until they cost next to nothing. If there are none by moments, there are none by times, which ask
 * for more. */
static void try_addresses(const struct trial_context *context, const struct candidate *candidate,
                          const struct intervals *dispatched, double seconds, struct trial *trial)
{
    for (int how = trial->addresses;
         how <= ADDRESSES_MOVING && !is_reached(trial, ADDRESSES_RATIO * seconds) &&
         !trial_is_hurried(context, trial);
         how++) {
        struct moment_times *times;
        struct plan *plan = candidate_plan_dispatched(candidate, dispatched, how, &times);
        if (!plan)
            how = ADDRESSES_MOVING - 1;
        else if (take_plan(context, plan, times, trial))
            trial->addresses = (uint8_t)how;
    }
}

/* Returns whether a schedule by dispatch() with so long an iteration may lead to a better plan. */
static bool may_lead(const struct trial_context *context, const struct trial *trial, double seconds)
{
    bool searched = trial->effort > EFFORT_1 || context->objective != OBJECTIVE_TIME ||
                    !context->incumbent;
    double ratio = iteration_is_very_long(context->job->trace) ? LONG_RATIO : DISPATCH_RATIO;
    if (!searched && seconds > ratio * context->incumbent->plan->predicted.iteration_seconds)
        return false;
    return !trial->plan || seconds < trial->plan->predicted.iteration_seconds;
}

/* The result of a walk. */
struct walked {
    double seconds;
    bool leads;          /* it may lead to a better plan, so addresses were tried */
    bool waits, follows; /* as in struct intervals */
};

static struct walked try_walk(const struct trial_context *context,
                              const struct candidate *candidate, const struct walk_options *options,
                              struct trial *trial)
{
    struct intervals *dispatched = candidate_dispatch(candidate, options);
    double seconds = (double)dispatched->period_ns * 1e-9;
    struct walked walked = {seconds, may_lead(context, trial, seconds), dispatched->waits,
                            dispatched->follows};
    if (walked.leads)
        try_addresses(context, candidate, dispatched, seconds, trial);
    intervals_free(dispatched);
    return walked;
}

/* Returns whether chunks should leave late, where addresses cost much. At first they do only
 * without slack, and where the plan would otherwise be no better than the best one. */
static bool may_leave_late(const struct trial_context *context, const struct candidate *candidate,
                           const struct walked *walked, uint64_t slack_bytes,
                           const struct trial *trial)
{
    const struct trial *best = context->incumbent;
    bool leads = walked->leads && walked->waits && trial->plan && trial->effort != EFFORT_0;
    if (!leads || (candidate->trace->operator_count > THOROUGH_MOST && !context->thorough) ||
        is_reached(trial, LATE_RATIO * walked->seconds))
        return false;
    return trial->effort > EFFORT_1 || (!slack_bytes && best &&
                                        objective_of_plan(context->objective, trial->plan) >
                                            objective_of_plan(context->objective, best->plan));
}

/* Slacks of schedules, in quarters of the largest chunk. */
static const struct slacks {
    uint32_t quarters[6], count;
} whole_slacks = {{0, 4, 16}, 3}, little_slacks = {{0, 1, 2}, 3},
  all_slacks = {{0, 1, 2, 4, 8, 16}, 6};

/* In very long iterations the slack of the best plan must do, once others were tried, unless the
 * search is thorough. */
static struct slacks slacks_of(const struct trial_context *context, const struct trial *trial)
{
    const struct trial *best = context->incumbent;
    if (context->thorough && trial->effort > EFFORT_1)
        return all_slacks;
    if (iteration_is_very_long(context->job->trace) && !context->thorough && best &&
        best->slack != SEARCH_NO_SLACK)
        return (struct slacks){{(uint32_t)best->slack}, 1};
    return trial->little_slack ? little_slacks : whole_slacks;
}

/* Schedules copies by dispatch(), with more and more slack, until addresses cost next to nothing.
 * Returns whether other schedules may be better. */
static bool try_dispatched(const struct trial_context *context, const struct candidate *candidate,
                           struct trial *trial)
{
    const struct slacks slacks = slacks_of(context, trial);
    uint64_t largest = largest_chunk(candidate);
    double least = INFINITY;
    for (uint32_t i = 0; i < slacks.count; i++) {
        uint64_t slack = slacks.quarters[i] * largest / 4;
        const struct plan *before = trial->plan;
        struct walk_options options = {.slack_bytes = slack};
        struct walked walked = try_walk(context, candidate, &options, trial);
        least = fmin(least, walked.seconds);
        options.leaves_late = true;
        if (may_leave_late(context, candidate, &walked, slack, trial))
            try_walk(context, candidate, &options, trial);
        options = (struct walk_options){.slack_bytes = slack, .as_wholes = true};
        if (walked.follows && trial->effort > EFFORT_0)
            try_walk(context, candidate, &options, trial);
        if (trial->plan != before && (trial->effort != EFFORT_0 || slacks.count == 1))
            trial->slack = (int32_t)slacks.quarters[i];
        if (!trial->plan)
            return candidate->trace->operator_count <= SMALL;
        if (!walked.leads || trial->effort == EFFORT_0 || trial_is_hurried(context, trial) ||
            is_reached(trial, ADDRESSES_RATIO * walked.seconds))
            break;
    }
    return (candidate->trace->operator_count <= SMALL || trial->effort >= EFFORT_2) &&
           !is_reached(trial, CLOSE_RATIO * least);
}

/* Each schedule shows how fast the next may be. A fetch that is issued early is in time, but
 * another chunk may need its room. Margins are halved when they do not help. Returns whether the
 * same retention may lead to other schedules in the next stage. */
static bool try_schedules(const struct trial_context *context, const struct candidate *candidate,
                          struct trial *trial)
{
    if (!try_dispatched(context, candidate, trial) || trial_is_hurried(context, trial))
        return false;
    try_reserves(context, candidate, trial);
    if (trial->effort == EFFORT_0)
        return true;
    if (trial->effort == EFFORT_1 && context->incumbent &&
        objective_of_plan(context->objective, trial->plan) >
            VARY_RATIO * objective_of_plan(context->objective, context->incumbent->plan))
        return true;
    for (uint32_t margin = FIRST_MARGIN, count = 0;
         margin <= LAST_MARGIN && count < TIMED_MOST && !trial_is_hurried(context, trial); count++)
        if (!try_timed(context, candidate, margin, true, trial))
            margin *= 2;
    return true;
}

static bool is_over(const struct trial_context *context, const struct trial *trial)
{
    return g_atomic_int_get(context->stop) || trial_is_hurried(context, trial);
}

static void search_locally(const struct trial_context *context, const struct candidate *candidate,
                           GRand *random, struct trial *trial)
{
    const struct effort_budget *effort = &effort_budgets[trial->effort];
    const struct retention *retention = candidate->retention;
    uint32_t count = retention->reuses->count; /* 0 if nothing is to be decided */
    g_autofree uint8_t *scheduled = g_new0(uint8_t, count);
    bool others = true;
    const gint *stop = context->hurry ? context->hurry : context->stop;
    for (uint32_t i = 0; i < effort->stages && !is_over(context, trial); i++) {
        retention_improve(candidate->retention, random, effort->rounds << i, stop);
        if (!others && (!count || memcmp(scheduled, retention->retained, count) == 0))
            continue;
        if (count)
            memcpy(scheduled, retention->retained, count);
        others = try_schedules(context, candidate, trial);
    }
    trial->lower_bound = candidate_lower_bound(candidate, context->objective);
    if (trial->plan && trial->effort == EFFORT_3 && !trial_is_hurried(context, trial))
        try_timed(context, candidate, FIRST_MARGIN, false, trial);
}

/* A mix comes with a bound close to what it can reach, so its schedules are worth more. */
static bool may_improve(const struct trial_context *context, const struct trial *trial)
{
    if (!context->incumbent || trial->effort > EFFORT_1)
        return true;
    double incumbent = objective_of_plan(context->objective, context->incumbent->plan);
    if (trial->placement.pattern == PLACEMENT_MIXED || context->thorough)
        return trial->lower_bound < incumbent;
    return trial->lower_bound <= PRUNE_RATIO * MIN(context->incumbent->lower_bound, incumbent);
}

void trial_run(const struct trial_context *context, const struct layout_spec *spec, uint32_t seed,
               struct trial *trial)
{
    struct candidate *candidate = candidate_new(context->job, spec, &trial->placement,
                                                &trial->needed, &trial->error);
    if (context->incumbent && trial->effort <= EFFORT_1)
        trial->addresses = context->incumbent->addresses;
    trial->done = true;
    if (!candidate)
        return;
    candidate_choose(candidate, &trial->bias);
    trial->lower_bound = candidate_lower_bound(candidate, context->objective);
    trial->pruned = !may_improve(context, trial);
    if (!trial->pruned) {
        g_autoptr(GRand) random = g_rand_new_with_seed(seed);
        search_locally(context, candidate, random, trial);
    }
    candidate_free(candidate);
}
