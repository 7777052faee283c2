#include "planner/answers/tiers.h"

#include "chunks/nvme_homes.h"
#include "planner/answers/verify.h"
#include "planner/schedule/placement.h"

#include <math.h>

/* Rings that are tried, in what is used at once. */
enum { RING_TIMES_MOST = 4 };

/* What a search with NVMe is about. */
struct tiers {
    const struct trace *trace;
    const struct search_options *options;
    uint64_t nvme_bytes;
    struct tiered *best;
};

static double step_of(const struct variants_result *result)
{
    return result->best->plan->predicted.iteration_seconds;
}

/* ---- homes ---- */

static struct nvme_budget budget_of(const struct tiers *tiers, uint32_t ring_times)
{
    struct nvme_budget budget = {.host_bytes = tiers->options->host_budget,
                                 .nvme_bytes = tiers->nvme_bytes,
                                 .ring_times = ring_times};
    struct platform_disk_way way;
    const struct platform *platform = tiers->options->platform;
    if (platform && platform_disk_best(&platform->disk, &way)) {
        budget.block_bytes = way.block_bytes;
        budget.depth = way.depth;
    }
    return budget;
}

static void time_plan(const struct tiers *tiers, struct plan *plan, const struct trace *trace)
{
    const struct plan_figures steady = plan_replay(plan, trace, tiers->options->costs, NULL);
    plan->predicted.iteration_seconds = steady.iteration_seconds;
    plan->predicted.stall_seconds = steady.stall_seconds;
}

/* Returns a copy of the plan with homes, and the times that it then takes; NULL if it does not fit.
 */
static struct plan *with_homes(const struct tiers *tiers, const struct search_result *found,
                               const struct accesses *accesses, uint32_t ring_times, GError **error)
{
    const struct nvme_budget budget = budget_of(tiers, ring_times);
    struct plan *plan = plan_copy(found->plan);
    if (nvme_homes_give(plan, found->trace, accesses, &budget, error))
        time_plan(tiers, plan, found->trace);
    else
        g_clear_pointer(&plan, plan_free);
    return plan;
}

/* Replaces the plan by the fastest with homes. Returns false if none fits. */
static bool give_homes(const struct tiers *tiers, struct search_result *found, GError **error)
{
    struct non_model *non_model = non_model_place(found->trace);
    struct accesses *accesses = accesses_new(found->trace, found->plan->layout, non_model->extent);
    struct plan *best = with_homes(tiers, found, accesses, 0, error);
    for (uint32_t times = 1; best && best->nvme_bytes && times <= RING_TIMES_MOST; times++) {
        struct plan *other = with_homes(tiers, found, accesses, times, NULL);
        if (other && other->predicted.iteration_seconds < best->predicted.iteration_seconds) {
            struct plan *slower = best;
            best = other;
            other = slower;
        }
        plan_free(other);
    }
    accesses_free(accesses);
    non_model_free(non_model);
    if (!best)
        return false;
    plan_free(found->plan);
    found->plan = best;
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

/* Times the result's traces and its plan for the machine as it is. Bounds of other variants do not
 * hold there. */
static bool retime(const struct tiers *tiers, struct variants_result *result, GError **error)
{
    struct search_result *best = result->best;
    const struct platform *platform = tiers->options->platform;
    struct trace *traced = derived_for_plan(best->plan, tiers->trace, platform, error);
    struct trace *placed = traced ? trace_of_plan(best->plan, tiers->trace, platform, error) : NULL;
    if (!placed) {
        trace_free(traced);
        return false;
    }
    trace_free(result->traced);
    trace_free(best->trace);
    result->traced = traced;
    best->trace = placed;
    certificate_alternatives_free(g_steal_pointer(&result->alternatives),
                                  result->alternative_count);
    result->alternative_count = 0;
    time_plan(tiers, best->plan, best->trace);
    return true;
}

/* ---- searches ---- */

/* Keeps what was found if it is the fastest so far. Sets an error only if there is none yet. */
static void take(const struct tiers *tiers, struct variants_result *found, GError **error)
{
    struct tiered *best = tiers->best;
    const struct plan_figures ample = found->best->plan->predicted;
    if (!best->ample.iteration_seconds || ample.iteration_seconds < best->ample.iteration_seconds)
        best->ample = ample;
    bool fits = give_homes(tiers, found->best, error && *error ? NULL : error);
    if (fits && (!best->result || step_of(found) < step_of(best->result))) {
        variants_result_free(best->result);
        best->result = found;
    } else {
        variants_result_free(found);
    }
}

static uint64_t host_with_nvme(const struct tiers *tiers)
{
    uint64_t host = tiers->options->host_budget;
    return host + MIN(tiers->nvme_bytes, UINT64_MAX - 1 - host);
}

static void search(const struct tiers *tiers, unsigned scope, GError **error)
{
    struct search_options wide = *tiers->options;
    wide.host_budget = host_with_nvme(tiers);
    struct variants_result *found =
        variants_search(tiers->trace, &wide, scope, error && *error ? NULL : error);
    if (found)
        take(tiers, found, error);
}

/* What takes long on a machine whose link is as slow as its disk takes less on this one. */
static void search_slowed(const struct tiers *tiers, unsigned scope)
{
    struct search_options wide = *tiers->options;
    struct slow_machine slow = {costs_new(wide.platform, wide.costs->link, NULL), {0}};
    wide.host_budget = host_with_nvme(tiers);
    wide.costs = slow.costs;
    costs_slow_to_nvme(slow.costs);
    if (wide.platform) {
        slow_updates(&slow, wide.platform, slow.costs, tiers->trace);
        wide.platform = &slow.platform;
    }
    struct variants_result *found = variants_search(tiers->trace, &wide, scope, NULL);
    if (found && retime(tiers, found, NULL))
        take(tiers, found, NULL);
    else
        variants_result_free(found);
    g_free(slow.platform.host_update.points);
    costs_free(slow.costs);
}

uint32_t tiers_searches(unsigned scope)
{
    return scope & RUN_OFFLOAD ? 4 : 2;
}

bool tiers_search(const struct trace *trace, const struct search_options *options, unsigned scope,
                  uint64_t nvme_bytes, struct tiered *tiered, GError **error)
{
    const struct tiers tiers = {trace, options, nvme_bytes, tiered};
    unsigned without = scope & ~(unsigned)RUN_OFFLOAD;
    *tiered = (struct tiered){0};
    search(&tiers, scope, error);
    if (without != scope)
        search(&tiers, without, NULL);
    search_slowed(&tiers, scope);
    if (without != scope)
        search_slowed(&tiers, without);
    if (tiered->result)
        g_clear_error(error);
    return tiered->result;
}
