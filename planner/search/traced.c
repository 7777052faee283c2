#include "planner/search/traced.h"

/* Updates may be elsewhere; a plan of another model is refused by others. */
static bool chooses_alike(const struct plan *plan, const struct trace *trace)
{
    struct run_choices *own = run_choices_of(trace);
    const struct run_choices *choices = plan->choices;
    bool other_model = !choices || choices->layer_count != own->layer_count ||
                       choices->tensor_count != own->tensor_count ||
                       plan->batch * plan->micro_batches != trace->batch * trace->micro_batches;
    bool alike = other_model || !(run_choices_differ(choices, own) & ~(unsigned)RUN_UPDATES);
    run_choices_free(own);
    return alike;
}

struct trace *derived_for_plan(const struct plan *plan, const struct trace *trace,
                               const struct platform *platform, GError **error)
{
    if (chooses_alike(plan, trace))
        return trace_copy(trace);
    struct recognised *recognised = recognise(trace, error);
    struct trace *derived = recognised
                                ? model_derive(recognised, trace, plan->choices, platform, error)
                                : NULL;
    if (!derived)
        g_prefix_error(error,
                       "the plan computes again, or offloads, other layers than the trace, or "
                       "has the embedding or masters elsewhere, or other micro-batches: ");
    recognised_free(recognised);
    return derived;
}
