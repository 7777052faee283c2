#include "planner/search/candidate.h"
#include "planner/search/trials.h"

#include <math.h>

/* Candidates whose lower bound is more than 5 % worse than the incumbent's are pruned, and further
 * schedules are made only if the first is at most 15 % worse. */
#define PRUNE_RATIO 1.05
#define VARY_RATIO  1.15

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

void trial_open_baselines(const struct candidate_job *job, const struct layout *layout,
                          struct baselines *baselines)
{
    *baselines = (struct baselines){.trace = job->trace,
                                    .digest = job->digest,
                                    .layout = layout,
                                    .non_model = job->non_model->extent,
                                    .costs = job->costs,
                                    .platform = job->platform};
    baselines_open(baselines);
}

struct plan *trial_plan_policy(const struct candidate_job *job, const struct baselines *baselines,
                               const struct pstar_policy_ops *policy, enum objective objective,
                               double most)
{
    const struct dry_run_options options = {
        .device_budget = job->device_budget, .host_budget = job->host_budget, .policy = policy};
    const struct replay_view view = {job->trace, baselines->accesses, job->costs};
    struct plan *plan = baselines_policy(baselines, &options, NULL);
    if (plan && on_demand_lower_bound(&view, plan, objective) > most)
        g_clear_pointer(&plan, plan_free);
    if (plan)
        baselines_time(baselines, plan, NULL);
    return plan;
}

struct plan *trial_plan_strategy(const struct candidate_job *job, const struct baselines *baselines,
                                 const struct strategy *strategy)
{
    uint64_t needed;
    return baselines_strategy(baselines, strategy, job->device_budget, job->host_budget, NULL,
                              &needed, NULL);
}

/* Returns the figure that the next policy's plan has to beat. */
static double best_policy(const struct trial_context *context, const struct trial *trial)
{
    double incumbent = trial->policy ? objective_of_plan(context->objective, trial->policy)
                                     : INFINITY;
    return context->policy ? fmin(incumbent, objective_of_plan(context->objective, context->policy))
                           : incumbent;
}

void trial_run_baselines(const struct trial_context *context, const struct layout_spec *spec,
                         struct trial *trial)
{
    const struct candidate_job *job = context->job;
    struct layout *layout = layout_pack(job->trace, spec, NULL);
    struct baselines baselines;
    g_assert(layout);
    trial_open_baselines(job, layout, &baselines);
    for (guint i = 0; context->strategies && i < context->strategies->len; i++) {
        const struct strategy *strategy = g_ptr_array_index(context->strategies, i);
        trials_take_better(context->objective, &trial->strategy,
                           trial_plan_strategy(job, &baselines, strategy));
        trial->plans++;
    }
    for (const struct pstar_policy_ops *const *p = policy_all; *p; p++) {
        trials_take_better(context->objective, &trial->policy,
                           trial_plan_policy(job, &baselines, *p, context->objective,
                                             best_policy(context, trial)));
        trial->plans++;
    }
    trial->done = true;
    baselines_close(&baselines);
    layout_free(layout);
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
    for (int reserves = 1; !still && reserves <= RESERVES_MOST; reserves++) {
        retention_reserve(candidate->retention, largest_chunk(candidate));
        still = try_first(context, candidate, reserves == RESERVES_MOST, trial);
    }
}

/* Each schedule shows how fast the next may be. A fetch that is issued early is in time, but
 * another chunk may need its room. Margins are halved when they do not help. */
static void try_schedules(const struct trial_context *context, const struct candidate *candidate,
                          struct trial *trial)
{
    try_reserves(context, candidate, trial);
    if (trial->effort == EFFORT_0)
        return;
    if (trial->effort == EFFORT_1 && context->incumbent &&
        objective_of_plan(context->objective, trial->plan) >
            VARY_RATIO * objective_of_plan(context->objective, context->incumbent->plan))
        return;
    for (uint32_t margin = FIRST_MARGIN, count = 0; margin <= LAST_MARGIN && count < TIMED_MOST;
         count++)
        if (!try_timed(context, candidate, margin, true, trial))
            margin *= 2;
}

static void search_locally(const struct trial_context *context, const struct candidate *candidate,
                           GRand *random, struct trial *trial)
{
    const struct effort_budget *effort = &effort_budgets[trial->effort];
    for (uint32_t i = 0; i < effort->stages && !g_atomic_int_get(context->stop); i++) {
        retention_improve(candidate->retention, random, effort->rounds << i, context->stop);
        try_schedules(context, candidate, trial);
    }
    trial->lower_bound = candidate_lower_bound(candidate, context->objective);
    if (trial->plan && trial->effort == EFFORT_3)
        try_timed(context, candidate, FIRST_MARGIN, false, trial);
}

/* A mix comes with a bound close to what it can reach, so its schedules are worth more. */
static bool may_improve(const struct trial_context *context, const struct trial *trial)
{
    if (!context->incumbent || trial->effort > EFFORT_1)
        return true;
    double incumbent = objective_of_plan(context->objective, context->incumbent->plan);
    if (trial->placement.pattern == PLACEMENT_MIXED)
        return trial->lower_bound < incumbent;
    return trial->lower_bound <= PRUNE_RATIO * MIN(context->incumbent->lower_bound, incumbent);
}

void trial_run(const struct trial_context *context, const struct layout_spec *spec, uint32_t seed,
               struct trial *trial)
{
    struct candidate *candidate = candidate_new(context->job, spec, &trial->placement,
                                                &trial->needed, &trial->error);
    trial->done = true;
    if (!candidate)
        return;
    retention_choose(candidate->retention, &trial->bias);
    trial->lower_bound = candidate_lower_bound(candidate, context->objective);
    if (may_improve(context, trial)) {
        g_autoptr(GRand) random = g_rand_new_with_seed(seed);
        search_locally(context, candidate, random, trial);
    }
    candidate_free(candidate);
}
