#include "sim/baselines.h"

#include "chunks/slots.h"

void baselines_open(struct baselines *b)
{
    b->slots = slots_round(b->layout);
    b->accesses = accesses_new_digested(b->trace, b->digest, b->layout, b->non_model);
}

void baselines_close(struct baselines *b)
{
    layout_free(b->slots);
    accesses_free(b->accesses);
}

struct plan *baselines_policy(const struct baselines *b, const struct dry_run_options *options,
                              GError **error)
{
    struct dry_run_options wide = *options;
    if (b->nvme)
        wide.host_budget = UINT64_MAX;
    struct plan *plan = dry_run_accesses(b->trace, b->layout, b->slots, b->accesses, &wide, error);
    if (plan && b->nvme && !nvme_homes_give(plan, b->trace, b->accesses, b->nvme, error))
        g_clear_pointer(&plan, plan_free);
    return plan;
}

void baselines_time(const struct baselines *b, struct plan *plan, struct timeline *timeline)
{
    const struct replay_view view = {b->trace, b->accesses, b->costs};
    plan->predicted = replay_with(plan, &view, timeline).steady;
}

struct plan *baselines_strategy(const struct baselines *b, const struct strategy *strategy,
                                uint64_t device_budget, uint64_t host_budget,
                                struct timeline *timeline, uint64_t *needed, GError **error)
{
    const struct strategy_job job = {.trace = b->trace,
                                     .platform = b->platform,
                                     .layout = b->layout,
                                     .non_model = b->non_model,
                                     .device_budget = device_budget,
                                     .host_budget = host_budget,
                                     .nvme = b->nvme,
                                     .unclipped = b->unclipped,
                                     .contest = b->contest};
    struct trace *placed = NULL;
    struct plan *plan = strategy_plan(strategy, &job, &placed, needed, error);
    if (plan) {
        struct non_model *own = strategy_non_model(&job, placed);
        struct accesses *accesses = accesses_new_digested(placed, plan->digest, b->layout,
                                                          own ? own->extent : b->non_model);
        const struct replay_view view = {placed, accesses, b->costs};
        plan->predicted = replay_with(plan, &view, timeline).steady;
        accesses_free(accesses);
        non_model_free(own);
    }
    trace_free(placed);
    return plan;
}
