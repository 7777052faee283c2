#include "planner/search/rivals.h"

#include "chunks/dry_run.h"
#include "chunks/slots.h"
#include "planner/search/least.h"
#include "sim/replay.h"
#include "sim/replay_strategy.h"

struct rivals {
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

struct rivals *rivals_new(const struct candidate_job *job, const struct layout_spec *spec)
{
    struct rivals *rivals = g_new(struct rivals, 1);
    struct layout *layout = layout_pack(job->trace, spec, NULL);

    g_assert(layout);
    *rivals = (struct rivals){.job = job,
                              .layout = layout,
                              .slots = slots_round(layout),
                              .accesses = accesses_of(job, layout)};
    return rivals;
}

void rivals_free(struct rivals *rivals)
{
    accesses_free(rivals->accesses);
    layout_free(rivals->slots);
    layout_free(rivals->layout);
    g_free(rivals);
}

struct plan *rivals_policy(const struct rivals *rivals, const struct policy_ops *policy,
                           enum objective objective, double most)
{
    const struct candidate_job *job = rivals->job;
    const struct dry_run_options options = {
        .device_bytes = job->device_bytes, .host_bytes = job->host_bytes, .policy = policy};
    const struct replay_view view = {job->trace, rivals->accesses, job->costs};
    struct plan *plan = dry_run_accesses(job->trace, rivals->layout, rivals->slots,
                                         rivals->accesses, &options, NULL);

    if (plan && least_on_demand(&view, plan, objective) > most)
        g_clear_pointer(&plan, plan_free);
    if (plan)
        plan->predicted = replay(plan, &view).steady;
    return plan;
}

struct plan *rivals_strategy(const struct rivals *rivals, const struct strategy *strategy)
{
    const struct candidate_job *job = rivals->job;
    const struct strategy_job of_layout = {.trace = job->trace,
                                           .platform = job->platform,
                                           .layout = rivals->layout,
                                           .non_model = job->non_model->extent,
                                           .device_bytes = job->device_bytes,
                                           .host_bytes = job->host_bytes};
    uint64_t needed;

    return replay_strategy(strategy, &of_layout, job->costs, NULL, &needed, NULL);
}
