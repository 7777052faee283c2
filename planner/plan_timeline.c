#include "planner/plan_timeline.h"

#include "chunks/accesses.h"
#include "chunks/non_model.h"
#include "sim/replay.h"

bool plan_timeline_write(const struct plan *plan, const struct trace *trace,
                         const struct costs *costs, const char *path, GError **error)
{
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, plan->layout, non_model->extent);
    const struct replay_view view = {trace, accesses, costs};
    struct timeline *timeline = timeline_new();

    replay_with(plan, &view, timeline);
    bool ok = timeline_write(timeline, plan, trace, costs, path, error);
    timeline_free(timeline);
    accesses_free(accesses);
    non_model_free(non_model);
    return ok;
}
