#include "planner/answers/plan_replay.h"

#include "chunks/accesses.h"
#include "chunks/non_model.h"

struct plan_figures plan_replay(const struct plan *plan, const struct trace *trace,
                                const struct costs *costs, struct timeline *timeline)
{
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, plan->layout, non_model->extent);
    const struct replay_view view = {trace, accesses, costs};
    struct plan_figures steady = replay_with(plan, &view, timeline).steady;

    accesses_free(accesses);
    non_model_free(non_model);
    return steady;
}

bool plan_replay_write(const struct plan *plan, const struct trace *trace,
                       const struct costs *costs, const char *path, GError **error)
{
    struct timeline *timeline = timeline_new();

    plan_replay(plan, trace, costs, timeline);
    bool ok = timeline_write(timeline, plan, trace, costs, path, error);
    timeline_free(timeline);
    return ok;
}
