#include "planner/traced.h"

#include "models/derive.h"

#include <string.h>

static bool recomputes_alike(const struct plan *plan, const struct trace *trace)
{
    struct trace_choices *own = trace_choices_of(trace);
    const struct trace_choices *choices = plan->choices;
    bool alike = !choices || choices->layer_count != own->layer_count ||
                 choices->tensor_count != own->tensor_count ||
                 !memcmp(choices->recompute, own->recompute, own->layer_count);

    trace_choices_free(own);
    return alike;
}

struct trace *traced_for_plan(const struct plan *plan, const struct trace *trace, GError **error)
{
    if (recomputes_alike(plan, trace))
        return trace_copy(trace);
    struct recognised *recognised = recognise(trace, error);
    if (!recognised) {
        g_prefix_error(error, "the plan computes other layers again than the trace: ");
        return NULL;
    }
    struct trace *derived = model_derive(recognised, trace, plan->choices->recompute);
    recognised_free(recognised);
    return derived;
}
