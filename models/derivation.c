#include "models/derivation.h"
#include "traces/recompute.h"

struct derivation {
    const struct trace *trace;
    struct recognised *recognised; /* NULL if pstar does not describe the model */
    struct run_choices *traced;
};

struct derivation *derivation_new(const struct trace *trace, GError **error)
{
    GError *unknown = NULL;
    struct recognised *recognised = recognise(trace, &unknown);
    struct run_choices *traced = run_choices_of(trace);
    if (!recognised && !(traced->layer_count && trace_may_recompute(trace))) {
        run_choices_free(traced);
        g_propagate_error(error, unknown);
        return NULL;
    }
    g_clear_error(&unknown);
    struct derivation *derivation = g_new(struct derivation, 1);
    *derivation = (struct derivation){trace, recognised, traced};
    return derivation;
}

void derivation_free(struct derivation *derivation)
{
    if (!derivation)
        return;
    recognised_free(derivation->recognised);
    run_choices_free(derivation->traced);
    g_free(derivation);
}

const struct recognised *derivation_model(const struct derivation *derivation)
{
    return derivation ? derivation->recognised : NULL;
}

unsigned derivation_scope(const struct derivation *derivation)
{
    return !derivation ? 0 : derivation->recognised ? RUN_EVERY_CHOICE | RUN_SUMS : RUN_RECOMPUTE;
}

unsigned derivation_scope_of(const struct trace *trace)
{
    struct derivation *derivation = derivation_new(trace, NULL);
    unsigned scope = derivation_scope(derivation);
    derivation_free(derivation);
    return scope;
}

static bool keeps_recomputing(const struct run_choices *traced, const struct run_choices *choices)
{
    bool keeps = true;
    for (uint32_t l = 0; l < traced->layer_count; l++)
        keeps &= choices->recompute[l] || !traced->recompute[l];
    return keeps;
}

/* What is chosen for tensors is ignored, as in model_derive. */
static bool differs_in_layers_alone(const struct run_choices *traced,
                                    const struct run_choices *choices)
{
    struct run_choices other = *choices;
    other.tensor_count = traced->tensor_count;
    other.host_update = traced->host_update;
    other.update_after = traced->update_after;
    other.frozen = traced->frozen;
    return !(run_choices_differ(traced, &other) & ~(unsigned)RUN_RECOMPUTE);
}

struct trace *derivation_trace(const struct derivation *derivation,
                               const struct run_choices *choices, const struct platform *platform,
                               GError **error)
{
    const struct run_choices *traced = derivation->traced;
    if (derivation->recognised)
        return model_derive(derivation->recognised, derivation->trace, choices, platform, error);
    if (choices->layer_count == traced->layer_count && differs_in_layers_alone(traced, choices) &&
        keeps_recomputing(traced, choices))
        return trace_recompute(derivation->trace, choices->recompute);
    g_set_error_literal(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                        "pstar does not describe the trace's model, so that only layers which the "
                        "trace does not recompute can be recomputed in addition");
    return NULL;
}
