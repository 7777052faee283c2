#include "engine/run_choices.h"

#include <string.h>

static void refuse_layers(const struct run_options *options, uint32_t layers, GError **error)
{
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                "--recompute %s: not all, none or layers of 0 to %u, as in 0,2,5-7",
                options->recompute, layers - 1);
}

static struct trace_choices *choices_of_options(const struct run_options *options,
                                                const struct model_config *config, GError **error)
{
    uint32_t tensors = model_tensor_count(config);
    struct trace_choices *choices = trace_choices_new(config->layers, tensors);
    choices->host_embedding = options->host_embedding;
    memset(choices->host_update, options->host_update, tensors);
    if (trace_layers_parse(options->recompute ? options->recompute : "none", choices->recompute,
                           config->layers))
        return choices;
    refuse_layers(options, config->layers, error);
    trace_choices_free(choices);
    return NULL;
}

static bool contradicts(GError **error, const char *option, const char *plan, const char *what)
{
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "%s: %s %s", option, plan, what);
    return false;
}

/* Whether the planner weighed other layers to recompute: then they are its choice, and --recompute
 * is what the run would do without a plan. No result depends on it. */
static bool chose_layers(const struct plan *plan)
{
    return plan->certificate && plan->certificate->alternative_count > 0;
}

/* Options may be left out; those that are given must be the plan's. */
static bool check_options(const struct run_options *options, const struct trace_choices *given,
                          const struct plan *of_plan, GError **error)
{
    const struct trace_choices *plan = of_plan->choices;
    if (options->recompute && !chose_layers(of_plan) &&
        memcmp(given->recompute, plan->recompute, plan->layer_count) != 0)
        return contradicts(error, "--recompute", options->plan, "recomputes other layers");
    if (options->host_embedding && !plan->host_embedding)
        return contradicts(error, "--host-embedding", options->plan, "embeds on the device");
    if (options->host_update &&
        memcmp(given->host_update, plan->host_update, plan->tensor_count) != 0)
        return contradicts(error, "--host-update", options->plan, "updates tensors on the device");
    return true;
}

struct trace_choices *run_choices(const struct run_options *options,
                                  const struct model_config *config, const struct plan *plan,
                                  GError **error)
{
    struct trace_choices *choices = choices_of_options(options, config, error);
    const struct trace_choices *of_plan = plan ? plan->choices : NULL;
    /* Of another number of layers or tensors it is another model's: plan_check says so. */
    if (!choices || !of_plan || of_plan->layer_count != choices->layer_count ||
        of_plan->tensor_count != choices->tensor_count)
        return choices;
    bool agree = check_options(options, choices, plan, error);
    memcpy(choices->recompute, of_plan->recompute, choices->layer_count);
    memcpy(choices->host_update, of_plan->host_update, choices->tensor_count);
    choices->host_embedding = of_plan->host_embedding;
    if (!agree)
        g_clear_pointer(&choices, trace_choices_free);
    return choices;
}
