#include "planner/search/rivals.h"

#include "chunks/dry_run.h"
#include "chunks/slots.h"
#include "planner/search/least.h"
#include "sim/replay.h"
#include "sim/replay_strategy.h"

struct baselines {
    const struct candidate_job *job;
    struct layout *layout;
    struct layout *slots;
    struct accesses *accesses;
};

static struct accesses *accesses_of(const struct candidate_job *job, const struct layout *layout)
{
    return job->digest
               ? accesses_new_digested(job->trace, job->digest, layout, job->non_model->extent)
               : accesses_new(job->trace, layout, job->non_model->extent);
}

struct baselines *baselines_new(const struct candidate_job *job, const struct layout_spec *spec)
{
    struct baselines *baselines = g_new(struct baselines, 1);
    struct layout *layout = layout_pack(job->trace, spec, NULL);

    g_assert(layout);
    *baselines = (struct baselines){.job = job,
                                    .layout = layout,
                                    .slots = slots_round(layout),
                                    .accesses = accesses_of(job, layout)};
    return baselines;
}

void baselines_free(struct baselines *baselines)
{
    accesses_free(baselines->accesses);
    layout_free(baselines->slots);
    layout_free(baselines->layout);
    g_free(baselines);
}

struct plan *baselines_policy(const struct baselines *baselines, const struct policy_ops *policy,
                              enum objective objective, double most)
{
    const struct candidate_job *job = baselines->job;
    const struct dry_run_options options = {
        .device_budget = job->device_budget, .host_budget = job->host_budget, .policy = policy};
    const struct replay_view view = {job->trace, baselines->accesses, job->costs};
    struct plan *plan = dry_run_accesses(job->trace, baselines->layout, baselines->slots,
                                         baselines->accesses, &options, NULL);

    if (plan && on_demand_lower_bound(&view, plan, objective) > most)
        g_clear_pointer(&plan, plan_free);
    if (plan)
        plan->predicted = replay(plan, &view).steady;
    return plan;
}

struct plan *baselines_strategy(const struct baselines *baselines, const struct strategy *strategy)
{
    const struct candidate_job *job = baselines->job;
    const struct strategy_job of_layout = {.trace = job->trace,
                                           .platform = job->platform,
                                           .layout = baselines->layout,
                                           .non_model = job->non_model->extent,
                                           .device_budget = job->device_budget,
                                           .host_budget = job->host_budget};
    uint64_t needed;

    return replay_strategy(strategy, &of_layout, job->costs, NULL, &needed, NULL);
}
