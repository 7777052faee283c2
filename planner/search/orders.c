/* Other orders of the host's updates. The gradients of the last layers come first, and forward
 * needs the first layers first. So the host may begin with any tensor of the model; it then goes on
 * in the model's order, and ends with the tensors before. Which one is best depends on what the
 * host waits for, and on who waits for the host: a large embedding, for example, whose gradient
 * comes last and which forward needs first, is best updated last if the host has it in any case,
 * and else keeps all others waiting. */
#include "planner/search/trials.h"

/* Where the host may begin: behind so much of the model, but at least behind its first tensor. */
static const double shares[SEARCH_ORDERS] = {0, 0.25, 0.5, 0.75, 0.9, 0.95};

tensor_id search_traced_first(const struct trace *trace)
{
    struct run_choices *choices = run_choices_of(trace);
    tensor_id first = choices->first_update;
    run_choices_free(choices);
    return first;
}

tensor_id search_order(const struct search *search, uint32_t order)
{
    const struct trace *trace = search->job.trace;
    double all = 0, before = 0;
    tensor_id first = 0;
    for (tensor_id t = 0; t < trace->tensor_count; t++)
        all += (double)trace->tensors[t].elements;
    while (first + 1 < trace->tensor_count && (!first || before < shares[order] * all))
        before += (double)trace->tensors[first++].elements;
    return first;
}

void search_try_orders(struct search *search)
{
    const struct trial *best = search->context.incumbent;
    if (!best || !best->placement.parts || search->job.trace->stages > 1)
        return;
    uint32_t layout = best->layout;
    const struct placement placement = best->placement;
    struct trial_settings settings = trial_settings_of(best);
    for (uint32_t order = 0; order <= SEARCH_ORDERS; order++) {
        settings.first_update = order < SEARCH_ORDERS ? search_order(search, order) : 0;
        search_add_once(search, layout, placement, &settings);
    }
    search_run(search, search_run_plans);
}
