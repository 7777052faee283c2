#include "planner/search/trials.h"
#include "sim/workers.h"

#include <string.h>

static struct trial *trial_at(const GArray *trials, guint index)
{
    return &g_array_index(trials, struct trial, index);
}

static void trial_clear(gpointer data)
{
    struct trial *trial = data;
    plan_free(trial->plan);
    moment_times_free(trial->times);
    plan_free(trial->policy);
    plan_free(trial->strategy);
    g_clear_error(&trial->error);
}

GArray *trials_new(void)
{
    GArray *trials = g_array_new(FALSE, TRUE, sizeof(struct trial));
    g_array_set_clear_func(trials, trial_clear);
    return trials;
}

void trials_take_better(enum objective objective, struct plan **best, struct plan *plan)
{
    if (plan && objective_prefers(objective, plan, *best)) {
        plan_free(*best);
        *best = plan;
    } else {
        plan_free(plan);
    }
}

const struct plan *trials_best_policy(const GArray *trials, enum objective objective)
{
    const struct plan *best = NULL;
    for (guint i = 0; i < trials->len; i++) {
        const struct plan *plan = trial_at(trials, i)->policy;
        if (plan && objective_prefers(objective, plan, best))
            best = plan;
    }
    return best;
}

const struct plan *trials_best_strategy(const GArray *trials, enum objective objective)
{
    const struct plan *best = NULL;
    for (guint i = 0; i < trials->len; i++) {
        const struct plan *plan = trial_at(trials, i)->strategy;
        if (plan && objective_prefers(objective, plan, best))
            best = plan;
    }
    return best;
}

static bool alike(const struct trial *a, const struct trial *b, bool layouts)
{
    return a->layout == b->layout && (layouts || placement_same(&a->placement, &b->placement));
}

/* Returns the best trial that differs from the ranked ones, or the number of trials if there is
 * none. */
static guint next_best(const GArray *trials, enum objective objective, bool layouts,
                       const uint32_t *ranked, uint32_t count)
{
    guint best = trials->len;
    for (guint i = 0; i < trials->len; i++) {
        const struct trial *trial = trial_at(trials, i);
        bool taken = !trial->plan;
        for (uint32_t r = 0; r < count && !taken; r++)
            taken = alike(trial, trial_at(trials, ranked[r]), layouts);
        if (!taken && objective_prefers(objective, trial->plan,
                                        best < trials->len ? trial_at(trials, best)->plan : NULL))
            best = i;
    }
    return best;
}

uint32_t trials_rank(const GArray *trials, enum objective objective, bool layouts, uint32_t *best,
                     uint32_t most)
{
    memset(best, 0, most * sizeof *best); /* GCC takes the array for read before it is written */
    for (uint32_t count = 0; count < most; count++) {
        best[count] = next_best(trials, objective, layouts, best, count);
        if (best[count] == trials->len)
            return count;
    }
    return most;
}

struct plan *trials_choose(const GArray *trials, enum objective objective)
{
    struct plan *best = NULL;
    for (guint i = 0; i < trials->len; i++) {
        const struct trial *trial = trial_at(trials, i);
        struct plan *plans[] = {trial->plan, trial->policy, trial->strategy};
        for (size_t p = 0; p < G_N_ELEMENTS(plans); p++)
            if (plans[p] && objective_prefers(objective, plans[p], best))
                best = plans[p];
    }
    return best ? plan_share(best) : NULL;
}

void trials_refuse(const GArray *trials, GError **error)
{
    const struct trial *least = NULL;
    for (guint i = 0; i < trials->len; i++) {
        const struct trial *trial = trial_at(trials, i);
        if (trial->error && (!least || trial->needed < least->needed))
            least = trial;
    }
    if (least)
        g_propagate_error(error, g_error_copy(least->error));
    else
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
                    "stopped before any plan was found");
}

/* Trials that run with the same incumbent, whatever the number of threads. This makes the result
 * independent of it. */
enum { ROUND = 16 };

/* A plan this close to the bound is good enough. */
#define CLOSE_ENOUGH 1.005

struct trial *search_trial(const struct search *search, uint32_t index)
{
    return &g_array_index(search->trials, struct trial, index);
}

const struct layout_choice *search_layout(const struct search *search, const struct trial *trial)
{
    return &g_array_index(search->choices->items, struct layout_choice, trial->layout);
}

static void note_plan(struct search *search, const struct trial *trial)
{
    if (trial->plan || trial->policy || trial->strategy)
        g_atomic_int_set(&search->found, 1);
}

void search_run_baselines(void *data, uint32_t index)
{
    struct search *search = data;
    struct trial *trial = search_trial(search, search->begin + index);
    trial_run_baselines(&search->context, search_layout(search, trial), trial);
    note_plan(search, trial);
}

void search_run_sweep(void *data, uint32_t index)
{
    struct search *search = data;
    struct trial *trial = search_trial(search, search->begin + index);
    trial_sweep(&search->context, search_layout(search, trial), trial);
    note_plan(search, trial);
}

void search_run_whole_sweep(void *data, uint32_t index)
{
    struct search *search = data;
    struct trial *trial = search_trial(search, search->begin + index);
    trial_sweep_wholly(&search->context, search_layout(search, trial), trial);
    note_plan(search, trial);
}

void search_run_plans(void *data, uint32_t index)
{
    struct search *search = data;
    struct trial *trial = search_trial(search, search->begin + index);
    trial_run(&search->context, &search_layout(search, trial)->spec,
              search->options.seed + search->begin + index, trial);
    note_plan(search, trial);
}

static bool is_hurried(const struct search *search)
{
    return search->options.hurry && g_atomic_int_get(search->options.hurry);
}

/* A search that ended without a plan would say that nothing fits. */
static bool is_late(const struct search *search)
{
    bool has_plan = search->context.elsewhere || g_atomic_int_get(&search->found);
    bool is_over = search->deadline && g_get_monotonic_time() > search->deadline;
    return has_plan && (is_over || is_hurried(search));
}

/* Returns whether the trials of this round finish even if the search is stopped. */
static bool must_finish(const struct search *search)
{
    return search->certain && !is_hurried(search);
}

static bool watch(void *data, uint32_t done, G_GNUC_UNUSED uint32_t of_round)
{
    struct search *search = data;
    const struct search_options *options = &search->options;
    if (is_late(search) ||
        (options->progress &&
         !options->progress(options->progress_data, search->begin + done, search->trials->len)))
        g_atomic_int_set(&search->stop, 1);
    return must_finish(search) || !g_atomic_int_get(&search->stop);
}

struct trial_settings trial_settings_of(const struct trial *trial)
{
    return (struct trial_settings){trial->bias, trial->little_slack, trial->placement.first};
}

/* Returns the placement with the first update of the trial that is added. */
static struct placement begin_with_first(const struct search *search, struct placement placement,
                                         const struct trial_settings *settings)
{
    placement.first = placement.pattern == PLACEMENT_TRACED ? search->traced_first
                                                            : settings->first_update;
    return placement;
}

static bool same_bias(const struct retention_bias *a, const struct retention_bias *b)
{
    return a->parameter_share == b->parameter_share && a->d2h_share == b->d2h_share &&
           a->gather_share == b->gather_share && a->reserve == b->reserve && a->spread == b->spread;
}

void search_add(struct search *search, uint32_t layout, struct placement placement,
                const struct trial_settings *settings, enum effort_level effort)
{
    struct trial trial = {.layout = layout,
                          .placement = begin_with_first(search, placement, settings),
                          .bias = settings->bias,
                          .little_slack = settings->little_slack,
                          .effort = effort,
                          .slack = SEARCH_NO_SLACK,
                          .needed = UINT64_MAX};
    g_array_append_val(search->trials, trial);
}

void search_add_once(struct search *search, uint32_t layout, struct placement placement,
                     const struct trial_settings *settings)
{
    const struct placement added = begin_with_first(search, placement, settings);
    for (guint i = 0; i < search->trials->len; i++) {
        const struct trial *trial = search_trial(search, i);
        if (trial->effort == EFFORT_1 && trial->layout == layout &&
            same_bias(&trial->bias, &settings->bias) &&
            trial->little_slack == settings->little_slack &&
            !(trial->pruned && search->context.thorough) &&
            placement_same(&trial->placement, &added))
            return;
    }
    search_add(search, layout, placement, settings, EFFORT_1);
}

struct placement search_chosen(struct search *search, double *shares)
{
    g_ptr_array_add(search->mixes, shares);
    return (struct placement){
        .pattern = PLACEMENT_CHOSEN, .parts = PLACEMENT_PARTS / 2, .mix = shares};
}

/* A bound of mixes holds for one layout and one order of the host's updates. A plan below it has
 * others. */
static void check_bound(struct search *search)
{
    const struct trial *best = search->context.incumbent;
    if (best && best->plan->predicted.iteration_seconds < search->bound)
        search->bound = 0;
}

static void report_better(struct search *search)
{
    const struct search_options *options = &search->options;
    const struct trial *best = search->context.incumbent;
    if (!options->found || !best || best->plan == search->reported)
        return;
    search->reported = best->plan;
    options->found(options->found_data, best->plan);
}

static void find_best(struct search *search)
{
    uint32_t best = 0;
    search->context.incumbent = trials_rank(search->trials, search->options.objective, false, &best,
                                            1)
                                    ? search_trial(search, best)
                                    : NULL;
    check_bound(search);
    report_better(search);
    search->context.policy = trials_best_policy(search->trials, search->options.objective);
    search->context.strategy = trials_best_strategy(search->trials, search->options.objective);
}

bool search_is_over(const struct search *search)
{
    const struct trial *best = search->context.incumbent;
    return g_atomic_int_get(&search->stop) ||
           (search->options.objective == OBJECTIVE_TIME && best &&
            best->plan->predicted.iteration_seconds <= CLOSE_ENOUGH * search->bound);
}

void search_run(struct search *search, void (*task)(void *data, uint32_t index))
{
    find_best(search);
    while (search->begin < search->trials->len &&
           (must_finish(search) || !search_is_over(search))) {
        uint32_t count = MIN(ROUND, search->trials->len - search->begin);
        workers_run(&(struct workers_job){.task = task,
                                          .data = search,
                                          .count = count,
                                          .threads = search->options.threads,
                                          .progress = watch,
                                          .progress_data = search});
        search->begin += count;
        if (is_late(search)) /* short rounds are not watched */
            g_atomic_int_set(&search->stop, 1);
        find_best(search);
    }
    search->begin = search->trials->len;
    if (search->context.incumbent)
        search->settings = trial_settings_of(search->context.incumbent);
}
