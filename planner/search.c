#include "planner/search.h"

#include "planner/candidate.h"
#include "planner/outcomes.h"
#include "sim/workers.h"

enum {
    PLACED_LAYOUTS = 3,  /* that are tried with the optimizer in every other place */
    FINALISTS_LOOK = 24, /* layouts with their placements that did best at a glance */
    FINALISTS_STUDY = 4, /* and of those */
    COARSE_PARTS = PLACEMENT_PARTS / 8,
};

static const struct effort {
    uint32_t rounds;                    /* of local search */
    uint32_t least_ahead, ahead_factor; /* look-aheads 0, the least, and so on by this factor */
    int ways;                           /* to copy back: early, and late too where it is 2 */
} efforts[] = {[EFFORT_GLANCE] = {100, 16, 16, 1},
               [EFFORT_LOOK] = {400, 4, 4, 1},
               [EFFORT_STUDY] = {4000, 1, 2, 2}};

static const struct placement as_traced = {PLACEMENT_TRACED, 0};
static const struct placement all_on_device = {PLACEMENT_SPREAD, 0};
static const struct placement all_on_host = {PLACEMENT_SPREAD, PLACEMENT_PARTS};

struct search {
    const struct search_options *options;
    struct candidate_job job;
    struct layout_choices *choices;
    GPtrArray *strategies; /* of other systems; NULL where updates cannot be placed */
    GArray *outcomes;      /* struct outcome */
    guint begin;           /* the first outcome of the batch that runs */
    gint64 deadline;       /* microseconds, monotonic; 0: none */
    gint stop;             /* atomic */
};

static const struct layout_choice *choice_of(const struct search *search,
                                             const struct outcome *outcome)
{
    return &g_array_index(search->choices->items, struct layout_choice, outcome->layout);
}

static void try_policies(const struct search *search, const struct candidate *candidate,
                         struct outcome *outcome)
{
    for (const struct policy_ops *const *p = policy_all; *p; p++) {
        outcomes_take_better(search->options->objective, &outcome->policy,
                             candidate_policy(candidate, *p, 0));
        outcome->plans++;
    }
}

static void try_strategies(const struct search *search, const struct layout_spec *spec,
                           struct outcome *outcome)
{
    for (guint i = 0; search->strategies && i < search->strategies->len; i++) {
        const struct strategy *strategy = g_ptr_array_index(search->strategies, i);
        outcomes_take_better(search->options->objective, &outcome->strategy,
                             candidate_strategy(&search->job, spec, strategy));
        outcome->plans++;
    }
}

static void try_schedules(const struct search *search, const struct candidate *candidate,
                          struct outcome *outcome)
{
    const struct effort *effort = &efforts[outcome->effort];
    uint32_t moments = candidate->gaps->moment_count;

    for (uint32_t ahead = 0; ahead < moments;
         ahead = MAX(effort->least_ahead, ahead * effort->ahead_factor))
        for (int late = 0; late < effort->ways; late++) {
            struct stays_options options = {.look_ahead = ahead, .flush_early = !late};
            outcomes_take_better(search->options->objective, &outcome->plan,
                                 candidate_plan(candidate, &options));
            outcome->plans++;
        }
}

static void run_task(void *data, uint32_t index)
{
    struct search *search = data;
    struct outcome *outcome = &g_array_index(search->outcomes, struct outcome,
                                             search->begin + index);
    const struct layout_choice *choice = choice_of(search, outcome);
    bool rivals = choice->swept && outcome->effort == EFFORT_GLANCE &&
                  outcome->placement.pattern == PLACEMENT_TRACED;
    struct candidate *candidate = candidate_new(&search->job, &choice->spec, &outcome->placement,
                                                &outcome->needed, &outcome->error);

    outcome->done = true;
    if (rivals)
        try_strategies(search, &choice->spec, outcome);
    if (!candidate)
        return;
    if (rivals)
        try_policies(search, candidate, outcome);
    candidate_seed(candidate, &policy_opt);
    g_autoptr(GRand) random = g_rand_new_with_seed(search->options->seed + search->begin + index);
    keep_improve(candidate->keep, random, efforts[outcome->effort].rounds, &search->stop);
    try_schedules(search, candidate, outcome);
    candidate_free(candidate);
}

static bool watch(void *data, uint32_t done, uint32_t total)
{
    struct search *search = data;
    const struct search_options *options = search->options;
    bool late = search->deadline && g_get_monotonic_time() > search->deadline;

    if (late ||
        (options->progress &&
         !options->progress(options->progress_data, search->begin + done, search->begin + total)))
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

/* Runs `task` for the outcomes that were added since the last batch. */
static void run_batch(struct search *search, void (*task)(void *data, uint32_t index))
{
    if (!g_atomic_int_get(&search->stop))
        workers_run(&(struct workers_job){.task = task,
                                          .data = search,
                                          .count = search->outcomes->len - search->begin,
                                          .threads = search->options->threads,
                                          .progress = watch,
                                          .progress_data = search});
    search->begin = search->outcomes->len;
}

static struct outcome *ranked(const struct search *search, uint32_t index)
{
    return &g_array_index(search->outcomes, struct outcome, index);
}

/* The best outcomes so far once more, with more effort. */
static void try_again(struct search *search, enum effort_level effort, uint32_t most)
{
    g_autofree uint32_t *best = g_new(uint32_t, most);
    uint32_t count = outcomes_rank(search->outcomes, search->options->objective, false, best, most);

    for (uint32_t i = 0; i < count; i++) {
        const struct outcome outcome = *ranked(search, best[i]);
        add_task(search, outcome.layout, outcome.placement, effort);
    }
    run_batch(search, run_task);
}

static void try_layouts(struct search *search, struct placement placement)
{
    for (guint i = 0; i < search->choices->items->len; i++)
        add_task(search, i, placement, EFFORT_GLANCE);
    run_batch(search, run_task);
}

static bool found_any(const struct search *search)
{
    uint32_t any;
    return outcomes_rank(search->outcomes, search->options->objective, false, &any, 1) > 0;
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
                add_task(search, layout, (struct placement){pattern, parts}, EFFORT_GLANCE);
        add_task(search, layout, all_on_device, EFFORT_GLANCE);
        add_task(search, layout, all_on_host, EFFORT_GLANCE);
    }
    run_batch(search, run_task);
}

/* Every pattern with shares on both sides of an outcome's. */
static void add_neighbours(struct search *search, struct outcome outcome, uint8_t step)
{
    uint8_t parts = outcome.placement.parts;

    for (uint8_t pattern = PLACEMENT_FIRST; pattern < PLACEMENT_PATTERNS; pattern++) {
        if (parts > step)
            add_task(search, outcome.layout, (struct placement){pattern, parts - step},
                     EFFORT_GLANCE);
        if (parts + step < (int)PLACEMENT_PARTS)
            add_task(search, outcome.layout, (struct placement){pattern, parts + step},
                     EFFORT_GLANCE);
    }
}

/* The best share of the layouts that do best with it, in ever smaller steps. */
static void refine_placements(struct search *search)
{
    for (uint8_t step = COARSE_PARTS / 2; step > 0; step /= 2) {
        uint32_t best[PLACED_LAYOUTS];
        uint32_t count = outcomes_rank(search->outcomes, search->options->objective, true, best,
                                       PLACED_LAYOUTS);
        for (uint32_t i = 0; i < count; i++)
            add_neighbours(search, *ranked(search, best[i]), step);
        run_batch(search, run_task);
    }
}

/* Which layout is best depends on where the optimizer runs, and the other way round. */
static void place_optimizer(struct search *search)
{
    uint32_t best;

    try_placements(search);
    if (!outcomes_rank(search->outcomes, search->options->objective, false, &best, 1))
        return;
    const struct placement placement = ranked(search, best)->placement;
    if (placement.pattern != PLACEMENT_TRACED)
        try_layouts(search, placement);
    refine_placements(search);
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
        add_task(search, i, as_traced, EFFORT_GLANCE);
        if (search->strategies)
            add_task(search, i, all_on_host, EFFORT_GLANCE);
    }
    run_batch(search, measure_task);
    for (guint i = 0; i < search->outcomes->len; i++)
        search->job.device_bytes = MIN(search->job.device_bytes, ranked(search, i)->needed);
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
    for (guint i = 0; i < search->outcomes->len; i++) {
        result->layouts_tried += ranked(search, i)->done &&
                                 ranked(search, i)->effort == EFFORT_GLANCE &&
                                 ranked(search, i)->placement.pattern == PLACEMENT_TRACED;
        result->plans_tried += ranked(search, i)->plans;
    }
}

static bool run_search(struct search *search, struct search_result *result, GError **error)
{
    if (search->options->objective == OBJECTIVE_MEMORY)
        tighten_budget(search);
    try_layouts(search, as_traced);
    if (search->strategies && !found_any(search))
        try_layouts(search, all_on_host);
    if (search->strategies)
        place_optimizer(search);
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

    if (placement_is_possible(trace, options->platform))
        search.strategies = strategy_parse_list("all", NULL);
    if (options->time_limit > 0)
        search.deadline = g_get_monotonic_time() + (gint64)(options->time_limit * 1e6);
    bool found = run_search(&search, result, error);
    result->stopped = g_atomic_int_get(&search.stop);
    g_clear_pointer(&search.strategies, g_ptr_array_unref);
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
