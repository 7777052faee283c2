#include "planner/answers/nvme_search.h"

#include "models/derivation.h"
#include "models/derive.h"
#include "planner/answers/nvme_ways.h"
#include "planner/answers/requests.h"
#include "planner/schedule/placement.h"
#include "planner/search/variant.h"
#include "sim/sweep.h"

#include <math.h>
#include <string.h>

/* A state block takes at most one of so many parts of the host. */
enum { HOST_BLOCKS = 32 };

/* Searches with less and less room in NVMe, and the share of it to which the least room is known.
 */
enum { LESS_ROUNDS = 4, LEAST_SHARE = 32 };

/* Sweeps of policies and strategies: with the choices as recorded, and with those of the best plan.
 */
enum { SWEEPS = 2 };

/* The progress of several searches as that of one, which knows nothing of the others: each counts
 * as many candidates as the one that runs. */
struct shared_progress {
    const struct search_options *options; /* of the person who waits */
    uint32_t parts, ended; /* searches and sweeps, at most, and those that are over */
    uint32_t done, total;  /* candidates of the one that runs */
};

/* What a search with NVMe is about. */
struct nvme_search {
    const struct trace *trace;      /* as recorded, or `small` */
    struct search_options *options; /* tells `progress` how far it is; its layouts are of the trace
                                     */
    const struct trace *recorded;
    const GPtrArray *layouts; /* of the recorded trace; may be NULL */
    struct trace *small;      /* with small state blocks; NULL: it is not searched */
    GPtrArray *small_layouts;
    struct shared_progress *progress;
    uint64_t nvme_bytes;
    struct nvme_answer *best;
    struct search_baseline *policy, *strategy; /* the fastest rows */
    uint32_t less_rounds;                      /* that search_with_less_nvme has made */
    double less_seconds;                       /* the step of which it made the last one */
    gint64 end;                                /* of the time; microseconds, monotonic */
};

static double step_of(const struct variants_result *result)
{
    return result->best->plan->predicted.iteration_seconds;
}

/* ---- progress ---- */

static bool tell(struct shared_progress *progress)
{
    const struct search_options *options = progress->options;
    uint32_t before = MIN(progress->ended, progress->parts - 1) * progress->total;
    return !options->progress || options->progress(options->progress_data, before + progress->done,
                                                   progress->parts * progress->total);
}

static bool note_progress(void *data, uint32_t done, uint32_t total)
{
    struct shared_progress *progress = data;
    progress->done = done;
    progress->total = total;
    return tell(progress);
}

static void end_part(struct shared_progress *progress)
{
    progress->ended++;
    progress->done = 0;
}

/* At most so many parts are left. Those that were left out count as ended. */
static void leave_parts(struct shared_progress *progress, uint32_t left)
{
    progress->ended = MAX(progress->ended, progress->parts - left);
}

/* ---- homes ---- */

static double best_seconds(const struct nvme_search *nvme)
{
    return nvme->best->result ? step_of(nvme->best->result) : INFINITY;
}

/* Replaces the plan by the fastest with homes. Returns false if none fits. */
static bool assign_homes(const struct nvme_search *nvme, struct search_result *found,
                         GError **error)
{
    const struct nvme_ways_job job = {nvme->options, nvme->nvme_bytes, best_seconds(nvme)};
    struct plan *plan = nvme_ways_fastest(&job, found, error);
    if (!plan)
        return false;
    plan_free(found->plan);
    found->plan = plan;
    return true;
}

/* ---- as if all crossed the disk ---- */

/* A machine whose link and updates on the host are as slow as its disk. */
struct slow_machine {
    struct costs *costs;
    struct platform platform; /* the points of host_update are its own */
};

static uint64_t state_bytes(const struct trace *trace)
{
    const uint8_t *bytes = trace->list_element_bytes;
    return (uint64_t)bytes[TRACE_MASTER] + bytes[TRACE_EXP_AVG] + bytes[TRACE_EXP_AVG_SQ];
}

/* An update on the host reads and writes the optimizer states of its elements. */
static void slow_updates(struct slow_machine *slow, const struct platform *platform,
                         const struct costs *costs, const struct trace *trace)
{
    struct platform_curve *curve = &slow->platform.host_update;
    double bytes = (double)state_bytes(trace);
    double rate = fmin(costs_link_rate(costs, MOVER_NVME_READ),
                       costs_link_rate(costs, MOVER_NVME_WRITE));
    slow->platform = *platform;
    curve->points = g_memdup2(curve->points, curve->count * sizeof *curve->points);
    for (uint32_t p = 0; p < curve->count; p++) {
        struct platform_point *point = &curve->points[p];
        double share = point->seconds / platform_update_seconds(platform, point->amount);
        point->seconds = fmax(point->seconds, share * point->amount * bytes / rate);
    }
}

/* Returns a result with a plan, which it takes over and times for the machine as it is. Fails, and
 * frees the plan, if its trace cannot be derived. */
static struct variants_result *result_of(const struct nvme_search *nvme, struct plan *plan,
                                         GError **error)
{
    const struct platform *platform = nvme->options->platform;
    struct variants_result *result = g_new0(struct variants_result, 1);
    struct search_result *best = result->best = g_new0(struct search_result, 1);
    best->plan = plan;
    result->traced = derived_for_plan(plan, nvme->trace, platform, error);
    best->trace = result->traced
                      ? model_place_chosen(result->traced, plan->choices, platform, error)
                      : NULL;
    if (!best->trace) {
        variants_result_free(result);
        return NULL;
    }
    plan_set_digest(plan, best->trace);
    nvme_ways_time(nvme->options->costs, plan, best->trace);
    return result;
}

/* ---- searches ---- */

/* Keeps what was found if it is the fastest so far, and otherwise frees it. */
static void take(const struct nvme_search *nvme, struct variants_result *found)
{
    struct nvme_answer *best = nvme->best;
    if (!best->result || step_of(found) < step_of(best->result)) {
        variants_result_free(best->result);
        best->result = found;
    } else {
        variants_result_free(found);
    }
}

/* Does so with homes in NVMe, unless the plan takes longer without than the best with them. */
static void take_with_homes(const struct nvme_search *nvme, struct variants_result *found,
                            GError **error)
{
    struct plan_figures *enough_host = &nvme->best->enough_host;
    const struct variants_result *best = nvme->best->result;
    const struct plan_figures figures = found->best->plan->predicted;
    if (!enough_host->iteration_seconds ||
        figures.iteration_seconds < enough_host->iteration_seconds)
        *enough_host = figures;
    if ((!best || figures.iteration_seconds < step_of(best)) &&
        assign_homes(nvme, found->best, error))
        take(nvme, found);
    else
        variants_result_free(found);
}

/* What is fast with enough host memory need not be the fastest with NVMe, so each plan that a
 * search finds on its way counts. */
static void consider(void *data, const struct plan *plan)
{
    const struct nvme_search *nvme = data;
    struct variants_result *found = result_of(nvme, plan_copy(plan), NULL);
    if (found)
        take_with_homes(nvme, found, NULL);
}

/* Takes what a search has found in the end. What else it has found has no homes, and is left out.
 */
static void take_found(const struct nvme_search *nvme, struct variants_result *searched,
                       GError **error)
{
    struct variants_result *found = result_of(nvme, g_steal_pointer(&searched->best->plan), error);
    if (found) {
        found->best->layouts_tried = searched->best->layouts_tried;
        found->best->plans_tried = searched->best->plans_tried;
        found->best->stopped = searched->best->stopped;
        take_with_homes(nvme, found, error);
    }
    variants_result_free(searched);
}

/* Once a person has stopped the search, or its time is over, it ends with the first plan that has
 * homes. */
static bool may_go_on(const struct nvme_search *nvme)
{
    return !nvme->best->result || (g_get_monotonic_time() < nvme->end && tell(nvme->progress));
}

static struct search_options options_with_nvme(struct nvme_search *nvme)
{
    struct search_options options = *nvme->options;
    options.host_budget += MIN(nvme->nvme_bytes, UINT64_MAX - 1 - options.host_budget);
    options.found = consider;
    options.found_data = nvme;
    return options;
}

static struct variants_result *search_variants(const struct nvme_search *nvme,
                                               const struct search_options *options, unsigned scope,
                                               GError **error)
{
    struct variants_result *found = variants_search(nvme->trace, options, scope, error);
    end_part(nvme->progress);
    return found;
}

static bool offloads(const struct variants_result *found)
{
    const struct run_choices *choices = found->best->plan->choices;
    return choices && memchr(choices->offload, 1, choices->layer_count);
}

/* Returns whether activations leave the device in the plan that the search has found in the end. */
static bool search(struct nvme_search *nvme, unsigned scope, GError **error)
{
    const struct search_options options = options_with_nvme(nvme);
    struct variants_result *found = search_variants(nvme, &options, scope, error);
    bool leave = found && offloads(found);
    if (found) {
        take_found(nvme, found, error);
    } else {
        least_explain(nvme->trace, &options, scope, error);
        g_prefix_error(error, "with NVMe as if it were host memory: ");
    }
    return leave;
}

/* Returns the trace with state blocks that are small beside the host; NULL if they cut nothing, if
 * those of the trace are as small, or if the trace cannot have them. */
static struct trace *trace_of_small_blocks(const struct nvme_search *nvme)
{
    const struct trace *trace = nvme->trace;
    uint64_t steps = nvme->options->host_budget / HOST_BLOCKS / MAX(state_bytes(trace), 1) /
                     TRACE_BLOCK_STEP;
    uint64_t block = MAX(steps, 1) * TRACE_BLOCK_STEP;
    if (trace->state_block && trace->state_block <= block)
        return NULL;
    struct derivation *derivation = derivation_new(trace, NULL);
    struct run_choices *choices = run_choices_of(trace);
    choices->state_block = block;
    struct trace *small = derivation
                              ? derivation_trace(derivation, choices, nvme->options->platform, NULL)
                              : NULL;
    run_choices_free(choices);
    derivation_free(derivation);
    if (small && !small->state_block)
        g_clear_pointer(&small, trace_free);
    return small;
}

/* Searches as if the host had so many bytes more and no NVMe. */
static void search_with_host(struct nvme_search *nvme, unsigned scope, uint64_t more_bytes)
{
    struct search_options options = options_with_nvme(nvme);
    options.host_budget = nvme->options->host_budget + more_bytes;
    struct variants_result *found = search_variants(nvme, &options, scope, NULL);
    if (found)
        take_found(nvme, found, NULL);
}

/* Returns about how many bytes more than it has the host needs for a plan to fit without NVMe.
 * With `most` one fits. */
static uint64_t least_more(const struct nvme_search *nvme, unsigned scope, uint64_t most)
{
    struct search_options options = *nvme->options;
    uint64_t low = 0, high = most;
    while (high - low > most / LEAST_SHARE) {
        uint64_t middle = low + (high - low) / 2;
        options.host_budget = nvme->options->host_budget + middle;
        if (least_fits(nvme->trace, &options, scope))
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* The less lies in NVMe, the less the disk has to move, and the longer the step takes beside it. So
 * searches with as much less room there as the disk makes the step longer, and again for each plan
 * that is faster than the one before. */
static void search_with_less_nvme(struct nvme_search *nvme, unsigned scope)
{
    const struct nvme_answer *best = nvme->best;
    while (best->result && best->result->best->plan->nvme_bytes &&
           nvme->less_rounds < LESS_ROUNDS && step_of(best->result) != nvme->less_seconds &&
           may_go_on(nvme)) {
        /* What lies in NVMe and does not move there needs no room on the host. */
        const struct plan *plan = best->result->best->plan;
        uint64_t moved = MAX(plan->predicted.nvme_read_bytes, plan->predicted.nvme_write_bytes);
        uint64_t least = least_more(nvme, scope, plan->nvme_bytes);
        double share = best->enough_host.iteration_seconds / step_of(best->result);
        nvme->less_seconds = step_of(best->result);
        nvme->less_rounds++;
        search_with_host(nvme, scope,
                         MAX(least, (uint64_t)(share * (double)MIN(moved, plan->nvme_bytes))));
    }
}

static void begin_small_blocks(struct nvme_search *nvme, struct trace *small)
{
    nvme->small = small;
    nvme->small_layouts = variants_layouts(nvme->options, nvme->recorded, small);
    nvme->trace = small;
    nvme->options->layouts = nvme->small_layouts;
}

static void end_small_blocks(struct nvme_search *nvme)
{
    nvme->trace = nvme->recorded;
    nvme->options->layouts = nvme->layouts;
    g_clear_pointer(&nvme->small, trace_free);
    g_clear_pointer(&nvme->small_layouts, g_ptr_array_unref);
}

/* A tensor that is not cut is in the host pool with all of its states at once, which takes the room
 * of what could run ahead. Searches with small blocks, and keeps them if that finds a better plan.
 * `leave`, of the search without them, is then of the one with them. */
static void search_small_blocks(struct nvme_search *nvme, unsigned scope, bool *leave)
{
    uint32_t rounds = nvme->less_rounds;
    double before = best_seconds(nvme), less_seconds = nvme->less_seconds;
    struct trace *small = scope & RUN_STATE_BLOCKS && may_go_on(nvme) ? trace_of_small_blocks(nvme)
                                                                      : NULL;
    if (!small)
        return;
    begin_small_blocks(nvme, small);
    scope &= ~(unsigned)RUN_STATE_BLOCKS;
    bool small_leave = search(nvme, scope, NULL);
    search_with_less_nvme(nvme, scope);
    if (best_seconds(nvme) < before) {
        *leave = small_leave;
        return;
    }
    end_small_blocks(nvme);
    nvme->less_rounds = rounds;
    nvme->less_seconds = less_seconds;
}

/* What takes long on a machine whose link is as slow as its disk takes less on this one. Returns
 * whether activations leave the device in the plan that was found in the end. */
static bool search_slowed(struct nvme_search *nvme, unsigned scope)
{
    struct search_options options = options_with_nvme(nvme);
    struct slow_machine slow = {costs_new(options.platform, options.costs->link, NULL), {0}};
    options.costs = slow.costs;
    costs_slow_to_nvme(slow.costs);
    if (options.platform) {
        slow_updates(&slow, options.platform, slow.costs, nvme->trace);
        options.platform = &slow.platform;
    }
    struct variants_result *found = search_variants(nvme, &options, scope, NULL);
    bool leave = found && offloads(found);
    if (found)
        take_found(nvme, found, NULL);
    g_free(slow.platform.host_update.points);
    costs_free(slow.costs);
    return leave;
}

/* ---- policies and strategies ---- */

/* When a sweep ends, and whom it tells how far it is. */
struct sweep_watch {
    const struct search_options *options;
    gint64 end; /* microseconds, monotonic */
};

static bool goes_on(void *data, uint32_t done, uint32_t total)
{
    const struct sweep_watch *watch = data;
    const struct search_options *options = watch->options;
    return g_get_monotonic_time() < watch->end &&
           (!options->progress || options->progress(options->progress_data, done, total));
}

/* Those of several ranks have traces of their own. */
static GPtrArray *list_strategies(const struct trace *trace)
{
    if (trace->ranks > 1)
        return NULL;
    GPtrArray *strategies = strategy_parse_list("all", NULL);
    strategy_add_tiered(strategies);
    return strategies;
}

static bool is_faster(const struct sweep_row *row, const struct plan_figures *than)
{
    return !than->iteration_seconds || row->figures.iteration_seconds < than->iteration_seconds;
}

static void note_row(struct search_baseline *baseline, const struct sweep_row *row)
{
    if (!is_faster(row, &baseline->figures))
        return;
    g_free(baseline->name);
    *baseline = (struct search_baseline){
        g_strdup(row->policy ? row->policy->name : row->strategy->name),
        chunk_spread_of(row->layout->layout, TRACE_PARAM), row->look_ahead, row->figures};
}

/* Takes the fastest row's plan if it is faster than the best. */
static void take_row(const struct nvme_search *nvme, const struct trace *trace,
                     const struct sweep_options *options, const struct sweep *sweep)
{
    const struct sweep_row *best = NULL;
    for (uint32_t r = 0; r < sweep->row_count; r++) {
        const struct sweep_row *row = &sweep->rows[r];
        if (!row->fits)
            continue;
        note_row(row->policy ? nvme->policy : nvme->strategy, row);
        if (!best || is_faster(row, &best->figures))
            best = row;
    }
    const struct variants_result *found = nvme->best->result;
    if (!best || (found && best->figures.iteration_seconds >= step_of(found)))
        return;
    struct variants_result *result = result_of(nvme, sweep_plan(trace, options, best, NULL), NULL);
    if (result)
        take(nvme, result);
}

/* Sweeps as `pstar-sim --policy all --strategy all` does. */
static void sweep_trace(const struct nvme_search *nvme, const struct trace *trace)
{
    const struct search_options *o = nvme->options;
    const struct nvme_budget budget = nvme_ways_budget(o, nvme->nvme_bytes);
    struct sweep_watch watch = {
        o, o->time_limit > 0 ? g_get_monotonic_time() + (gint64)(o->time_limit * 1e6) : G_MAXINT64};
    uint64_t device = o->device_budget + MIN(trace->library_bytes, UINT64_MAX - o->device_budget);
    g_autoptr(GPtrArray) layouts = layout_list_parse(NULL, NULL, trace, NULL);
    g_autoptr(GPtrArray) strategies = list_strategies(trace);
    g_autoptr(GArray) look_aheads = sizes_parse_counts("0,16", NULL);
    g_autoptr(GArray) budgets = g_array_new(FALSE, FALSE, sizeof device);
    g_array_append_val(budgets, device);
    const struct sweep_options options = {.layouts = layouts,
                                          .budgets = budgets,
                                          .look_aheads = look_aheads,
                                          .policies = policy_all,
                                          .strategies = strategies,
                                          .platform = o->platform,
                                          .unclipped = o->unclipped,
                                          .host_budget = o->host_budget,
                                          .nvme = &budget,
                                          .objective = OBJECTIVE_TIME,
                                          .costs = o->costs,
                                          .threads = o->threads,
                                          .progress = goes_on,
                                          .progress_data = &watch};
    struct sweep *sweep = sweep_run(trace, &options);
    end_part(nvme->progress);
    take_row(nvme, trace, &options, sweep);
    sweep_free(sweep);
}

static void sweep_baselines(const struct nvme_search *nvme)
{
    sweep_trace(nvme, nvme->trace);
    if (nvme->best->result) {
        struct trace *best = trace_copy(nvme->best->result->best->trace);
        sweep_trace(nvme, best);
        trace_free(best);
    }
}

/* Returns the most searches that there are. */
static uint32_t count_searches(unsigned scope)
{
    return 1 + (scope & RUN_OFFLOAD ? 6 : 4) + (scope & RUN_STATE_BLOCKS ? 1 : 0) + LESS_ROUNDS;
}

/* Searches with NVMe in one way after the other. Where activations do not leave the device, a
 * search that forbids it would find the same again. */
static void search_ways(struct nvme_search *nvme, unsigned scope, GError **error)
{
    bool leave = search(nvme, scope, error);
    search_small_blocks(nvme, scope, &leave);
    scope &= nvme->small ? ~(unsigned)RUN_STATE_BLOCKS : ~0u;
    unsigned without = scope & ~(unsigned)RUN_OFFLOAD;
    search_with_less_nvme(nvme, scope);
    if (leave && without != scope && may_go_on(nvme))
        search(nvme, without, NULL);
    leave = may_go_on(nvme) && search_slowed(nvme, scope);
    if (leave && without != scope && may_go_on(nvme))
        search_slowed(nvme, without);
    leave_parts(nvme->progress, LESS_ROUNDS - nvme->less_rounds + SWEEPS);
    search_with_less_nvme(nvme, scope);
    end_small_blocks(nvme);
    leave_parts(nvme->progress, SWEEPS);
    if (may_go_on(nvme))
        sweep_baselines(nvme);
}

bool nvme_search_run(const struct trace *trace, const struct search_options *options,
                     unsigned scope, uint64_t nvme_bytes, struct nvme_answer *answer,
                     GError **error)
{
    uint32_t searches = count_searches(scope);
    struct search_baseline policy = {0}, strategy = {0};
    struct shared_progress progress = {.options = options, .parts = searches + SWEEPS, .total = 1};
    struct search_options shared = *options;
    shared.time_limit /= searches;
    shared.progress = note_progress;
    shared.progress_data = &progress;
    struct nvme_search nvme = {.trace = trace,
                               .options = &shared,
                               .recorded = trace,
                               .layouts = options->layouts,
                               .progress = &progress,
                               .nvme_bytes = nvme_bytes,
                               .best = answer,
                               .policy = &policy,
                               .strategy = &strategy,
                               .end = G_MAXINT64};
    answer->alone = search_variants(&nvme, &shared, scope, NULL);
    if (options->time_limit > 0)
        nvme.end = g_get_monotonic_time() +
                   (gint64)(options->time_limit / searches * (searches - 1) * 1e6);
    search_ways(&nvme, scope, error);
    if (!answer->result) {
        g_free(policy.name);
        g_free(strategy.name);
        return false;
    }
    answer->result->best->policy = policy;
    answer->result->best->strategy = strategy;
    g_clear_error(error);
    return true;
}
