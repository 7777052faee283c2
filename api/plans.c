/* Policies, plans and their figures. */
#include "api/api.h"
#include "chunks/dry_run.h"
#include "models/derive.h"
#include "policies/plugin.h"
#include "strategies/strategy.h"
#include "traces/offload.h"

#include <string.h>

/* ---- policies ---- */

const struct pstar_policy_ops *pstar_policy_find(const char *name, struct pstar_error *error)
{
    GError *failure = NULL;
    const struct pstar_policy_ops *policy = policy_open(name, &failure);
    api_finish(failure, PSTAR_ERROR_INPUT, error);
    return policy;
}

const struct pstar_policy_ops *pstar_policy_at(uint32_t index)
{
    uint32_t count = 0;
    while (count < index && policy_all[count])
        count++;
    return policy_all[count];
}

/* ---- plans that need no search ---- */

struct pstar_plan *pstar_plan_from_policy(const struct pstar_trace *trace,
                                          const struct pstar_layout *layout,
                                          const struct pstar_policy_ops *policy,
                                          const struct pstar_budgets *budgets, uint32_t look_ahead,
                                          struct pstar_error *error)
{
    GError *failure = NULL;
    const struct dry_run_options options = {
        .device_budget = api_arena_budget(budgets, trace->trace),
        .host_budget = budgets->host,
        .policy = policy,
        .look_ahead = look_ahead};
    struct plan *plan = dry_run(trace->trace, api_layout(layout), &options, &failure);
    api_finish(failure, PSTAR_ERROR_FAILED, error);
    return api_plan_out(plan);
}

struct pstar_plan *pstar_plan_from_strategy(const struct pstar_trace *trace,
                                            const struct pstar_layout *layout, const char *strategy,
                                            const struct pstar_budgets *budgets,
                                            const struct pstar_platform *platform,
                                            struct pstar_trace **planned, struct pstar_error *error)
{
    GError *failure = NULL;
    struct plan *plan = NULL;
    struct trace *placed = NULL;
    struct non_model *non_model = non_model_place(trace->trace);
    GPtrArray *list = strategy_parse_list(strategy, &failure);
    if (list && list->len != 1)
        g_set_error(&failure, STRATEGY_ERROR, STRATEGY_ERROR_INVALID, "%s: must be one strategy",
                    strategy);
    if (!failure) {
        const struct strategy_job job = {.trace = trace->trace,
                                         .platform = api_platform(platform),
                                         .layout = api_layout(layout),
                                         .non_model = non_model->extent,
                                         .device_budget = api_arena_budget(budgets, trace->trace),
                                         .host_budget = budgets->host};
        uint64_t needed;
        plan = strategy_plan(g_ptr_array_index(list, 0), &job, &placed, &needed, &failure);
    }
    g_clear_pointer(&list, g_ptr_array_unref);
    non_model_free(non_model);
    api_finish(failure, PSTAR_ERROR_INPUT, error);
    *planned = api_trace_new(placed, NULL);
    return api_plan_out(plan);
}

/* ---- files and checks ---- */

struct pstar_plan *pstar_plan_read(const char *path, struct pstar_error *error)
{
    GError *failure = NULL;
    struct plan *plan = plan_read(path, &failure);
    api_finish(failure, PSTAR_ERROR_INPUT, error);
    return api_plan_out(plan);
}

bool pstar_plan_write(const struct pstar_plan *plan, const char *path, struct pstar_error *error)
{
    GError *failure = NULL;
    plan_write(api_plan(plan), path, &failure);
    return api_finish(failure, PSTAR_ERROR_FAILED, error);
}

void pstar_plan_free(struct pstar_plan *plan)
{
    plan_free((struct plan *)plan);
}

bool pstar_plan_check(const struct pstar_plan *plan, const struct pstar_trace *trace,
                      struct pstar_error *error)
{
    GError *failure = NULL;
    plan_check(api_plan(plan), trace->trace, &failure);
    return api_finish(failure, PSTAR_ERROR_INPUT, error);
}

/* Returns the trace in which chunks hold what the plan lets leave the device; NULL if they hold it
 * already, or if there is nothing. */
static struct trace *offloaded(const struct trace *recorded, const struct run_choices *choices)
{
    struct run_choices *traced = run_choices_of(recorded);
    bool offloads = choices && choices->layer_count &&
                    traced->layer_count == choices->layer_count &&
                    memchr(choices->offload, 1, choices->layer_count) &&
                    trace_may_offload(recorded);
    run_choices_free(traced);
    return offloads ? trace_offload(recorded, choices->offload) : NULL;
}

struct pstar_trace *pstar_plan_trace(const struct pstar_plan *plan,
                                     const struct pstar_trace *recorded, struct pstar_error *error)
{
    GError *failure = NULL;
    const struct run_choices *choices = api_plan(plan)->choices;
    struct trace *held = offloaded(recorded->trace, choices);
    struct trace *placed = model_place_chosen(held ? held : recorded->trace, choices, NULL,
                                              &failure);
    trace_free(held);
    api_finish(failure, PSTAR_ERROR_INPUT, error);
    return api_trace_new(placed, NULL);
}

/* ---- what is in a plan ---- */

const struct pstar_layout *pstar_plan_layout(const struct pstar_plan *plan)
{
    return api_layout_out(api_plan(plan)->layout);
}

uint64_t pstar_plan_arena_bytes(const struct pstar_plan *plan)
{
    return api_plan(plan)->arena_bytes;
}

uint64_t pstar_plan_host_pool_bytes(const struct pstar_plan *plan)
{
    return api_plan(plan)->host_pool_bytes;
}

uint64_t pstar_plan_host_address(const struct pstar_plan *plan, uint32_t chunk)
{
    g_assert(chunk < api_plan(plan)->layout->chunk_count);
    return api_plan(plan)->host_address[chunk];
}

uint64_t pstar_plan_initial_address(const struct pstar_plan *plan, uint32_t chunk)
{
    g_assert(chunk < api_plan(plan)->layout->chunk_count);
    return api_plan(plan)->initial_address[chunk];
}

uint32_t pstar_plan_actions(const struct pstar_plan *plan, uint32_t moment)
{
    g_assert(moment <= api_plan(plan)->moment_count);
    const uint32_t *first = &api_plan(plan)->first_action[moment];
    return first[1] - first[0];
}

struct pstar_action pstar_plan_action(const struct pstar_plan *plan, uint32_t moment,
                                      uint32_t index)
{
    g_assert(index < pstar_plan_actions(plan, moment));
    uint32_t first = api_plan(plan)->first_action[moment];
    const struct plan_action *action = &api_plan(plan)->actions[first + index];
    return (struct pstar_action){plan_action_name(action->kind),
                                 action->kind == PLAN_WAIT ? PSTAR_NO_INDEX : action->chunk,
                                 action->address};
}

/* ---- figures ---- */

bool pstar_figure_at(uint32_t index, struct pstar_figure *figure)
{
    static const char *const units[] = {
        [FIGURE_BYTES] = "bytes", [FIGURE_COUNT] = "count", [FIGURE_SECONDS] = "seconds"};
    uint32_t count = 0;
    while (count < index && plan_figure_table[count].name)
        count++;
    const struct plan_figure *found = &plan_figure_table[count];
    if (!found->name)
        return false;
    *figure = (struct pstar_figure){found->name, found->label, units[found->unit],
                                    found->kind == FIGURE_PEAK};
    return true;
}

bool pstar_plan_figure(const struct pstar_plan *plan, const char *name, double *value)
{
    const struct plan_figure *figure = figures_find(name);
    if (figure)
        *value = figures_value(&api_plan(plan)->predicted, figure);
    return figure;
}
