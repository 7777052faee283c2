#include "planner/search.h"

#include "planner/tries.h"
#include "sim/workers.h"

enum {
    ROUND = 16,          /* tasks that know of the same best plan, whatever the number of threads */
    PLACED_LAYOUTS = 3,  /* that are tried with the optimizer in every other place */
    REFINED_LAYOUTS = 8, /* whose share is refined */
    FINALISTS_LOOK = 16, /* layouts with their placements that did best at a glance */
    FINALISTS_STUDY = 8, /* and of those */
    COARSE_PARTS = PLACEMENT_PARTS / 8,
};

static const struct placement as_traced = {PLACEMENT_TRACED, 0};
static const struct placement all_on_device = {PLACEMENT_SPREAD, 0};
static const struct placement all_on_host = {PLACEMENT_SPREAD, PLACEMENT_PARTS};
static const struct placement half_on_host = {PLACEMENT_SPREAD, PLACEMENT_PARTS / 2};

struct search {
    const struct search_options *options;
    struct candidate_job job;
    struct layout_choices *choices;
    GArray *outcomes;   /* struct outcome */
    guint begin;        /* the first outcome of the round that runs */
    struct tries tries; /* what that round knows */
    gint64 deadline;    /* microseconds, monotonic; 0: none */
    gint stop;          /* atomic */
};

static struct outcome *ranked(const struct search *search, uint32_t index)
{
    return &g_array_index(search->outcomes, struct outcome, index);
}

static const struct layout_choice *choice_of(const struct search *search,
                                             const struct outcome *outcome)
{
    return &g_array_index(search->choices->items, struct layout_choice, outcome->layout);
}

static void rival_task(void *data, uint32_t index)
{
    struct search *search = data;
    struct outcome *outcome = ranked(search, search->begin + index);

    tries_rivals(&search->tries, &choice_of(search, outcome)->spec, outcome);
}

static void run_task(void *data, uint32_t index)
{
    struct search *search = data;
    struct outcome *outcome = ranked(search, search->begin + index);

    tries_plans(&search->tries, &choice_of(search, outcome)->spec,
                search->options->seed + search->begin + index, outcome);
}

static bool watch(void *data, uint32_t done, G_GNUC_UNUSED uint32_t of_round)
{
    struct search *search = data;
    const struct search_options *options = search->options;
    bool late = search->deadline && g_get_monotonic_time() > search->deadline;

    if (late ||
        (options->progress &&
         !options->progress(options->progress_data, search->begin + done, search->outcomes->len)))
        g_atomic_int_set(&search->stop, 1);
    return !g_atomic_int_get(&search->stop);
}

static void add_task(struct search *search, uint32_t layout, struct placement placement,
                     enum effort_level effort)
{
    struct outcome outcome = {
        .layout = layout, .placement = placement, .effort = effort, .needed = UINT64_MAX};
    g_array_append_val(search->outcomes, outcome);
}

/* Once for each layout and placement. */
static void add_glance(struct search *search, uint32_t layout, struct placement placement)
{
    for (guint i = 0; i < search->outcomes->len; i++) {
        const struct outcome *outcome = ranked(search, i);
        if (outcome->effort == EFFORT_GLANCE && outcome->layout == layout &&
            outcome->placement.pattern == placement.pattern &&
            outcome->placement.parts == placement.parts)
            return;
    }
    add_task(search, layout, placement, EFFORT_GLANCE);
}

static void find_best(struct search *search)
{
    uint32_t best;

    search->tries.best = outcomes_rank(search->outcomes, search->options->objective, false, &best,
                                       1)
                             ? ranked(search, best)
                             : NULL;
    search->tries.policy = outcomes_best_policy(search->outcomes, search->options->objective);
}

/* Runs `task` for the outcomes that were added since the last batch. */
static void run_batch(struct search *search, void (*task)(void *data, uint32_t index))
{
    while (search->begin < search->outcomes->len && !g_atomic_int_get(&search->stop)) {
        uint32_t count = MIN(ROUND, search->outcomes->len - search->begin);
        find_best(search);
        workers_run(&(struct workers_job){.task = task,
                                          .data = search,
                                          .count = count,
                                          .threads = search->options->threads,
                                          .progress = watch,
                                          .progress_data = search});
        search->begin += count;
    }
    search->begin = search->outcomes->len;
}

/* The best outcomes so far once more, with more effort. */
static void try_again(struct search *search, enum effort_level effort, uint32_t most)
{
    g_autofree uint32_t *best = g_new(uint32_t, most);
    uint32_t count = outcomes_rank(search->outcomes, search->options->objective, false, best, most);

    for (uint32_t i = 0; i < count; i++) {
        const struct outcome outcome = *ranked(search, best[i]);
        add_task(search, outcome.layout, outcome.placement, effort);
        ranked(search, search->outcomes->len - 1)->look_ahead = outcome.plan->look_ahead;
    }
    run_batch(search, run_task);
}

static void try_layouts(struct search *search, struct placement placement)
{
    for (guint i = 0; i < search->choices->items->len; i++)
        add_glance(search, i, placement);
    run_batch(search, run_task);
}

static bool found_any(const struct search *search)
{
    uint32_t any;
    return outcomes_rank(search->outcomes, search->options->objective, false, &any, 1) > 0;
}

static void add_swept(struct search *search, struct placement placement, enum effort_level effort)
{
    for (guint i = 0; i < search->choices->items->len; i++)
        if (g_array_index(search->choices->items, struct layout_choice, i).swept)
            add_task(search, i, placement, effort);
}

/* What others do with the sizes of a sweep. */
static void try_rivals(struct search *search)
{
    add_swept(search, as_traced, EFFORT_NONE);
    run_batch(search, rival_task);
}

/* The best layouts with the optimizer in parts on the host, in every pattern. */
static void try_placements(struct search *search)
{
    uint32_t best[PLACED_LAYOUTS];
    uint32_t count = outcomes_rank(search->outcomes, search->options->objective, true, best,
                                   PLACED_LAYOUTS);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t layout = ranked(search, best[i])->layout;
        for (uint8_t parts = COARSE_PARTS; parts < PLACEMENT_PARTS; parts += COARSE_PARTS)
            for (uint8_t pattern = PLACEMENT_FIRST; pattern < PLACEMENT_PATTERNS; pattern++)
                add_glance(search, layout, (struct placement){pattern, parts});
        add_glance(search, layout, as_traced);
        add_glance(search, layout, all_on_device);
        add_glance(search, layout, all_on_host);
    }
    run_batch(search, run_task);
}

/* Every other pattern with an outcome's share, and all with shares on both sides of it. */
static void add_neighbours(struct search *search, struct outcome outcome, uint8_t step)
{
    uint8_t parts = outcome.placement.parts;

    for (uint8_t pattern = PLACEMENT_FIRST; pattern < PLACEMENT_PATTERNS; pattern++) {
        if (pattern != outcome.placement.pattern)
            add_glance(search, outcome.layout, (struct placement){pattern, parts});
        if (parts > step)
            add_glance(search, outcome.layout, (struct placement){pattern, parts - step});
        if (parts + step < (int)PLACEMENT_PARTS)
            add_glance(search, outcome.layout, (struct placement){pattern, parts + step});
    }
}

/* About the best share of each of the best layouts. */
static void refine_placements(struct search *search, uint32_t layouts, uint8_t step)
{
    g_autofree uint32_t *best = g_new(uint32_t, layouts);
    uint32_t count = outcomes_rank(search->outcomes, search->options->objective, true, best,
                                   layouts);

    for (uint32_t i = 0; i < count; i++)
        add_neighbours(search, *ranked(search, best[i]), step);
    run_batch(search, run_task);
}

/* Which layout is best depends on where the optimizer runs, and the other way round: the sizes of a
 * sweep find a place for it, and with that all layouts are tried. */
static void place_optimizer(struct search *search)
{
    uint32_t best;

    add_swept(search, half_on_host, EFFORT_GLANCE);
    run_batch(search, run_task);
    if (!found_any(search))
        try_layouts(search, as_traced);
    if (!found_any(search))
        try_layouts(search, all_on_host);
    try_placements(search);
    for (uint8_t step = COARSE_PARTS / 2; step > 0; step /= 2)
        refine_placements(search, 1, step);
    if (!outcomes_rank(search->outcomes, search->options->objective, false, &best, 1))
        return;
    try_layouts(search, ranked(search, best)->placement);
    refine_placements(search, REFINED_LAYOUTS, 1);
}

/* Only finds what a layout needs. */
static void measure_task(void *data, uint32_t index)
{
    struct search *search = data;
    struct outcome *outcome = &g_array_index(search->outcomes, struct outcome,
                                             search->begin + index);

    candidate_free(candidate_new(&search->job, &choice_of(search, outcome)->spec,
                                 &outcome->placement, &outcome->needed, &outcome->error));
}

/* From now on the budget is the least with which any layout fits, if that is below it. */
static void tighten_budget(struct search *search)
{
    for (guint i = 0; i < search->choices->items->len; i++) {
        add_task(search, i, as_traced, EFFORT_NONE);
        if (search->tries.strategies)
            add_task(search, i, all_on_host, EFFORT_NONE);
    }
    run_batch(search, measure_task);
    for (guint i = 0; i < search->outcomes->len; i++)
        search->job.device_bytes = MIN(search->job.device_bytes, ranked(search, i)->needed);
}

static uint32_t count_layouts(const struct search *search)
{
    g_autofree uint8_t *tried = g_new0(uint8_t, search->choices->items->len);
    uint32_t count = 0;

    for (guint i = 0; i < search->outcomes->len; i++)
        tried[ranked(search, i)->layout] |= ranked(search, i)->done;
    for (guint i = 0; i < search->choices->items->len; i++)
        count += tried[i];
    return count;
}

static void describe(const struct search *search, struct search_result *result)
{
    enum objective objective = search->options->objective;
    const struct plan *policy = outcomes_best_policy(search->outcomes, objective);
    const struct plan *strategy = outcomes_best_strategy(search->outcomes, objective);

    if (policy)
        result->policy = (struct search_rival){
            g_strdup(policy->policy), policy->layout->chunk_bytes[TRACE_PARAM], policy->predicted};
    if (strategy)
        result->strategy = (struct search_rival){g_strdup(strategy->made_by),
                                                 strategy->layout->chunk_bytes[TRACE_PARAM],
                                                 strategy->predicted};
    result->layouts_tried = count_layouts(search);
    for (guint i = 0; i < search->outcomes->len; i++)
        result->plans_tried += ranked(search, i)->plans;
}

static bool run_search(struct search *search, struct search_result *result, GError **error)
{
    if (search->options->objective == OBJECTIVE_MEMORY)
        tighten_budget(search);
    if (search->tries.strategies)
        place_optimizer(search);
    else
        try_layouts(search, as_traced);
    if (!search->options->alone)
        try_rivals(search);
    try_again(search, EFFORT_LOOK, FINALISTS_LOOK);
    try_again(search, EFFORT_STUDY, FINALISTS_STUDY);
    describe(search, result);
    result->plan = outcomes_choose(search->outcomes, search->options->objective);
    if (!result->plan) {
        outcomes_refuse(search->outcomes, error);
        return false;
    }
    result->trace = placement_of_plan(result->plan, search->job.trace, search->job.platform, NULL);
    return true;
}

struct search_result *search_plan(const struct trace *trace, const struct search_options *options,
                                  GError **error)
{
    struct non_model *non_model = non_model_place(trace);
    struct search search = {.options = options,
                            .job = {.trace = trace,
                                    .non_model = non_model,
                                    .costs = options->costs,
                                    .platform = options->platform,
                                    .device_bytes = options->device_bytes,
                                    .host_bytes = options->host_bytes},
                            .choices = layout_choices_new(trace, options->layouts),
                            .outcomes = outcomes_new()};
    struct search_result *result = g_new0(struct search_result, 1);
    g_autoptr(GPtrArray) strategies = NULL;

    if (placement_is_possible(trace, options->platform))
        strategies = strategy_parse_list("all", NULL);
    search.tries = (struct tries){.job = &search.job,
                                  .objective = options->objective,
                                  .strategies = strategies,
                                  .stop = &search.stop};
    if (options->time_limit > 0)
        search.deadline = g_get_monotonic_time() + (gint64)(options->time_limit * 1e6);
    bool found = run_search(&search, result, error);
    result->stopped = g_atomic_int_get(&search.stop);
    g_array_unref(search.outcomes);
    layout_choices_free(search.choices);
    non_model_free(non_model);
    if (found)
        return result;
    search_result_free(result);
    return NULL;
}

void search_result_free(struct search_result *result)
{
    if (!result)
        return;
    plan_free(result->plan);
    trace_free(result->trace);
    g_free(result->policy.name);
    g_free(result->strategy.name);
    g_free(result);
}
