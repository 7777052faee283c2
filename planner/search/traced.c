#include "planner/search/traced.h"

#include <string.h>

static bool chooses_alike(const struct plan *plan, const struct trace *trace)
{
    struct run_choices *own = run_choices_of(trace);
    const struct run_choices *choices = plan->choices;
    bool other_model = !choices || choices->layer_count != own->layer_count ||
                       choices->tensor_count != own->tensor_count ||
                       plan->batch * plan->micro_batches != trace->batch * trace->micro_batches;
    bool alike = other_model ||
                 (plan->batch == trace->batch && choices->host_embedding == own->host_embedding &&
                  choices->second_backward == own->second_backward &&
                  !memcmp(choices->recompute, own->recompute, own->layer_count) &&
                  !memcmp(choices->offload, own->offload, own->layer_count));

    run_choices_free(own);
    return alike;
}

struct trace *derived_trace(const struct recognised *recognised, const struct trace *trace,
                            const struct platform *platform, struct model_choice choice,
                            uint32_t batch, GError **error)
{
    uint32_t step = trace->batch * trace->micro_batches;
    struct trace *derived = NULL;

    if (batch == trace->batch)
        derived = model_derive(recognised, trace, choice, platform);
    else if (batch && step % batch == 0 && platform &&
             model_is_synthesised(recognised, trace, platform))
        derived = model_rebatch(recognised, trace, platform, batch, step / batch, choice);
    if (!derived)
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                    "micro-batches of %u with the embedding on the %s%s cannot be derived from "
                    "a trace of %u",
                    batch, choice.host_embedding ? "host" : "device",
                    choice.twice ? " and two backwards" : "", trace->batch);
    return derived;
}

struct trace *derived_for_plan(const struct plan *plan, const struct trace *trace,
                               const struct platform *platform, GError **error)
{
    if (chooses_alike(plan, trace))
        return trace_copy(trace);
    const struct run_choices *c = plan->choices;
    const struct model_choice choice = {c->recompute, c->offload, c->host_embedding,
                                        c->second_backward};
    struct recognised *recognised = recognise(trace, error);
    struct trace *derived =
        recognised ? derived_trace(recognised, trace, platform, choice, plan->batch, error) : NULL;
    if (!derived)
        g_prefix_error(error,
                       "the plan computes again, or offloads, other layers than the trace, or "
                       "has the embedding or masters elsewhere, or other micro-batches: ");
    recognised_free(recognised);
    return derived;
}
