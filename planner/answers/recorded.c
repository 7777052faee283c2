#include "planner/answers/recorded.h"

#include "models/derive.h"
#include "sim/operator_times.h"
#include "traces/trace_file.h"

/* Returns how the ranks of the trace that the search began with train together. */
static struct run_stage began(const struct plan *plan)
{
    const struct certificate *certificate = plan->certificate;
    if (certificate && (certificate->began.stage || certificate->began.fast))
        return certificate->began;
    if (plan->choices)
        return (struct run_stage){plan->choices->stage, plan->choices->fast};
    return (struct run_stage){plan->layout->places[TRACE_GATHERED] ? 3 : 2, false};
}

struct trace *recorded_read(const struct plan *plan, const char *path,
                            const struct platform *platform, const struct costs *costs,
                            GError **error)
{
    struct trace *recorded = model_updates_last(trace_read_whole(path, error));
    if (!recorded || plan->ranks <= 1)
        return recorded;
    struct trace *of_rank = model_trace_of_rank(recorded, plan->ranks, began(plan), platform,
                                                error);
    if (of_rank)
        operator_times_leave_exchanges(of_rank, costs);
    else
        g_prefix_error(error, "the plan is for %u ranks, and the trace is ", plan->ranks);
    trace_free(recorded);
    return of_rank;
}
