#include "planner/answers/front.h"
#include "planner/answers/nvme_search.h"
#include "planner/answers/nvme_ways.h"
#include "planner/answers/requests.h"
#include "planner/search/variants.h"
#include "sim/replay.h"
#include "sim/stages.h"
#include "sim/sweep.h"

#include <math.h>
#include <string.h>

static const char plan_name[] = "pstar's plan";

static double *busy_of(const struct phases *phases, double seconds, double busy[MOVER_QUEUES])
{
    for (int queue = 0; queue < MOVER_QUEUES; queue++) {
        double sum = 0;
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            sum += phases->of[phase].busy_seconds[queue];
        busy[queue] = seconds > 0 ? MIN(sum / seconds, 1) : 0;
    }
    return busy;
}

/* ---- strategies ---- */

static struct front_way *find_way(const struct front *front, const char *name)
{
    for (guint i = 0; i < front->ways->len; i++) {
        struct front_way *way = g_ptr_array_index(front->ways, i);
        if (strcmp(way->name, name) == 0)
            return way;
    }
    struct front_way *way = g_new0(struct front_way, 1);
    way->name = g_strdup(name);
    g_ptr_array_add(front->ways, way);
    return way;
}

static void take_fitting(struct front_way *way, const struct sweep_row *row, bool recompute)
{
    double seconds = row->figures.iteration_seconds;
    if (way->fits && way->figures.iteration_seconds <= seconds)
        return;
    way->fits = true;
    way->lacks_host = false;
    way->figures = row->figures;
    way->device_bytes = row->figures.peak_device_bytes;
    way->host_bytes = row->figures.peak_host_bytes;
    way->recomputes = recompute;
    busy_of(row->phases, seconds, way->busy);
}

/* Keeps the fastest row of the strategy or, as long as none fits, what would fit. */
static void take_row(struct front_way *way, const struct sweep_row *row, uint64_t device_budget,
                     bool recompute)
{
    if (row->fits) {
        take_fitting(way, row, recompute);
    } else if (!way->fits) {
        uint64_t least = row->least_device_bytes;
        way->lacks_host |= least <= device_budget;
        if (least && (!way->device_bytes || least < way->device_bytes))
            way->device_bytes = least;
    }
}

static GPtrArray *list_strategies(const struct front *front, const struct nvme_budget *nvme)
{
    GPtrArray *strategies = strategy_parse_list("all", NULL);
    if (front->step.ranks > 1)
        strategy_add_several(strategies);
    else if (nvme)
        strategy_add_tiered(strategies);
    return strategies;
}

/* What takes the rows of a sweep. */
struct row_taker {
    void (*take)(void *data, const struct sweep_row *row, bool recompute);
    void *data;
};

/* Sweeps all strategies and `policy`, with `nvme`, and has the rows taken. Both may be NULL. */
static bool sweep_trace(const struct front *front, bool recompute,
                        const struct pstar_policy_ops *policy, const struct nvme_budget *nvme,
                        const struct row_taker *taker, GError **error)
{
    const struct search_options *search = front->step.search;
    struct trace *trace = front_trace(&front->step, recompute, error);
    const struct pstar_policy_ops *const policies[] = {policy, NULL};
    g_autoptr(GArray) budgets = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    g_autoptr(GArray) look_aheads = g_array_new(FALSE, TRUE, sizeof(uint32_t));
    g_autoptr(GPtrArray) strategies = list_strategies(front, nvme);
    g_autoptr(GPtrArray) layouts = trace ? layout_list_parse(NULL, NULL, trace, error) : NULL;
    struct sweep_stage *stages = NULL;
    bool ok = layouts && (front->step.ranks == 1 ||
                          (stages = stages_new(trace, strategies, layouts, search->platform,
                                               search->costs, error)));
    if (ok) {
        g_array_append_val(budgets, search->device_budget);
        g_array_set_size(look_aheads, 1);
        const struct sweep_options options = {.layouts = layouts,
                                              .budgets = budgets,
                                              .look_aheads = look_aheads,
                                              .policies = policies,
                                              .strategies = strategies,
                                              .stages = stages,
                                              .platform = search->platform,
                                              .host_budget = search->host_budget,
                                              .nvme = nvme,
                                              .phases = true,
                                              .objective = OBJECTIVE_TIME,
                                              .costs = search->costs,
                                              .threads = search->threads};
        struct sweep *sweep = sweep_run(trace, &options);
        for (uint32_t r = 0; r < sweep->row_count; r++)
            if (sweep->rows[r].done)
                taker->take(taker->data, &sweep->rows[r], recompute);
        sweep_free(sweep);
    }
    stages_free(stages);
    trace_free(trace);
    return ok;
}

static bool sweep_step(const struct front *front, const struct pstar_policy_ops *policy,
                       const struct nvme_budget *nvme, const struct row_taker *taker,
                       GError **error)
{
    return sweep_trace(front, false, policy, nvme, taker, error) &&
           (!(front->step.choices & RUN_RECOMPUTE) ||
            sweep_trace(front, true, policy, nvme, taker, error));
}

static void take_way(void *data, const struct sweep_row *row, bool recompute)
{
    struct front *front = data;
    take_row(find_way(front, row->strategy->name), row, front->step.search->device_budget,
             recompute);
}

static void take_fastest(void *data, const struct sweep_row *row, bool recompute)
{
    if (row->fits)
        take_fitting(data, row, recompute);
}

void front_find_tiered(const struct front *front, struct front_way *way)
{
    const struct nvme_budget nvme = nvme_ways_budget(front->step.search, UINT64_MAX / 4);
    *way = (struct front_way){0};
    sweep_step(front, &policy_opt_dirty, &nvme, &(struct row_taker){take_fastest, way}, NULL);
}

/* ---- the plan ---- */

/* Replays the plan for what it keeps busy, and for how long its step may take. */
static void replay_plan(struct front *front, struct front_way *way,
                        const struct search_result *best)
{
    const struct search_options *search = front->step.search;
    struct non_model *non_model = non_model_place(best->trace);
    struct accesses *accesses = accesses_new(best->trace, best->plan->layout, non_model->extent);
    const struct replay_view view = {best->trace, accesses, search->costs};
    struct timeline *timeline = timeline_new();
    struct replay_figures figures = replay_with(best->plan, &view, timeline);
    struct phases phases = phases_of(timeline, best->trace);
    busy_of(&phases, figures.steady.iteration_seconds, way->busy);
    front->estimated = operator_times_band(best->trace, search->platform, &front->band);
    if (front->estimated) {
        front->band_seconds[0] = request_scaled_step(best, search->costs, front->band.least);
        front->band_seconds[1] = request_scaled_step(best, search->costs, front->band.most);
    }
    timeline_free(timeline);
    accesses_free(accesses);
    non_model_free(non_model);
}

/* Returns the least device memory of any plan beside a host of any size. */
static uint64_t least_beside_any_host(const struct front *front)
{
    struct search_options search = *front->step.search;
    struct front_step step = front->step;
    step.search = &search;
    search.host_budget = UINT64_MAX;
    return front_least_bytes(&step);
}

static void add_plan(struct front *front, const struct variants_result *result)
{
    struct front_way *way = find_way(front, plan_name);
    if (!result) {
        uint64_t beside_any_host = least_beside_any_host(front);
        way->lacks_host = beside_any_host <= front->step.search->device_budget ||
                          front->least_bytes == UINT64_MAX;
        way->device_bytes = way->lacks_host ? beside_any_host : front->least_bytes;
        return;
    }
    const struct plan *plan = result->best->plan;
    way->fits = true;
    way->figures = plan->predicted;
    way->device_bytes = plan->predicted.peak_device_bytes;
    way->host_bytes = plan->predicted.peak_host_bytes;
    if (front->step.choices)
        way->choices = run_choices_describe(plan->choices);
    front->stopped = result->best->stopped;
    replay_plan(front, way, result->best);
}

/* Ten seconds are enough for a search to pass all strategies if the step has up to ten thousand
 * operators; a search takes time in proportion to them. */
static double usual_seconds(const struct trace *trace)
{
    return fmax(10, 1e-3 * trace->operator_count);
}

/* Returns the best plan, with NVMe if there is some and the plan is faster with it; or NULL. */
static struct variants_result *search_tiers(const struct front_step *step,
                                            const struct trace *trace,
                                            const struct search_options *search, unsigned scope)
{
    struct nvme_answer answer = {0};
    if (!step->nvme_bytes)
        return variants_search_anew(trace, search, scope, NULL);
    nvme_search_run(trace, search, scope, step->nvme_bytes, &answer, NULL);
    struct variants_result *best = answer.alone, *other = answer.result;
    if (other &&
        (!best || objective_prefers(OBJECTIVE_TIME, other->best->plan, best->best->plan))) {
        other = best;
        best = answer.result;
    }
    variants_result_free(other);
    return best;
}

bool front_find_ways(struct front *front, GError **error)
{
    const unsigned scope = RUN_RECOMPUTE | RUN_OFFLOAD | RUN_EMBEDDING | RUN_MASTERS |
                           RUN_STATE_BLOCKS | (front->step.ranks > 1 ? RUN_STAGE : 0) |
                           (front->step.fast ? RUN_SUMS : 0);
    const struct nvme_budget nvme = nvme_ways_budget(front->step.search, front->step.nvme_bytes);
    if (!sweep_step(front, NULL, nvme.nvme_bytes ? &nvme : NULL,
                    &(struct row_taker){take_way, front}, error))
        return false;
    struct trace *trace = front_trace(&front->step, false, error);
    if (!trace)
        return false;
    struct search_options search = *front->step.search;
    if (search.time_limit <= 0)
        search.time_limit = usual_seconds(trace);
    struct variants_result *result = search_tiers(&front->step, trace, &search, scope);
    add_plan(front, result);
    variants_result_free(result);
    trace_free(trace);
    return true;
}

const struct front_way *front_plan(const struct front *front)
{
    return find_way(front, plan_name);
}

const struct front_way *front_resident(const struct front *front)
{
    return find_way(front, "resident");
}

const struct front_way *front_best_strategy(const struct front *front)
{
    const struct front_way *best = NULL;
    for (guint i = 0; i < front->ways->len; i++) {
        const struct front_way *way = g_ptr_array_index(front->ways, i);
        if (way->fits && way != front_plan(front) &&
            (!best || way->figures.iteration_seconds < best->figures.iteration_seconds))
            best = way;
    }
    return best;
}

const struct front_way *front_fastest(const struct front *front)
{
    const struct front_way *plan = front_plan(front), *best = front_best_strategy(front);
    bool slower = best && best->figures.iteration_seconds < plan->figures.iteration_seconds;
    return plan->fits && !slower ? plan : best;
}
