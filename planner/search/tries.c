#include "planner/search/tries.h"

#include "planner/search/least.h"
#include "planner/search/rivals.h"

#include <math.h>

/* How much less than the best plan so far a candidate may promise for its schedules to be tried,
 * and its first schedule bring for others to be tried. */
#define PROMISING 1.05
#define NEARLY    1.15

/* Moments that a schedule fetches ahead where no other has shown a pace; with one, margins are
 * these parts of an iteration. */
enum { LOOK_AHEAD = 64, FIRST_MARGIN = 16, LAST_MARGIN = 64, PACED_MOST = 6 };

/* Times that room is set aside for what addresses waste, where schedules take moves without. */
enum { RESERVES_MOST = 3 };

/* Stretches of local search, each twice as long as the one before. It is for the least traffic, and
 * what moves less is not always faster: schedules are tried after each. */
static const struct effort {
    uint32_t stretches, rounds; /* of the first */
} efforts[] = {[EFFORT_PEEK] = {1, 40},
               [EFFORT_GLANCE] = {1, 40},
               [EFFORT_LOOK] = {2, 150},
               [EFFORT_STUDY] = {4, 150}};

/* What the next policy's plan has to beat. */
static double best_policy(const struct tries *tries, const struct outcome *outcome)
{
    double best = outcome->policy ? objective_of_plan(tries->objective, outcome->policy) : INFINITY;

    return tries->policy ? fmin(best, objective_of_plan(tries->objective, tries->policy)) : best;
}

void tries_rivals(const struct tries *tries, const struct layout_spec *spec,
                  struct outcome *outcome)
{
    struct rivals *rivals = rivals_new(tries->job, spec);

    for (guint i = 0; tries->strategies && i < tries->strategies->len; i++) {
        const struct strategy *strategy = g_ptr_array_index(tries->strategies, i);
        outcomes_take_better(tries->objective, &outcome->strategy,
                             rivals_strategy(rivals, strategy));
        outcome->plans++;
    }
    for (const struct policy_ops *const *p = policy_all; *p; p++) {
        outcomes_take_better(
            tries->objective, &outcome->policy,
            rivals_policy(rivals, *p, tries->objective, best_policy(tries, outcome)));
        outcome->plans++;
    }
    outcome->done = true;
    rivals_free(rivals);
}

/* Takes `plan`, with its pace, if it is better than those before; says whether it is. */
static bool take_plan(const struct tries *tries, struct plan *plan, struct pace *pace,
                      struct outcome *outcome)
{
    bool better = objective_prefers(tries->objective, plan, outcome->plan);

    outcome->plans++;
    if (better) {
        pace_free(outcome->pace);
        outcome->pace = pace;
    } else {
        pace_free(pace);
    }
    outcomes_take_better(tries->objective, &outcome->plan, plan);
    return better;
}

static struct stays_options paced(const struct pace *pace, uint32_t margin, bool flush_early)
{
    return (struct stays_options){.look_ahead = UINT32_MAX,
                                  .flush_early = flush_early,
                                  .pace = pace,
                                  .margin_ns = pace->period_ns / margin};
}

/* Whether it is better than those before. */
static bool try_paced(const struct tries *tries, const struct candidate *candidate, uint32_t margin,
                      bool flush_early, struct outcome *outcome)
{
    const struct stays_options options = paced(outcome->pace, margin, flush_early);
    struct pace *pace;
    struct plan *plan = candidate_plan(candidate, &options, &pace);

    return take_plan(tries, plan, pace, outcome);
}

static uint64_t largest_chunk(const struct candidate *candidate)
{
    uint64_t largest = 0;

    for (uint32_t c = 0; c < candidate->layout->chunk_count; c++)
        largest = MAX(largest, candidate->layout->chunks[c].bytes);
    return largest;
}

/* The best plan's of this candidate, or else that of where it starts; NULL: none. */
static struct pace *first_pace(const struct tries *tries, const struct candidate *candidate,
                               const struct outcome *outcome)
{
    const struct pace *pace = outcome->pace ? outcome->pace : outcome->start;

    if (!pace && tries->best)
        pace = tries->best->pace;
    return pace ? pace_for(pace, candidate->trace) : NULL;
}

/* By that pace; says whether chunks lie still. What moves them within the device counts only if
 * `moves`. */
static bool try_first(const struct tries *tries, const struct candidate *candidate, bool moves,
                      struct outcome *outcome)
{
    struct pace *known = first_pace(tries, candidate, outcome), *pace;
    const struct stays_options unpaced = {.look_ahead = LOOK_AHEAD, .flush_early = true};
    const struct stays_options options = known ? paced(known, FIRST_MARGIN, true) : unpaced;
    struct plan *plan = moves ? candidate_plan(candidate, &options, &pace)
                              : candidate_plan_still(candidate, &options, &pace);
    bool still = plan && !plan->predicted.moves;

    if (plan)
        take_plan(tries, plan, pace, outcome);
    pace_free(known);
    return still;
}

/* Where no addresses are found by which chunks lie still, more and more room is set aside. */
static void try_reserves(const struct tries *tries, const struct candidate *candidate,
                         struct outcome *outcome)
{
    bool still = try_first(tries, candidate, true, outcome);

    for (int reserves = 1; !still && reserves <= RESERVES_MOST; reserves++) {
        keep_reserve(candidate->keep, largest_chunk(candidate));
        still = try_first(tries, candidate, reserves == RESERVES_MOST, outcome);
    }
}

/* Each schedule shows how fast the next may be. A fetch that is issued early is not late, but the
 * room that it holds may be what another lacks: margins are halved where they do not help. */
static void try_schedules(const struct tries *tries, const struct candidate *candidate,
                          struct outcome *outcome)
{
    try_reserves(tries, candidate, outcome);
    if (outcome->effort == EFFORT_PEEK)
        return;
    if (outcome->effort == EFFORT_GLANCE && tries->best &&
        objective_of_plan(tries->objective, outcome->plan) >
            NEARLY * objective_of_plan(tries->objective, tries->best->plan))
        return;
    for (uint32_t margin = FIRST_MARGIN, tried = 0; margin <= LAST_MARGIN && tried < PACED_MOST;
         tried++)
        if (!try_paced(tries, candidate, margin, true, outcome))
            margin *= 2;
}

static void search_locally(const struct tries *tries, const struct candidate *candidate,
                           GRand *random, struct outcome *outcome)
{
    const struct effort *effort = &efforts[outcome->effort];

    for (uint32_t i = 0; i < effort->stretches && !g_atomic_int_get(tries->stop); i++) {
        keep_improve(candidate->keep, random, effort->rounds << i, tries->stop);
        try_schedules(tries, candidate, outcome);
    }
    outcome->promise = least_of_kept(candidate, tries->objective);
    if (outcome->plan && outcome->effort == EFFORT_STUDY)
        try_paced(tries, candidate, FIRST_MARGIN, false, outcome);
}

/* A mix comes with a bound that is near what it promises, so that schedules tell more. */
static bool is_promising(const struct tries *tries, const struct outcome *outcome)
{
    if (!tries->best || outcome->effort > EFFORT_GLANCE)
        return true;
    double best = objective_of_plan(tries->objective, tries->best->plan);
    if (outcome->placement.pattern == PLACEMENT_MIXED)
        return outcome->promise < best;
    return outcome->promise <= PROMISING * MIN(tries->best->promise, best);
}

void tries_plans(const struct tries *tries, const struct layout_spec *spec, uint32_t seed,
                 struct outcome *outcome)
{
    struct candidate *candidate = candidate_new(tries->job, spec, &outcome->placement,
                                                &outcome->needed, &outcome->error);

    outcome->done = true;
    if (!candidate)
        return;
    keep_weigh(candidate->keep, &outcome->taste);
    outcome->promise = least_of_kept(candidate, tries->objective);
    if (is_promising(tries, outcome)) {
        g_autoptr(GRand) random = g_rand_new_with_seed(seed);
        search_locally(tries, candidate, random, outcome);
    }
    candidate_free(candidate);
}
