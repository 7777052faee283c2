#include "planner/search.h"

#include "planner/tries.h"
#include "sim/workers.h"

enum {
    ROUND = 16,          /* tasks that know of the same best plan, whatever the number of threads */
    PLACED_LAYOUTS = 3,  /* that are tried with the optimizer in every other place */
    REFINED_LAYOUTS = 6, /* whose share is refined */
    FINALISTS_LOOK = 12, /* layouts with their placements that did best at a glance */
    FINALISTS_STUDY = 4, /* and of those */
    COARSE_PARTS = PLACEMENT_PARTS / 8,
    DESCENTS_MOST = 4, /* with steps of one size */
};

static const struct placement as_traced = {PLACEMENT_TRACED, 0, 0};
static const struct placement all_on_device = {PLACEMENT_SPREAD, 0, 0};
static const struct placement all_on_host = {PLACEMENT_SPREAD, PLACEMENT_PARTS, 0};
static const struct placement half_on_host = {PLACEMENT_SPREAD, PLACEMENT_PARTS / 2, 0};

struct search {
    const struct search_options *options;
    struct candidate_job job;
    struct layout_choices *choices;
    GArray *outcomes;   /* struct outcome */
    guint begin;        /* the first outcome of the round that runs */
    struct tries tries; /* what that round knows */
    uint8_t favour;     /* of tasks that are added */
    bool certain;       /* what runs is done whatever asks for an end */
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
    return search->certain || !g_atomic_int_get(&search->stop);
}

static void add_task(struct search *search, uint32_t layout, struct placement placement,
                     enum effort_level effort)
{
    struct outcome outcome = {.layout = layout,
                              .placement = placement,
                              .favour = search->favour,
                              .effort = effort,
                              .needed = UINT64_MAX};
    g_array_append_val(search->outcomes, outcome);
}

/* Once for each layout, placement and favour. */
static void add_glance(struct search *search, uint32_t layout, struct placement placement)
{
    for (guint i = 0; i < search->outcomes->len; i++) {
        const struct outcome *outcome = ranked(search, i);
        if (outcome->effort == EFFORT_GLANCE && outcome->layout == layout &&
            outcome->favour == search->favour && placement_same(&outcome->placement, &placement))
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
    while (search->begin < search->outcomes->len &&
           (search->certain || !g_atomic_int_get(&search->stop))) {
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
    find_best(search);
    if (search->tries.best)
        search->favour = search->tries.best->favour;
}

/* The best outcomes so far once more, with more effort. */
static void try_again(struct search *search, enum effort_level effort, uint32_t most)
{
    g_autofree uint32_t *best = g_new(uint32_t, most);
    uint32_t count = outcomes_rank(search->outcomes, search->options->objective, false, best, most);

    for (uint32_t i = 0; i < count; i++) {
        const struct outcome outcome = *ranked(search, best[i]);
        search->favour = outcome.favour;
        add_task(search, outcome.layout, outcome.placement, effort);
        ranked(search, search->outcomes->len - 1)->start = outcome.pace;
    }
    run_batch(search, run_task);
}

/* The best of the best layouts with other gaps in favour: `step` more and less, and so on. */
static void try_favours(struct search *search, uint32_t layouts, int step, int most)
{
    g_autofree uint32_t *best = g_new(uint32_t, layouts);
    uint32_t count = outcomes_rank(search->outcomes, search->options->objective, true, best,
                                   layouts);

    for (uint32_t i = 0; i < count && search->options->objective != OBJECTIVE_TRAFFIC; i++) {
        const struct outcome outcome = *ranked(search, best[i]);
        for (int change = -most; change <= most; change += step) {
            int favour = outcome.favour + change;
            search->favour = (uint8_t)CLAMP(favour, 0, FAVOUR_PARTS);
            add_glance(search, outcome.layout, outcome.placement);
        }
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

/* What others do with the sizes of a sweep: first, and to the end, so that no search is worse. */
static void try_rivals(struct search *search)
{
    search->certain = true;
    add_swept(search, as_traced, EFFORT_NONE);
    run_batch(search, rival_task);
    search->certain = false;
}

/* The best layouts with the optimizer in parts on the host. */
static void try_placements(struct search *search)
{
    uint32_t best[PLACED_LAYOUTS];
    uint32_t count = outcomes_rank(search->outcomes, search->options->objective, true, best,
                                   PLACED_LAYOUTS);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t layout = ranked(search, best[i])->layout;
        for (uint16_t parts = COARSE_PARTS; parts < PLACEMENT_PARTS; parts += COARSE_PARTS) {
            for (uint8_t pattern = PLACEMENT_FIRST; pattern < PLACEMENT_PATTERNS; pattern++)
                add_glance(search, layout, (struct placement){pattern, parts, 0});
            add_glance(search, layout, (struct placement){PLACEMENT_SPREAD, parts, COARSE_PARTS});
        }
        add_glance(search, layout, as_traced);
        add_glance(search, layout, all_on_device);
        add_glance(search, layout, all_on_host);
    }
    run_batch(search, run_task);
}

/* More or less on the host, of all groups or of the last. */
static void add_neighbours(struct search *search, uint32_t layout, struct placement placement,
                           int step)
{
    static const struct {
        int8_t parts, tail;
    } ways[] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, 1}, {-1, -1}};

    for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
        int parts = placement.parts + step * ways[i].parts;
        int tail = placement.tail + step * ways[i].tail;
        if (parts > 0 && parts < (int)PLACEMENT_PARTS && tail >= 0 && tail <= parts)
            add_glance(search, layout,
                       (struct placement){placement.pattern, (uint16_t)parts, (uint16_t)tail});
    }
}

/* About the best share of each of the best layouts. */
static void refine_placements(struct search *search, uint32_t layouts, int step)
{
    g_autofree uint32_t *best = g_new(uint32_t, layouts);
    uint32_t count = outcomes_rank(search->outcomes, search->options->objective, true, best,
                                   layouts);

    for (uint32_t i = 0; i < count; i++) {
        const struct outcome outcome = *ranked(search, best[i]);
        search->favour = outcome.favour;
        add_neighbours(search, outcome.layout, outcome.placement, step);
    }
    run_batch(search, run_task);
}

/* The best plan's that has its optimizer placed so; NULL: there is none. */
static const struct outcome *best_of_pattern(const struct search *search, uint8_t pattern)
{
    const struct outcome *best = NULL;

    for (guint i = 0; i < search->outcomes->len; i++) {
        const struct outcome *outcome = ranked(search, i);
        if (outcome->plan && outcome->placement.pattern == pattern &&
            (!best || objective_prefers(search->options->objective, outcome->plan, best->plan)))
            best = outcome;
    }
    return best;
}

/* Patterns are compared at their best: which one that is shows late. */
static void refine_patterns(struct search *search, int step)
{
    for (uint8_t pattern = PLACEMENT_FIRST; pattern < PLACEMENT_PATTERNS; pattern++) {
        const struct outcome *best = best_of_pattern(search, pattern);
        if (!best)
            continue;
        search->favour = best->favour;
        add_neighbours(search, best->layout, best->placement, step);
    }
    run_batch(search, run_task);
}

/* As long as that helps, but not for ever. */
static void descend(struct search *search, int step)
{
    for (int i = 0; i < DESCENTS_MOST; i++) {
        const struct outcome *before = search->tries.best;
        const struct plan *plan = before ? before->plan : NULL;
        refine_patterns(search, step);
        if (search->tries.best && search->tries.best->plan == plan)
            return;
    }
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
    try_favours(search, PLACED_LAYOUTS, 2, FAVOUR_PARTS);
    try_placements(search);
    for (int step = COARSE_PARTS / 2; step > 0; step /= 2) {
        descend(search, step);
        if (step == COARSE_PARTS / 4)
            try_favours(search, PLACED_LAYOUTS, 2, FAVOUR_PARTS);
    }
    if (!outcomes_rank(search->outcomes, search->options->objective, false, &best, 1))
        return;
    try_layouts(search, ranked(search, best)->placement);
    for (int step = COARSE_PARTS / 8; step > 0; step /= 4)
        refine_placements(search, REFINED_LAYOUTS, step);
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
    if (!search->options->alone)
        try_rivals(search);
    search->favour = search->options->objective == OBJECTIVE_TRAFFIC ? 0 : FAVOUR_PARTS / 2;
    if (search->tries.strategies)
        place_optimizer(search);
    else
        try_layouts(search, as_traced);
    try_favours(search, REFINED_LAYOUTS, 1, 2);
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
