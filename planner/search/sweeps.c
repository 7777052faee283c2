/* Sweeps of baselines, after a search. */
#include "planner/search/trials.h"

enum { OWN_LAYOUTS_MOST = 3 };

#define TUNED                                                                            \
    "gemini-static:0.25,gemini-static:0.75,gemini-auto:4,gemini-auto:16,gemini-auto:64," \
    "twinflow:0.1,twinflow:0.25,twinflow:0.75,twinflow:0.9,"                             \
    "interleave:3,interleave:4,interleave:5,interleave:6"

/* Those of several ranks that are for the trace's stage are tried with the gradients of the trace.
 */
void search_list_strategies(struct search *search)
{
    const struct trace *trace = search->job.trace;
    bool gathers = trace->list_element_bytes[TRACE_GATHERED];
    const char *of_stage = gathers ? ",zero3,fsdp-no-reshard"
                           : trace->ranks <= 1 || trace->shared_parameters ? ""
                                                                           : ",zero2";
    g_autofree char *usual = g_strconcat("all", of_stage, NULL);
    g_autofree char *tuned = g_strconcat("all," TUNED, of_stage, NULL);
    search->strategies = strategy_parse_list(usual, NULL);
    search->tuned = strategy_parse_list(tuned, NULL);
}

static struct layout_choice *choice_at(const struct search *search, guint index)
{
    return &g_array_index(search->choices->items, struct layout_choice, index);
}

/* Adds the layout with updates as traced and, if that differs, all on the host. */
static void add_both_sides(struct search *search, uint32_t layout)
{
    static const struct placement as_traced = {.pattern = PLACEMENT_TRACED};
    static const struct placement all_on_host = {.pattern = PLACEMENT_SPREAD,
                                                 .parts = PLACEMENT_PARTS};
    struct trial_settings settings = search->settings;
    settings.first_update = search->traced_first;
    search_add(search, layout, as_traced, &settings, EFFORT_0);
    if (search->strategies && !choice_at(search, layout)->duplicate)
        search_add(search, layout, all_on_host, &settings, EFFORT_0);
}

/* Strategies are swept with other parameters if the best one comes near the best plan. Those with
 * their usual parameters are swept if they were not tried before, and that is quick. */
static void choose_strategies(struct search *search)
{
    enum objective objective = search->options.objective;
    const struct trial *incumbent = search->context.incumbent;
    const struct plan *best = incumbent ? incumbent->plan : search->context.elsewhere;
    const struct plan *strategy = trials_best_strategy(search->trials, objective);
    bool near = !best ||
                (strategy && objective_of_plan(objective, strategy) <=
                                 search->context.near_ratio * objective_of_plan(objective, best));
    bool untried = !search->trials->len && search->job.trace->operator_count <= LONG_ITERATION;
    search->context.sweep_strategies = near ? search->tuned : untried ? search->strategies : NULL;
}

/* Tries everything with the layout of the best plan so far. Returns false if that was done. */
static bool sweep_own_layout(struct search *search)
{
    struct plan *best = trials_choose(search->trials, search->options.objective);
    uint32_t layout = best ? layout_choices_find(search->choices, best->layout) : 0;
    plan_free(best);
    if (!best || choice_at(search, layout)->done)
        return false;
    choice_at(search, layout)->done = true;
    search->context.sweep_strategies = search->tuned;
    add_both_sides(search, layout);
    search_run(search, iteration_is_very_long(search->job.trace) ? search_run_sweep
                                                                 : search_run_whole_sweep);
    return true;
}

static void sweep_sizes(struct search *search)
{
    guint step = trial_sweeps_briefly(&search->context) ? 3 : 1, swept = 0;
    choose_strategies(search);
    for (guint i = 0; i < search->choices->items->len; i++)
        if (choice_at(search, i)->swept && swept++ % step == 0)
            add_both_sides(search, i);
    search_run(search, search_run_sweep);
}

void search_sweep_baselines(struct search *search)
{
    search->bound = 0; /* a plan that is close to it may still be beaten by a little */
    sweep_own_layout(search);
    sweep_sizes(search);
    for (int i = 0; i < OWN_LAYOUTS_MOST && sweep_own_layout(search); i++)
        continue;
}
