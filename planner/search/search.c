#include "planner/search/search.h"
#include "models/derive.h"
#include "planner/proof/bound.h"
#include "planner/proof/certificate.h"
#include "planner/search/candidate.h"
#include "planner/search/trials.h"

#include <math.h>

enum {
    SHORTLISTED_LAYOUTS = 16, /* with the best first schedules of all layouts */
    PLACED_LAYOUTS = 3,       /* whose optimizer is tried in all coarse places */
    REFINED_LAYOUTS = 6,      /* whose placement is refined */
    FINALISTS_2 = 12,         /* layouts with placements that did best with effort 1 */
    FINALISTS_3 = 4,          /* of those, with effort 2 */
    COARSE_PARTS = PLACEMENT_PARTS / 8,
    DESCENTS_MOST = 4, /* for each step size */
    MIX_MORE = 5,      /* shares of a mix, from its own on */
    SPREAD_LESS = 4,   /* shares with evictions spread */
    IDLE_MOST = 3,     /* rounds of changes in a row that gain less than LEAST_GAIN */
};

/* Changes go on while the plan takes more than WIDE times as long as its bound, and searches begin
 * anew if it takes more than VERY_WIDE times as long. */
#define WIDE      1.03
#define VERY_WIDE 1.05

/* Up to these times the best plan's, a baseline may become better with other parameters: in the
 * search that found this plan, and in others and in very long iterations. */
#define NEAR_RATIO       1.25
#define NEAR_RATIO_BRIEF 1.1

static const struct placement as_traced = {.pattern = PLACEMENT_TRACED};
static const struct placement all_on_device = {.pattern = PLACEMENT_SPREAD};
static const struct placement all_on_host = {.pattern = PLACEMENT_SPREAD, .parts = PLACEMENT_PARTS};
static const struct placement half_on_host = {.pattern = PLACEMENT_SPREAD,
                                              .parts = PLACEMENT_PARTS / 2};

/* Returns how many of the best are refined. */
static uint32_t refined(const struct search *search, uint32_t most)
{
    return iteration_is_very_long(search->job.trace) ? (most + 5) / 6 : most;
}

/* Repeats the best trials with more effort. */
static void try_again(struct search *search, enum effort_level effort, uint32_t most)
{
    g_autofree uint32_t *best = g_new(uint32_t, most);
    uint32_t count = trials_rank(search->trials, search->options.objective, false, best, most);
    for (uint32_t i = 0; i < count; i++) {
        const struct trial trial = *search_trial(search, best[i]);
        const struct trial_settings settings = trial_settings_of(&trial);
        search_add(search, trial.layout, trial.placement, &settings, effort);
        search_trial(search, search->trials->len - 1)->start = trial.times;
    }
    search_run(search, search_run_plans);
}

static const struct layout_choice *choice_at(const struct search *search, guint index)
{
    return &g_array_index(search->choices->items, struct layout_choice, index);
}

/* Makes first schedules for all layouts, and more schedules for the best. */
static void try_layouts(struct search *search, struct placement placement)
{
    g_autofree uint32_t *best = g_new(uint32_t, SHORTLISTED_LAYOUTS);
    for (guint i = 0; i < search->choices->items->len; i++)
        if (!choice_at(search, i)->duplicate)
            search_add(search, i, placement, &search->settings, EFFORT_0);
    search_run(search, search_run_plans);
    uint32_t count = trials_rank(search->trials, search->options.objective, true, best,
                                 SHORTLISTED_LAYOUTS);
    for (uint32_t i = 0; i < count; i++)
        best[i] = search_trial(search, best[i])->layout;
    for (uint32_t i = 0; i < count; i++)
        search_add_once(search, best[i], placement, &search->settings);
    search_run(search, search_run_plans);
}

static bool found_any(const struct search *search)
{
    uint32_t any;
    return trials_rank(search->trials, search->options.objective, false, &any, 1) > 0;
}

static void add_swept(struct search *search, struct placement placement)
{
    for (guint i = 0; i < search->choices->items->len; i++)
        if (choice_at(search, i)->swept && !choice_at(search, i)->duplicate)
            search_add(search, i, placement, &search->settings, EFFORT_1);
}

/* Runs the baselines first and to their end, with the sizes of a sweep, so that no search is worse
 * than they are. */
static void try_baselines(struct search *search)
{
    search->certain = true;
    for (guint i = 0; i < search->choices->items->len; i++)
        if (choice_at(search, i)->swept)
            search_add(search, i, as_traced, &search->settings, EFFORT_0);
    search_run(search, search_run_baselines);
    search->certain = false;
}

/* Adds a layout with parts of the optimizer on the host. */
static void add_placements(struct search *search, uint32_t layout,
                           const struct trial_settings *settings)
{
    for (uint16_t parts = COARSE_PARTS; parts < PLACEMENT_PARTS; parts += COARSE_PARTS)
        for (uint16_t tail = 0; tail <= COARSE_PARTS; tail += COARSE_PARTS)
            search_add_once(
                search, layout,
                (struct placement){.pattern = PLACEMENT_SPREAD, .parts = parts, .tail = tail},
                settings);
    search_add_once(search, layout, all_on_host, settings);
}

/* Tries the best layouts with parts of the optimizer on the host, and with this weight of copies to
 * the host; SEARCH_ANY_SHARE stands for that of each layout's best trial. */
static void try_placements(struct search *search, int d2h_share)
{
    uint32_t best[PLACED_LAYOUTS];
    uint32_t count = trials_rank(search->trials, search->options.objective, true, best,
                                 PLACED_LAYOUTS);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t layout = search_trial(search, best[i])->layout;
        struct trial_settings settings = trial_settings_of(search_trial(search, best[i]));
        if (d2h_share != SEARCH_ANY_SHARE)
            settings.bias.d2h_share = (uint8_t)d2h_share;
        add_placements(search, layout, &settings);
        search_add_once(search, layout, as_traced, &settings);
        search_add_once(search, layout, all_on_device, &settings);
    }
    search_run(search, search_run_plans);
}

/* Tries the best layout with all coarse places of the optimizer in all orders of the host's
 * updates, because the best place depends on the order. */
static void place_in_orders(struct search *search)
{
    if (!search->context.incumbent || search->job.trace->stages > 1)
        return;
    const uint32_t layout = search->context.incumbent->layout;
    struct trial_settings settings = search->settings;
    for (uint32_t order = 0; order < SEARCH_ORDERS; order++) {
        settings.first_update = search_order(search, order);
        add_placements(search, layout, &settings);
    }
    search_run(search, search_run_plans);
}

/* Tries more or less on the host than the trial, of all groups or of the last. */
static void add_neighbours(struct search *search, const struct trial *trial, int step)
{
    static const struct {
        int8_t parts, tail;
    } ways[] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, 1}, {-1, -1}};
    const struct placement placement = trial->placement;
    const struct trial_settings settings = trial_settings_of(trial);
    const uint32_t layout = trial->layout; /* adding trials moves this one */

    for (size_t i = 0; i < G_N_ELEMENTS(ways) && placement.pattern != PLACEMENT_CHOSEN; i++) {
        int parts = placement.parts + step * ways[i].parts;
        int tail = placement.tail + step * ways[i].tail;
        if (parts > 0 && parts < (int)PLACEMENT_PARTS && tail >= 0 && tail <= parts)
            search_add_once(search, layout,
                            (struct placement){.pattern = placement.pattern,
                                               .parts = (uint16_t)parts,
                                               .tail = (uint16_t)tail,
                                               .mix = placement.mix},
                            &settings);
    }
}

/* Refines the placement of each of the best layouts. */
static void refine_placements(struct search *search, uint32_t layouts, int step)
{
    g_autofree uint32_t *best = g_new(uint32_t, layouts);
    uint32_t count = trials_rank(search->trials, search->options.objective, true, best, layouts);
    for (uint32_t i = 0; i < count; i++)
        add_neighbours(search, search_trial(search, best[i]), step);
    search_run(search, search_run_plans);
}

/* Returns the best trial with this placement pattern, or NULL. */
static const struct trial *best_of_pattern(const struct search *search, uint8_t pattern)
{
    const struct trial *best = NULL;
    for (guint i = 0; i < search->trials->len; i++) {
        const struct trial *trial = search_trial(search, i);
        if (trial->plan && trial->placement.pattern == pattern &&
            (!best || objective_prefers(search->options.objective, trial->plan, best->plan)))
            best = trial;
    }
    return best;
}

/* Returns the objective of the best plan; INFINITY if there is none. */
static double best_objective(const struct search *search)
{
    const struct trial *best = search->context.incumbent;
    return best ? objective_of_plan(search->options.objective, best->plan) : INFINITY;
}

/* Refines the best trial of each pattern, because which pattern is best shows late. */
static void refine_patterns(struct search *search, int step)
{
    for (uint8_t pattern = PLACEMENT_SPREAD; pattern < PLACEMENT_PATTERNS; pattern++) {
        const struct trial *best = best_of_pattern(search, pattern);
        if (best)
            add_neighbours(search, best, step);
    }
    search_run(search, search_run_plans);
}

/* Repeats while that helps, a limited number of times; in very long iterations, while it helps
 * much. */
static void descend(struct search *search, int step)
{
    for (int i = 0; i < DESCENTS_MOST; i++) {
        const struct trial *best = search->context.incumbent;
        const struct plan *plan = best ? best->plan : NULL;
        double before = best_objective(search);
        refine_patterns(search, step);
        if (search->context.incumbent && search->context.incumbent->plan == plan)
            return;
        if (iteration_is_very_long(search->job.trace) &&
            best_objective(search) >= (1 - LEAST_GAIN) * before)
            return;
    }
}

/* Tries the best layouts with evictions spread over the iteration. The link then serves the device
 * better, so fewer updates on the host may be best. */
static void try_spread(struct search *search)
{
    uint32_t best[PLACED_LAYOUTS];
    uint32_t count = trials_rank(search->trials, search->options.objective, true, best,
                                 PLACED_LAYOUTS);
    for (uint32_t i = 0; i < count; i++) {
        const struct trial trial = *search_trial(search, best[i]);
        struct placement placement = trial.placement;
        struct trial_settings settings = trial_settings_of(&trial);
        settings.bias.spread = true;
        for (int less = 0; less < SPREAD_LESS && placement.parts >= placement.tail; less++) {
            search_add_once(search, trial.layout, placement, &settings);
            placement.parts = (uint16_t)MAX(placement.parts - COARSE_PARTS / 8, 0);
        }
    }
    search_run(search, search_run_plans);
    for (int step = COARSE_PARTS / 8; step > 0 && search->settings.bias.spread; step /= 4)
        descend(search, step);
}

/* Adds a layout with a mix, and with a little more on the host, since whole groups cannot be mixed.
 */
static void add_mixed(struct search *search, uint32_t layout, const double *mix)
{
    const struct trace *trace = search->job.trace;
    double on_host = 0, all = 0;
    for (uint32_t t = 0; t < trace->tensor_count; t++) {
        all += (double)trace->tensors[t].elements;
        on_host += mix[t] * (double)trace->tensors[t].elements;
    }
    int parts = (int)(PLACEMENT_PARTS * on_host / all);
    for (int more = 0; more < MIX_MORE; more++, parts += COARSE_PARTS / 8)
        if (parts > 0 && parts < (int)PLACEMENT_PARTS)
            search_add_once(search, layout,
                            (struct placement){
                                .pattern = PLACEMENT_MIXED, .parts = (uint16_t)parts, .mix = mix},
                            &search->settings);
}

/* Sets the job of the best plan's time bound, for its mixes. Returns the trace of that plan, which
 * the caller frees, or NULL if no other places are worth trying. */
static struct trace *begin_mixes(const struct search *search, struct time_proof_job *job)
{
    const struct trace *traced = search->job.trace;
    const struct trial *best = search->context.incumbent;
    if (!best || search->options.objective == OBJECTIVE_MEMORY || search_is_over(search))
        return NULL;
    struct trace *trace = model_place_chosen(traced, best->plan->choices, search->job.platform,
                                             NULL);
    *job = (struct time_proof_job){.plan = best->plan,
                                   .trace = trace,
                                   .traced = traced,
                                   .platform = search->job.platform,
                                   .costs = search->job.costs};
    return trace;
}

/* Tries the best layout with the mixes of places behind its bound. */
static void try_mixes(struct search *search)
{
    uint64_t bound_ns;
    double *mixes[TIME_PROOF_MIXES];
    struct time_proof_job job;
    struct trace *trace = begin_mixes(search, &job);
    if (!trace)
        return;
    uint32_t count = time_proof_mixes(&job, &bound_ns, mixes);
    trace_free(trace);
    uint32_t layouts[PLACED_LAYOUTS];
    uint32_t layout_count = trials_rank(search->trials, search->options.objective, true, layouts,
                                        PLACED_LAYOUTS);
    if (count)
        search->bound = fmax(search->bound, (double)bound_ns * 1e-9);
    for (uint32_t i = 0; i < count; i++) {
        g_ptr_array_add(search->mixes, mixes[i]);
        for (uint32_t l = 0; l < layout_count; l++)
            add_mixed(search, search_trial(search, layouts[l])->layout, mixes[i]);
    }
    search_run(search, search_run_plans);
}

/* Tries the best layout with the sides of the cases that decide its bound. */
static void try_cases(struct search *search)
{
    const struct trial *best = search->context.incumbent;
    double *mixes[CASES_MIXES];
    struct time_proof_job job;
    struct trace *trace = begin_mixes(search, &job);
    if (!trace)
        return;
    uint32_t count = time_proof_case_mixes(&job, mixes), layout = best->layout;
    trace_free(trace);
    const struct trial_settings settings = trial_settings_of(best);
    for (uint32_t i = 0; i < count; i++)
        search_add_once(search, layout, search_chosen(search, mixes[i]), &settings);
    search_run(search, search_run_plans);
}

static bool is_long(const struct search *search)
{
    return search->job.trace->operator_count > LONG_ITERATION;
}

/* Tries all layouts with the best place of the optimizer. */
static void try_layouts_placed(struct search *search)
{
    uint32_t best;
    if (trials_rank(search->trials, search->options.objective, false, &best, 1))
        try_layouts(search, search_trial(search, best)->placement);
}

/* The best layout depends on where the optimizer runs, and the other way round. The sizes of a
 * sweep find a place for the optimizer; with that, all layouts are tried. */
static void place_optimizer(struct search *search)
{
    add_swept(search, half_on_host);
    search_run(search, search_run_plans);
    if (!found_any(search))
        try_layouts(search, as_traced);
    if (!found_any(search))
        try_layouts(search, all_on_host);
    if (!found_any(search)) /* the host has no room for what was traced there */
        try_layouts(search, all_on_device);
    search_try_biases(search, refined(search, PLACED_LAYOUTS), 2, BIAS_PARTS);
    try_placements(search, SEARCH_ANY_SHARE);
    if (!is_long(search)) {
        try_placements(search, 1);
        try_placements(search, BIAS_PARTS - 1);
    }
    bool traffic = search->options.objective == OBJECTIVE_TRAFFIC;
    int busy_way_share = search_busy_way_share(search);
    if (!traffic && busy_way_share != SEARCH_ANY_SHARE)
        try_placements(search, busy_way_share);
    if (!traffic) {
        if (is_long(search))
            search_try_orders(search);
        else
            place_in_orders(search);
        try_mixes(search);
    }
    for (int step = COARSE_PARTS / 2; step > 0;
         step /= iteration_is_very_long(search->job.trace) ? 4 : 2) {
        descend(search, step);
        if (step == COARSE_PARTS / 4)
            search_try_biases(search, refined(search, PLACED_LAYOUTS), 2, BIAS_PARTS);
    }
    if (traffic) /* what is best for the time is only one more start */
        try_mixes(search);
    if (!is_long(search))
        try_layouts_placed(search);
}

/* Only finds what a layout needs. */
static void measure_task(void *data, uint32_t index)
{
    struct search *search = data;
    struct trial *trial = &g_array_index(search->trials, struct trial, search->begin + index);
    candidate_free(candidate_new(&search->job, &search_layout(search, trial)->spec,
                                 &trial->placement, &trial->needed, &trial->error));
}

/* Lowers the budget to the least with which any layout fits. */
static void tighten_budget(struct search *search)
{
    for (guint i = 0; i < search->choices->items->len; i++) {
        search_add(search, i, as_traced, &search->settings, EFFORT_0);
        if (search->context.strategies)
            search_add(search, i, all_on_host, &search->settings, EFFORT_0);
    }
    search_run(search, measure_task);
    for (guint i = 0; i < search->trials->len; i++)
        search->job.device_budget = MIN(search->job.device_budget, search_trial(search, i)->needed);
}

/* Begins a stage, unless the search was stopped before. */
static void begin_stage(struct search *search, const char *stage)
{
    if (!g_atomic_int_get(&search->stop))
        search->stage = stage;
}

/* Finds a place for the optimizer, and a layout. */
static void search_broad(struct search *search)
{
    bool traffic = search->options.objective == OBJECTIVE_TRAFFIC;
    if (search->options.objective == OBJECTIVE_MEMORY)
        tighten_budget(search);
    if (!search->options.alone)
        try_baselines(search);
    begin_stage(search, search->context.strategies ? "placed the optimizer" : "compared layouts");
    search->settings.bias.parameter_share = traffic ? 0 : BIAS_PARTS / 2;
    search->settings.bias.d2h_share = search->settings.bias.gather_share = BIAS_PARTS / 2;
    if (search->context.strategies)
        place_optimizer(search);
    else
        try_layouts(search, as_traced);
}

/* Repeats the best trials with more and more effort. */
static void repeat_best(struct search *search)
{
    try_again(search, EFFORT_2, refined(search, FINALISTS_2));
    try_again(search, EFFORT_3, refined(search, FINALISTS_3));
}

static bool is_above_bound(const struct search *search, double times)
{
    const struct trial *best = search->context.incumbent;
    return best && search->context.strategies && search->options.objective == OBJECTIVE_TIME &&
           !search_is_over(search) &&
           best->plan->predicted.iteration_seconds > times * search->bound;
}

bool search_is_far(const struct search *search)
{
    return is_above_bound(search, WIDE);
}

/* Returns whether thorough rounds are worth their time. */
static bool may_gain(const struct search *search)
{
    uint32_t operators = search->job.trace->operator_count;
    return operators <= PATIENT_MOST &&
           is_above_bound(search, operators <= THOROUGH_MOST ? WIDE : VERY_WIDE);
}

/* Returns whether the best plan takes much longer than the bound of its own layout and choices,
 * which is sought only if it is far above that of the search. */
static bool is_far_above_own_bound(struct search *search)
{
    uint64_t bound_ns;
    double *mixes[TIME_PROOF_MIXES];
    struct time_proof_job job;
    struct trace *trace = is_above_bound(search, VERY_WIDE) ? begin_mixes(search, &job) : NULL;
    if (!trace)
        return false;
    uint32_t count = time_proof_mixes(&job, &bound_ns, mixes);
    trace_free(trace);
    for (uint32_t i = 0; i < count; i++)
        g_free(mixes[i]);
    return !count || job.plan->predicted.iteration_seconds > VERY_WIDE * (double)bound_ns * 1e-9;
}

/* Makes the schedules of the best trials, and of their neighbours, that an iteration of so many
 * operators was not worth before. */
static void catch_up(struct search *search)
{
    repeat_best(search);
    for (int step = COARSE_PARTS / 8; step > 0; step /= 2)
        refine_placements(search, refined(search, REFINED_LAYOUTS), step);
}

/* Goes on where the bound is far below: with placements that were pruned though they might be
 * better, and with random changes of trials that differ, until they gain nothing. */
static void search_thoroughly(struct search *search)
{
    bool patient = search->job.trace->operator_count > THOROUGH_MOST;
    search->context.thorough = may_gain(search) && (!patient || is_far_above_own_bound(search));
    if (!search->context.thorough)
        return;
    if (patient)
        catch_up(search);
    try_placements(search, SEARCH_ANY_SHARE);
    search_try_sides(search);
    for (uint32_t idle = 0; idle < IDLE_MOST && may_gain(search);) {
        double before = search->context.incumbent->plan->predicted.iteration_seconds;
        search_change(search);
        repeat_best(search);
        double now = search->context.incumbent->plan->predicted.iteration_seconds;
        idle = now < (1 - LEAST_GAIN) * before ? 0 : idle + 1;
    }
    search->context.thorough = false;
}

/* Searches around the best of those. */
static void search_deep(struct search *search)
{
    begin_stage(search, "compared layouts");
    if (search->context.strategies && is_long(search))
        try_layouts_placed(search);
    begin_stage(search, "improved the best plans");
    for (int step = COARSE_PARTS / 8; search->context.strategies && step > 0; step /= 4)
        refine_placements(search, refined(search, REFINED_LAYOUTS), step);
    search_try_biases(search, refined(search, REFINED_LAYOUTS), 1, 2);
    if (search->context.strategies) {
        if (!is_long(search))
            search_try_sides(search);
        if (search->options.objective != OBJECTIVE_TRAFFIC)
            search_try_orders(search);
        try_cases(search);
        search_change(search);
    }
    if (search->options.objective != OBJECTIVE_TRAFFIC)
        try_spread(search);
    repeat_best(search);
}

/* Does what only the best trace of a run is worth. */
static void search_last(struct search *search)
{
    search_thoroughly(search);
    search->far = search->job.trace->operator_count <= THOROUGH_MOST &&
                  is_far_above_own_bound(search);
    begin_stage(search, "timed policies and strategies with the plan's chunks");
    search_sweep_baselines(search);
}

static void limit_time(struct search *search, double seconds)
{
    search->deadline = seconds > 0 ? g_get_monotonic_time() + (gint64)(seconds * 1e6) : 0;
}

struct search *search_new(const struct trace *trace, const struct search_options *options)
{
    struct search *search = g_new0(struct search, 1);
    uint64_t host_price;
    search->options = *options;
    search->non_model = non_model_place(trace);
    search->job = (struct candidate_job){.trace = trace,
                                         .digest = "",
                                         .non_model = search->non_model,
                                         .costs = options->costs,
                                         .platform = options->platform,
                                         .device_budget = options->device_budget,
                                         .host_budget = options->host_budget,
                                         .unclipped = options->unclipped};
    search->choices = layout_choices_new(trace, options->layouts, options->start);
    search->trials = trials_new();
    search->random = g_rand_new_with_seed(options->seed);
    search->stage = "timed policies and strategies";
    search->mixes = g_ptr_array_new_with_free_func(g_free);
    search->settings.first_update = search->traced_first = search_traced_first(trace);
    if (placement_is_possible(trace, options->platform))
        search_list_strategies(search);
    search->context = (struct trial_context){
        .job = &search->job,
        .objective = options->objective,
        .strategies = search->strategies,
        .near_ratio = iteration_is_very_long(search->job.trace) ? NEAR_RATIO_BRIEF : NEAR_RATIO,
        .stop = &search->stop,
        .hurry = options->hurry};
    search->bound = (double)work_bound_best(trace, options->platform, &host_price) * 1e-9;
    limit_time(search, options->time_limit);
    return search;
}

void search_free(struct search *search)
{
    if (!search)
        return;
    g_array_unref(search->trials);
    g_rand_free(search->random);
    g_ptr_array_unref(search->mixes);
    g_clear_pointer(&search->strategies, g_ptr_array_unref);
    g_clear_pointer(&search->tuned, g_ptr_array_unref);
    layout_choices_free(search->choices);
    non_model_free(search->non_model);
    g_free(search);
}

struct search_result *search_begin(struct search *search, GError **error)
{
    search_broad(search);
    return search_result_of(search, error);
}

/* Goes on with a part of the search that has a time limit of its own. */
static struct search_result *run_part(struct search *search, void (*part)(struct search *search),
                                      double time_limit, GError **error)
{
    limit_time(search, time_limit);
    g_atomic_int_set(&search->stop, 0);
    part(search);
    return search_result_of(search, error);
}

struct search_result *search_go_on(struct search *search, double time_limit, GError **error)
{
    return run_part(search, search_deep, time_limit, error);
}

struct search_result *search_end(struct search *search, double time_limit, GError **error)
{
    return run_part(search, search_last, time_limit, error);
}

struct search_result *search_only_sweep(struct search *search, const struct plan *best,
                                        double time_limit, GError **error)
{
    search->context.elsewhere = best;
    search->context.near_ratio = NEAR_RATIO_BRIEF;
    return run_part(search, search_sweep_baselines, time_limit, error);
}

struct search_result *search_plan(const struct trace *trace, const struct search_options *options,
                                  GError **error)
{
    struct search *search = search_new(trace, options);
    search_broad(search);
    search_deep(search);
    search_last(search);
    struct search_result *result = search_result_of(search, error);
    search_free(search);
    return result;
}

void search_result_free(struct search_result *result)
{
    if (!result)
        return;
    plan_free(result->plan);
    trace_free(result->trace);
    g_free(result->policy.name);
    g_free(result->strategy.name);
    for (int i = 0; i < SEARCH_LAYOUTS; i++)
        g_free(result->layouts[i].name);
    g_free(result);
}
