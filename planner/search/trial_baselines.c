/* The baselines of a search: what a sweep of policies and strategies would find. */
#include "planner/search/busy.h"
#include "planner/search/trials.h"

#include <math.h>

/* The look-aheads of policies, beside 0. */
static const uint32_t look_aheads[] = {1, 4, 16, 64, 256};

/* A sweep of policies is made if one of these comes near the best plan, or if the iteration has so
 * few operators that it is quick. */
static const struct probe {
    const struct pstar_policy_ops *policy;
    uint32_t look_ahead;
} probes[] = {
    {&policy_fifo, 256}, {&policy_fifo, 16}, {&policy_opt_dirty, 16}, {&policy_opt_dirty, 256}};
enum { FEW_OPERATORS = 200 };

void trial_open_baselines(const struct candidate_job *job, const struct trace *trace,
                          const struct layout *layout, struct baselines *baselines)
{
    *baselines = (struct baselines){.trace = trace,
                                    .digest = job->digest,
                                    .layout = layout,
                                    .non_model = job->non_model->extent,
                                    .costs = job->costs,
                                    .platform = job->platform,
                                    .unclipped = job->unclipped};
    baselines_open(baselines);
}

/* What a policy's plan has to beat. */
struct contest {
    struct replay_view view;
    uint32_t look_ahead;
    enum objective objective;
    double most;
};

static bool is_promising(void *data, const struct layout *layout, const struct decisions *decisions)
{
    const struct contest *contest = data;
    const struct busy_actions actions = {layout,
                                         (const struct plan_action *)decisions->actions->data,
                                         decisions->first, contest->look_ahead};
    return busy_policy_lower_bound(&contest->view, &actions, contest->objective) <= contest->most;
}

struct plan *trial_plan_policy(const struct candidate_job *job, const struct baselines *baselines,
                               const struct pstar_policy_ops *policy, uint32_t look_ahead,
                               enum objective objective, double most)
{
    struct contest contest = {.view = {baselines->trace, baselines->accesses, job->costs},
                              .look_ahead = look_ahead,
                              .objective = objective,
                              .most = most};
    const struct dry_run_options options = {.device_budget = job->device_budget,
                                            .host_budget = job->host_budget,
                                            .policy = policy,
                                            .look_ahead = look_ahead,
                                            .is_worth = is_promising,
                                            .is_worth_data = &contest};
    struct plan *plan = baselines_policy(baselines, &options, NULL);
    if (plan)
        baselines_time(baselines, plan, NULL);
    return plan;
}

/* What a strategy's plan has to beat. */
struct strategy_rivals {
    const struct baselines *baselines;
    enum objective objective;
    double most;
};

/* Some chunks of a strategy come ahead, so its copies may all overlap what the device computes. */
static bool is_promising_strategy(void *data, const struct trace *placed,
                                  const struct accesses *accesses,
                                  const struct decisions *decisions)
{
    const struct strategy_rivals *rivals = data;
    const struct replay_view view = {placed, accesses, rivals->baselines->costs};
    const struct busy_actions actions = {rivals->baselines->layout,
                                         (const struct plan_action *)decisions->actions->data,
                                         decisions->first, .look_ahead = 1};
    return busy_policy_lower_bound(&view, &actions, rivals->objective) <= rivals->most;
}

struct plan *trial_plan_strategy(const struct candidate_job *job, const struct baselines *baselines,
                                 const struct strategy *strategy, enum objective objective,
                                 double most)
{
    struct strategy_rivals rivals = {baselines, objective, most};
    const struct strategy_contest contest = {job->digest, is_promising_strategy, &rivals};
    struct baselines contested = *baselines;
    uint64_t needed;
    contested.contest = &contest;
    return baselines_strategy(&contested, strategy, job->device_budget, job->host_budget, NULL,
                              &needed, NULL);
}

static double figure_of(const struct trial_context *context, const struct plan *plan)
{
    return plan ? objective_of_plan(context->objective, plan) : INFINITY;
}

/* Returns the figure that the next policy's plan has to beat. */
static double best_policy(const struct trial_context *context, const struct trial *trial)
{
    return fmin(figure_of(context, trial->policy), figure_of(context, context->policy));
}

static void try_policy(const struct trial_context *context, const struct baselines *baselines,
                       const struct pstar_policy_ops *policy, uint32_t look_ahead, double most,
                       struct trial *trial)
{
    trials_take_better(context->objective, &trial->policy,
                       trial_plan_policy(context->job, baselines, policy, look_ahead,
                                         context->objective,
                                         fmin(most, best_policy(context, trial))));
    trial->plans++;
}

static void try_strategies(const struct trial_context *context, const struct baselines *baselines,
                           const GPtrArray *strategies, struct trial *trial)
{
    for (guint i = 0; strategies && i < strategies->len && !trial_is_hurried(context, trial); i++) {
        double most = fmin(figure_of(context, trial->strategy),
                           figure_of(context, context->strategy));
        trials_take_better(context->objective, &trial->strategy,
                           trial_plan_strategy(context->job, baselines,
                                               g_ptr_array_index(strategies, i), context->objective,
                                               most));
        trial->plans++;
    }
}

void trial_run_baselines(const struct trial_context *context, const struct layout_choice *choice,
                         struct trial *trial)
{
    struct layout *layout = layout_pack(context->job->trace, &choice->spec, NULL);
    struct baselines baselines;
    g_assert(layout);
    trial_open_baselines(context->job, context->job->trace, layout, &baselines);
    try_strategies(context, &baselines, context->strategies, trial);
    for (const struct pstar_policy_ops *const *p = policy_all;
         *p && !choice->duplicate && !trial_is_hurried(context, trial); p++)
        try_policy(context, &baselines, *p, 0, INFINITY, trial);
    trial->done = true;
    baselines_close(&baselines);
    layout_free(layout);
}

/* ---- sweeps, after the search ---- */

/* Returns the best figure of the rounds before, and elsewhere; INFINITY if nothing fits. */
static double best_known(const struct trial_context *context)
{
    double searched = figure_of(context, context->incumbent ? context->incumbent->plan : NULL);
    return fmin(fmin(searched, figure_of(context, context->elsewhere)),
                fmin(figure_of(context, context->policy), figure_of(context, context->strategy)));
}

bool trial_sweeps_briefly(const struct trial_context *context)
{
    uint32_t most = context->elsewhere ? LONG_ITERATION : VERY_LONG_ITERATION;
    return context->job->trace->operator_count > most;
}

/* Returns whether a sweep of these operators may find a better plan. */
static bool may_pay(const struct trial_context *context, const struct baselines *baselines,
                    bool whole, struct trial *trial)
{
    const struct replay_view view = {baselines->trace, baselines->accesses, context->job->costs};
    const struct busy_times busy = busy_count(&view);
    double near = context->near_ratio * best_known(context), best = INFINITY;
    if (busy_lower_bound(&busy, context->objective) > best_known(context))
        return false;
    size_t count = trial_sweeps_briefly(context) ? 1 : G_N_ELEMENTS(probes);
    for (size_t i = 0; !whole && i < count && best > near; i++) {
        struct plan *plan = trial_plan_policy(context->job, baselines, probes[i].policy,
                                              probes[i].look_ahead, context->objective, near);
        best = figure_of(context, plan);
        trials_take_better(context->objective, &trial->policy, plan);
        trial->plans++;
    }
    return whole || best <= near;
}

static void sweep_policies(const struct trial_context *context, const struct baselines *baselines,
                           bool on_demand, struct trial *trial)
{
    double most = best_known(context);
    for (const struct pstar_policy_ops *const *p = policy_all;
         *p && !trial_is_hurried(context, trial); p++) {
        if (on_demand)
            try_policy(context, baselines, *p, 0, most, trial);
        for (size_t i = 0; i < G_N_ELEMENTS(look_aheads) && !trial_is_hurried(context, trial); i++)
            try_policy(context, baselines, *p, look_aheads[i], most, trial);
    }
}

/* Sweeps strategies with the traced updates, which they place themselves. */
static void sweep(const struct trial_context *context, const struct layout_choice *choice,
                  bool whole, struct trial *trial)
{
    const struct candidate_job *job = context->job;
    bool traced = trial->placement.pattern == PLACEMENT_TRACED;
    struct layout *layout = layout_pack(job->trace, &choice->spec, NULL);
    struct trace *placed =
        traced ? NULL : placement_trace(&trial->placement, job->trace, layout, job->platform);
    struct baselines baselines;
    trial_open_baselines(job, placed ? placed : job->trace, layout, &baselines);
    if (traced)
        try_strategies(context, &baselines, context->sweep_strategies, trial);
    if (!choice->duplicate && may_pay(context, &baselines, whole, trial))
        sweep_policies(context, &baselines, whole || !traced, trial);
    trial->done = true;
    baselines_close(&baselines);
    trace_free(placed);
    layout_free(layout);
}

void trial_sweep(const struct trial_context *context, const struct layout_choice *choice,
                 struct trial *trial)
{
    sweep(context, choice, context->job->trace->operator_count <= FEW_OPERATORS, trial);
}

void trial_sweep_wholly(const struct trial_context *context, const struct layout_choice *choice,
                        struct trial *trial)
{
    sweep(context, choice, true, trial);
}
