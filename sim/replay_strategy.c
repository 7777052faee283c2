#include "sim/replay_strategy.h"

#include "sim/replay.h"

struct plan *replay_strategy(const struct strategy *strategy, const struct strategy_job *job,
                             const struct costs *costs, struct timeline *timeline, uint64_t *needed,
                             GError **error)
{
    struct trace *placed = NULL;
    struct plan *plan = strategy_plan(strategy, job, &placed, needed, error);

    if (plan) {
        struct accesses *accesses = accesses_new_digested(placed, plan->digest, job->layout,
                                                          job->non_model);
        struct replay_view view = {placed, accesses, costs};
        plan->predicted = replay_with(plan, &view, timeline).steady;
        accesses_free(accesses);
    }
    trace_free(placed);
    return plan;
}
