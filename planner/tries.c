#include "planner/tries.h"

#include "planner/least.h"

/* How much less than the best plan so far a candidate may promise for its schedules to be tried,
 * and its first schedule bring for others to be tried. */
#define PROMISING 1.05
#define NEARLY    1.2

enum { FIRST_LOOK_AHEAD = 16 };

/* Stretches of local search, each twice as long as the one before. It is for the least traffic, and
 * what moves less is not always faster: schedules are tried after each. */
static const struct effort {
    uint32_t stretches, rounds; /* of the first */
} efforts[] = {[EFFORT_GLANCE] = {1, 100}, [EFFORT_LOOK] = {2, 150}, [EFFORT_STUDY] = {5, 150}};

static double value_of(const struct tries *tries, const struct plan *plan)
{
    return least_of(tries->objective, objective_traffic(plan), plan->predicted.iteration_seconds);
}

/* Each unless it cannot be better than another policy. */
static void try_policies(const struct tries *tries, const struct candidate *candidate,
                         struct outcome *outcome)
{
    for (const struct policy_ops *const *p = policy_all; *p; p++) {
        double least = least_of_policy(candidate, tries->objective, *p);
        if ((tries->policy && least > value_of(tries, tries->policy)) ||
            (outcome->policy && least > value_of(tries, outcome->policy)))
            continue;
        outcomes_take_better(tries->objective, &outcome->policy,
                             candidate_policy(candidate, *p, 0));
        outcome->plans++;
    }
}

void tries_rivals(const struct tries *tries, const struct layout_spec *spec,
                  struct outcome *outcome)
{
    struct candidate *candidate = candidate_new(tries->job, spec, &outcome->placement,
                                                &outcome->needed, &outcome->error);

    outcome->done = true;
    for (guint i = 0; tries->strategies && i < tries->strategies->len; i++) {
        const struct strategy *strategy = g_ptr_array_index(tries->strategies, i);
        outcomes_take_better(tries->objective, &outcome->strategy,
                             candidate_strategy(tries->job, spec, strategy));
        outcome->plans++;
    }
    if (candidate)
        try_policies(tries, candidate, outcome);
    candidate_free(candidate);
}

/* Returns whether the plan is better than those before. */
static bool try_schedule(const struct tries *tries, const struct candidate *candidate,
                         uint32_t look_ahead, bool flush_early, struct outcome *outcome)
{
    const struct stays_options options = {.look_ahead = look_ahead, .flush_early = flush_early};
    struct plan *plan = candidate_plan(candidate, &options);
    bool better = objective_prefers(tries->objective, plan, outcome->plan);

    outcomes_take_better(tries->objective, &outcome->plan, plan);
    outcome->plans++;
    return better;
}

/* From one look-ahead to ever greater or smaller ones, by factors of 2, while that helps. */
static void try_look_aheads(const struct tries *tries, const struct candidate *candidate,
                            uint32_t first, struct outcome *outcome)
{
    uint32_t moments = candidate->gaps->moment_count, ahead = first;

    try_schedule(tries, candidate, first, true, outcome);
    if (outcome->effort == EFFORT_GLANCE && tries->best &&
        value_of(tries, outcome->plan) > NEARLY * value_of(tries, tries->best->plan))
        return;
    do {
        ahead = MAX(1, 2 * ahead);
    } while (ahead < moments && try_schedule(tries, candidate, ahead, true, outcome));
    ahead = first;
    while (ahead > 0 && try_schedule(tries, candidate, ahead / 2, true, outcome))
        ahead /= 2;
}

/* Where the search for the best look-ahead begins. */
static uint32_t first_look_ahead(const struct tries *tries, const struct outcome *outcome)
{
    if (outcome->plan)
        return outcome->plan->look_ahead;
    if (outcome->effort != EFFORT_GLANCE)
        return outcome->look_ahead;
    return tries->best ? tries->best->plan->look_ahead : FIRST_LOOK_AHEAD;
}

static void search_locally(const struct tries *tries, const struct candidate *candidate,
                           GRand *random, struct outcome *outcome)
{
    const struct effort *effort = &efforts[outcome->effort];

    for (uint32_t i = 0; i < effort->stretches && !g_atomic_int_get(tries->stop); i++) {
        keep_improve(candidate->keep, random, effort->rounds << i, tries->stop);
        try_look_aheads(tries, candidate, first_look_ahead(tries, outcome), outcome);
    }
    outcome->promise = least_of_kept(candidate, tries->objective);
    if (outcome->plan && outcome->effort == EFFORT_STUDY)
        try_schedule(tries, candidate, outcome->plan->look_ahead, false, outcome);
}

static bool is_promising(const struct tries *tries, const struct outcome *outcome)
{
    return !tries->best || outcome->effort != EFFORT_GLANCE ||
           outcome->promise <=
               PROMISING * MIN(tries->best->promise, value_of(tries, tries->best->plan));
}

void tries_plans(const struct tries *tries, const struct layout_spec *spec, uint32_t seed,
                 struct outcome *outcome)
{
    struct candidate *candidate = candidate_new(tries->job, spec, &outcome->placement,
                                                &outcome->needed, &outcome->error);

    outcome->done = true;
    if (!candidate)
        return;
    candidate_seed(candidate, &policy_opt);
    outcome->promise = least_of_kept(candidate, tries->objective);
    if (is_promising(tries, outcome)) {
        g_autoptr(GRand) random = g_rand_new_with_seed(seed);
        search_locally(tries, candidate, random, outcome);
    }
    candidate_free(candidate);
}
