#include "models/derivation.h"
#include "traces/offload.h"
#include "traces/recompute.h"

#include <string.h>

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
    if (!derivation || derivation->recognised)
        return derivation ? RUN_EVERY_CHOICE | RUN_SUMS : 0;
    return trace_may_offload(derivation->trace) ? RUN_RECOMPUTE | RUN_OFFLOAD : RUN_RECOMPUTE;
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
    other.first_update = traced->first_update;
    other.update_after = traced->update_after;
    other.frozen = traced->frozen;
    return !(run_choices_differ(traced, &other) & ~(unsigned)(RUN_RECOMPUTE | RUN_OFFLOAD));
}

static bool any(const uint8_t *layers, uint32_t count)
{
    return count && memchr(layers, 1, count);
}

/* What a layer that is recomputed saves is what its recomputation begins with. */
static struct trace *derive_layers(const struct trace *trace, const struct run_choices *choices)
{
    struct trace *derived = trace_recompute(trace, choices->recompute);
    if (!any(choices->offload, choices->layer_count) || !trace_may_offload(derived))
        return derived;
    struct trace *offloaded = trace_offload(derived, choices->offload);
    trace_free(derived);
    return offloaded;
}

/* Returns whether the choices leave a trace without known uses of buffers as it is. */
static bool may_offload(const struct trace *trace, const struct run_choices *choices)
{
    return !any(choices->offload, choices->layer_count) || trace_may_offload(trace);
}

struct trace *derivation_trace(const struct derivation *derivation,
                               const struct run_choices *choices, const struct platform *platform,
                               GError **error)
{
    const struct run_choices *traced = derivation->traced;
    if (derivation->recognised)
        return model_derive(derivation->recognised, derivation->trace, choices, platform, error);
    if (choices->layer_count == traced->layer_count && differs_in_layers_alone(traced, choices) &&
        keeps_recomputing(traced, choices) && may_offload(derivation->trace, choices))
        return derive_layers(derivation->trace, choices);
    g_set_error_literal(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                        "pstar does not describe the trace's model, so that only layers which the "
                        "trace does not recompute can be recomputed in addition, and activations "
                        "can leave the device only if the trace says how operators use them");
    return NULL;
}
