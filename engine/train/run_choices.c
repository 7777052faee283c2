#include "engine/train/run_choices.h"

#include <string.h>

static bool parse_layers(const char *option, const char *text, uint8_t *marks, uint32_t layers,
                         GError **error)
{
    if (run_layers_parse(text ? text : "none", marks, layers))
        return true;
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                "%s %s: not all, none or layers of 0 to %u, as in 0,2,5-7", option, text,
                layers - 1);
    return false;
}

static struct run_choices *choices_of_options(const struct run_options *options,
                                              const struct model_config *config, GError **error)
{
    uint32_t tensors = model_tensor_count(config);
    struct run_choices *choices = run_choices_new(config->layers, tensors);
    choices->host_embedding = options->host_embedding;
    memset(choices->host_update, options->host_update, tensors);
    if (parse_layers("--recompute", options->recompute, choices->recompute, config->layers,
                     error) &&
        parse_layers("--offload-activations", options->offload, choices->offload, config->layers,
                     error))
        return choices;
    run_choices_free(choices);
    return NULL;
}

static bool contradicts(GError **error, const char *option, const char *plan, const char *what)
{
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "%s: %s %s", option, plan, what);
    return false;
}

bool plan_weighs_choices(const struct plan *plan)
{
    return plan->certificate && plan->certificate->alternative_count > 0;
}

/* A layer whose only saved activation the host's embedding sends has none that may leave, and is
 * not among a plan's. */
static bool offload_alike(const struct run_choices *given, const struct run_choices *plan)
{
    uint32_t first = plan->host_embedding && plan->recompute[0] ? 1 : 0;
    return !memcmp(given->offload + first, plan->offload + first, plan->layer_count - first);
}

/* Options may be left out; those that are given must be the plan's. */
static bool check_options(const struct run_options *options, const struct run_choices *given,
                          const struct plan *of_plan, GError **error)
{
    const struct run_choices *plan = of_plan->choices;
    if (options->recompute && !plan_weighs_choices(of_plan) &&
        memcmp(given->recompute, plan->recompute, plan->layer_count) != 0)
        return contradicts(error, "--recompute", options->plan, "recomputes other layers");
    if (options->offload && !plan_weighs_choices(of_plan) && !offload_alike(given, plan))
        return contradicts(error, "--offload-activations", options->plan, "offloads other layers");
    if (options->host_embedding && !plan_weighs_choices(of_plan) && !plan->host_embedding)
        return contradicts(error, "--host-embedding", options->plan, "embeds on the device");
    if (options->host_update &&
        memcmp(given->host_update, plan->host_update, plan->tensor_count) != 0)
        return contradicts(error, "--host-update", options->plan, "updates tensors on the device");
    return true;
}

struct run_choices *choose_run(const struct run_options *options, const struct model_config *config,
                               const struct plan *plan, GError **error)
{
    struct run_choices *choices = choices_of_options(options, config, error);
    const struct run_choices *of_plan = plan ? plan->choices : NULL;
    /* Of another number of layers or tensors it is another model's: plan_check says so. */
    if (!choices || !of_plan || of_plan->layer_count != choices->layer_count ||
        of_plan->tensor_count != choices->tensor_count)
        return choices;
    bool agree = check_options(options, choices, plan, error);
    memcpy(choices->recompute, of_plan->recompute, choices->layer_count);
    memcpy(choices->offload, of_plan->offload, choices->layer_count);
    memcpy(choices->host_update, of_plan->host_update, choices->tensor_count);
    choices->host_embedding = of_plan->host_embedding;
    if (!agree)
        g_clear_pointer(&choices, run_choices_free);
    return choices;
}
