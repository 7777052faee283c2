#include "planner/search/choices.h"

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

static bool check_one(const struct plan *plan, const struct certificate_alternative *a,
                      const struct recognised *recognised, const struct trace *trace,
                      const struct costs *costs, const struct platform *platform, GError **error)
{
    uint32_t count = recognised->config->layers;
    g_autofree uint8_t *recompute = g_new0(uint8_t, count), *offload = g_new0(uint8_t, count);
    const struct model_choice choice = {recompute, offload, a->host_embedding, a->second_backward};
    const char *wrong = "layers that the model has not";
    struct trace *derived = NULL;

    if (run_layers_parse(a->recompute, recompute, count) &&
        run_layers_parse(a->offload, offload, count) &&
        !(derived = derived_trace(recognised, trace, platform, choice, a->batch, error)))
        return false;
    if (derived && derived->micro_batches != a->micro_batches) {
        wrong = "micro-batches of another step";
    } else if (derived) {
        wrong = what_is_wrong(plan, a, derived, costs, platform);
    }
    trace_free(derived);
    if (wrong)
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                    "certificate: the alternative that computes layers again: %s, offloads: %s, "
                    "embeds on the %s, runs backward %s: %s",
                    a->recompute, a->offload, a->host_embedding ? "host" : "device",
                    a->second_backward ? "twice" : "once", wrong);
    return !wrong;
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
