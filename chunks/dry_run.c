#include "chunks/dry_run.h"

#include "base/size.h"
#include "chunks/place.h"
#include "chunks/slots.h"

/* Room for one chunk is kept free, but not more than this share of the budget. */
#define SPARE_SHARE 64

static bool check_device_budget(const struct plan_inputs *inputs, GError **error)
{
    moment_id moment = 0;
    uint64_t least = decide_least_bytes(inputs, &moment), budget = inputs->device_budget;
    if (least <= budget)
        return true;
    g_autofree char *size = size_format(inputs->homes->device_slot_bytes);
    g_autofree char *homed =
        inputs->homes->device_slot_bytes
            ? g_strdup_printf(" (%s of it for chunks that do not fit into the host's budget)", size)
            : g_strdup("");
    plan_lacks_memory(error, inputs->trace, moment, least, homed, budget);
    return false;
}

static struct plan *plan_of_policy(const struct plan_inputs *inputs,
                                   const struct dry_run_options *options, bool *refused,
                                   GError **error)
{
    const struct decide_options of_policy = {.policy = options->policy,
                                             .look_ahead = options->look_ahead,
                                             .spare_bytes = options->spare_bytes};
    struct decisions *decisions = decide(inputs, &of_policy);
    struct plan *plan = NULL;
    *refused = options->is_worth &&
               !options->is_worth(options->is_worth_data, inputs->layout, decisions);
    if (decisions->fault) {
        g_set_error_literal(error, PLAN_ERROR, PLAN_ERROR_INVALID, decisions->fault);
    } else if (!*refused) {
        plan = plan_make(inputs, place_decisions(decisions, inputs, PLACE_QUICKLY));
        plan->made_by = g_strdup_printf("policy %s", options->policy->name);
        plan->policy = g_strdup(options->policy->name);
        plan->look_ahead = options->look_ahead;
    }
    decisions_free(decisions);
    return plan;
}

static struct plan *plan_in(const struct trace *trace, const struct layout *layout,
                            const struct accesses *accesses, const struct dry_run_options *options,
                            bool *refused, GError **error)
{
    struct homes *homes = homes_choose(trace, layout, accesses, options->device_budget,
                                       options->host_budget, error);
    const struct plan_inputs inputs = {.trace = trace,
                                       .layout = layout,
                                       .accesses = accesses,
                                       .homes = homes,
                                       .device_budget = options->device_budget,
                                       .host_budget = options->host_budget};
    struct plan *plan = NULL;
    if (homes && check_device_budget(&inputs, error))
        plan = plan_of_policy(&inputs, options, refused, error);
    homes_free(homes);
    return plan;
}

static bool holds_everything(uint64_t device_budget, const struct layout *layout,
                             const struct accesses *accesses)
{
    uint64_t non_model = 0;
    for (uint32_t m = 0; m < accesses->moment_count; m++)
        non_model = MAX(non_model, accesses->non_model[m]);
    return layout_slot_bytes(layout) + non_model <= device_budget;
}

struct plan *dry_run_accesses(const struct trace *trace, const struct layout *layout,
                              const struct layout *slots, const struct accesses *accesses,
                              const struct dry_run_options *options, GError **error)
{
    struct plan *plan = NULL;
    struct dry_run_options spare = *options;
    bool refused = false;
    if (slots && !holds_everything(options->device_budget, layout, accesses)) {
        uint64_t most = MIN(slots_largest(slots), options->device_budget / SPARE_SHARE);
        spare.spare_bytes = MAX(options->spare_bytes, most);
        plan = plan_in(trace, slots, accesses, &spare, &refused, NULL);
    }
    return plan || refused ? plan : plan_in(trace, layout, accesses, options, &refused, error);
}

struct plan *dry_run(const struct trace *trace, const struct layout *layout,
                     const struct dry_run_options *options, GError **error)
{
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, layout, non_model->extent);
    struct layout *slots = slots_round(layout);
    struct plan *plan = dry_run_accesses(trace, layout, slots, accesses, options, error);
    layout_free(slots);
    accesses_free(accesses);
    non_model_free(non_model);
    return plan;
}
