#include "planner/search/variants.h"

#include "planner/proof/bound.h"
#include "planner/search/search.h"
#include "planner/search/traced.h"

static const char *what_is_wrong(const struct plan *plan, const struct certificate_alternative *a,
                                 const struct trace *trace, const struct costs *costs,
                                 const struct platform *platform)
{
    const struct search_options options = {.device_budget = plan->device_budget,
                                           .host_budget = plan->host_budget,
                                           .costs = costs,
                                           .platform = platform};

    if (a->host_price > BOUND_PRICE_SCALE || work_bound(trace, platform, a->host_price) != a->bound)
        return "a lower bound that its price does not give";
    switch ((enum certificate_outcome)a->outcome) {
    case CERTIFICATE_SEARCHED:
        return a->achieved && a->achieved < a->bound ? "a plan below its bound" : NULL;
    case CERTIFICATE_BOUNDED:
        return a->bound < plan->certificate->time.achieved ? "left out, though it may be better"
                                                           : NULL;
    case CERTIFICATE_DOES_NOT_FIT:
        return requirement_is_met(trace, &options, NULL) ? "left out, though it fits" : NULL;
    }
    return "an outcome that is none";
}

static bool refuse(const struct certificate_alternative *a, const char *wrong, GError **error)
{
    const struct run_choices *c = a->choices;
    g_autofree char *recompute = run_layers_format(c->recompute, c->layer_count);
    g_autofree char *offload = run_layers_format(c->offload, c->layer_count);
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                "certificate: the alternative that computes layers again: %s, offloads: %s, "
                "embeds on the %s, runs backward %s: %s",
                recompute, offload, c->host_embedding ? "host" : "device",
                c->second_backward ? "twice" : "once", wrong);
    return false;
}

static bool check_one(const struct plan *plan, const struct certificate_alternative *a,
                      const struct recognised *recognised, const struct trace *trace,
                      const struct costs *costs, const struct platform *platform, GError **error)
{
    const struct run_choices traced = {
        .split_masters = recognised->iteration->job.split_masters,
        .second_backward = model_second_backward(&recognised->iteration->job)};
    struct run_choices choices = *a->choices;
    if (choices.layer_count != recognised->config->layers)
        return refuse(a, "layers that the model has not", error);
    model_choose_backward(&choices, &traced, choices.second_backward);
    struct trace *derived = model_derive(recognised, trace, &choices, platform, error);
    if (!derived)
        return false;
    const char *wrong = what_is_wrong(plan, a, derived, costs, platform);
    trace_free(derived);
    return !wrong || refuse(a, wrong, error);
}

bool verify_alternatives(const struct plan *plan, const struct trace *trace,
                         const struct costs *costs, const struct platform *platform, GError **error)
{
    const struct certificate *certificate = plan->certificate;
    bool ok = true;

    if (!certificate->alternative_count)
        return true;
    struct recognised *recognised = recognise(trace, error);
    for (uint32_t i = 0; recognised && ok && i < certificate->alternative_count; i++)
        ok = check_one(plan, &certificate->alternatives[i], recognised, trace, costs, platform,
                       error);
    ok = ok && recognised;
    recognised_free(recognised);
    return ok;
}
