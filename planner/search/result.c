/* What a search has found. */
#include "planner/search/trials.h"

#include "models/derive.h"

static uint32_t count_layouts(const struct search *search)
{
    g_autofree uint8_t *tried = g_new0(uint8_t, search->choices->items->len);
    uint32_t count = 0;
    for (guint i = 0; i < search->trials->len; i++)
        tried[search_trial(search, i)->layout] |= search_trial(search, i)->done;
    for (guint i = 0; i < search->choices->items->len; i++)
        count += tried[i] &&
                 !g_array_index(search->choices->items, struct layout_choice, i).duplicate;
    return count;
}

static struct search_baseline describe_baseline(const struct plan *plan, const char *name)
{
    return (struct search_baseline){g_strdup(name), chunk_spread_of(plan->layout, TRACE_PARAM),
                                    plan->policy ? plan->look_ahead : 0, plan->predicted};
}

static void describe_layouts(struct search *search, struct search_result *result)
{
    uint32_t best[SEARCH_LAYOUTS];
    uint32_t count = trials_rank(search->trials, search->options.objective, true, best,
                                 SEARCH_LAYOUTS);
    for (uint32_t i = 0; i < count; i++) {
        const struct plan *plan = search_trial(search, best[i])->plan;
        result->layouts[i] = describe_baseline(plan, plan->made_by ? plan->made_by : "planner");
    }
}

static void describe(struct search *search, struct search_result *result)
{
    enum objective objective = search->options.objective;
    const struct plan *policy = trials_best_policy(search->trials, objective);
    const struct plan *strategy = trials_best_strategy(search->trials, objective);
    if (policy)
        result->policy = describe_baseline(policy, policy->policy);
    if (strategy)
        result->strategy = describe_baseline(strategy, strategy->made_by);
    describe_layouts(search, result);
    result->layouts_tried = count_layouts(search);
    for (guint i = search->described; i < search->trials->len; i++)
        result->plans_tried += search_trial(search, i)->plans;
    search->described = search->trials->len;
}

static void take_baseline(enum objective objective, struct search_baseline *best,
                          struct search_baseline *other)
{
    const struct plan_figures *a = &best->figures, *b = &other->figures;
    bool better =
        other->name &&
        (!best->name ||
         objective_figure(objective, b->h2d_bytes + b->d2h_bytes, b->iteration_seconds) <
             objective_figure(objective, a->h2d_bytes + a->d2h_bytes, a->iteration_seconds));
    const struct search_baseline worse = *best;
    if (better) {
        *best = *other;
        *other = worse;
    }
}

void search_baselines_take_better(enum objective objective, struct search_result *result,
                                  struct search_result *other)
{
    take_baseline(objective, &result->policy, &other->policy);
    take_baseline(objective, &result->strategy, &other->strategy);
}

struct search_result *search_result_of(struct search *search, GError **error)
{
    struct search_result *result = g_new0(struct search_result, 1);
    describe(search, result);
    result->stopped = g_atomic_int_get(&search->stop);
    result->close = search_is_over(search) && !result->stopped;
    result->far = search->far;
    result->stage = search->stage;
    result->slack = search->context.incumbent ? search->context.incumbent->slack : SEARCH_NO_SLACK;
    result->plan = trials_choose(search->trials, search->options.objective);
    if (!result->plan) {
        trials_refuse(search->trials, error);
        search_result_free(result);
        return NULL;
    }
    result->trace = model_place_chosen(search->job.trace, result->plan->choices,
                                       search->job.platform, NULL);
    plan_set_digest(result->plan, result->trace);
    return result;
}
