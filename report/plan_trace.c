#include "report/plan_trace.h"

#include "models/derive.h"
#include "models/place_updates.h"

#include <string.h>

/* NULL: the trace is not of a model that is known. */
static struct trace *derive_choice(const struct plan *plan, const struct trace *trace,
                                   const struct platform *platform)
{
    struct run_choices *own = run_choices_of(trace);
    const struct run_choices *choices = plan->choices;
    const struct model_choice choice = {choices->recompute, choices->offload,
                                        choices->host_embedding, choices->second_backward};
    bool alike = own->host_embedding == choices->host_embedding &&
                 own->second_backward == choices->second_backward &&
                 !memcmp(own->recompute, choices->recompute, own->layer_count) &&
                 !memcmp(own->offload, choices->offload, own->layer_count);
    run_choices_free(own);
    if (alike)
        return trace_copy(trace);
    struct recognised *recognised = recognise(trace, NULL);
    struct trace *derived = recognised ? model_derive(recognised, trace, choice, platform) : NULL;
    recognised_free(recognised);
    return derived;
}

static bool is_made_for(const struct plan *plan, const struct trace *trace)
{
    g_autofree char *digest = trace_digest(trace);
    return !g_strcmp0(digest, plan->digest);
}

static bool has_room_for(const struct run_choices *choices, const struct trace *trace)
{
    struct run_choices *own = run_choices_of(trace);
    bool same = own->layer_count == choices->layer_count &&
                own->tensor_count == choices->tensor_count;
    run_choices_free(own);
    return same;
}

struct trace *plan_trace_derive(const struct plan *plan, const struct trace *trace)
{
    if (!plan->choices || !has_room_for(plan->choices, trace))
        return NULL;
    struct platform *platform = plan->certificate && plan->certificate->platform
                                    ? platform_parse(plan->certificate->platform, "", NULL)
                                    : NULL;
    struct trace *chosen = derive_choice(plan, trace, platform);
    struct trace *placed =
        chosen ? model_place_updates(chosen, plan->choices->host_update, platform, NULL) : NULL;
    if (placed && !is_made_for(plan, placed)) {
        trace_free(placed);
        placed = NULL;
    }
    trace_free(chosen);
    platform_free(platform);
    return placed;
}
