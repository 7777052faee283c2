#include "planner/answers/nvme_ways.h"

#include "chunks/nvme_homes.h"
#include "planner/answers/verify.h"
#include "planner/schedule/nvme_stays.h"
#include "planner/schedule/placement.h"
#include "planner/schedule/retention.h"

#include <math.h>

/* Rings are tried from one time what is used at once to so many times. */
enum { RING_TIMES_MOST = 4 };

/* Parts of the host pool's room, of ALL_PARTS, that are left to loads that run ahead. */
enum { ALL_PARTS = 10 };
static const uint32_t ahead_parts[] = {4, 2, 6, 1};

/* Other ways like one are tried if its plan takes at most so much longer than the best. */
#define NEAR_RING  1.08
#define NEAR_CACHE 1.2

/* Ways that a plan is given homes in, and the fastest so far. */
struct ways {
    const struct nvme_ways_job *job;
    const struct search_result *found;
    struct non_model *non_model;
    struct accesses *accesses;
    struct plan *best; /* NULL: none */
};

struct nvme_budget nvme_ways_budget(const struct search_options *options, uint64_t nvme_bytes)
{
    struct nvme_budget budget = {.host_bytes = options->host_budget, .nvme_bytes = nvme_bytes};
    struct platform_disk_way disk;
    const struct platform *platform = options->platform;
    if (platform && platform_disk_best(&platform->disk, &disk)) {
        budget.block_bytes = disk.block_bytes;
        budget.depth = disk.depth;
    }
    return budget;
}

void nvme_ways_time(const struct costs *costs, struct plan *plan, const struct trace *trace)
{
    const struct plan_figures steady = plan_replay(plan, trace, costs, NULL);
    plan->predicted.iteration_seconds = steady.iteration_seconds;
    plan->predicted.stall_seconds = steady.stall_seconds;
}

static double step_of(const struct plan *plan)
{
    return plan ? plan->predicted.iteration_seconds : INFINITY;
}

static double best_seconds(const struct ways *ways)
{
    return fmin(ways->job->best_seconds, step_of(ways->best));
}

/* Gives homes in this way, keeps the plan if it is the fastest, and returns its step; INFINITY if
 * it does not fit. */
static double try_way(struct ways *ways, const struct nvme_budget *budget, GError **error)
{
    const struct trace *trace = ways->found->trace;
    struct plan *plan = plan_copy(ways->found->plan);
    if (!nvme_homes_give(plan, trace, ways->accesses, budget, error)) {
        plan_free(plan);
        return INFINITY;
    }
    nvme_ways_time(ways->job->options->costs, plan, trace);
    double seconds = step_of(plan);
    if (seconds < step_of(ways->best)) {
        struct plan *slower = ways->best;
        ways->best = plan;
        plan = slower;
    }
    plan_free(plan);
    return seconds;
}

/* ---- as few chunks there as fit ---- */

static double try_ring(struct ways *ways, uint32_t times, bool passing_first, GError **error)
{
    struct nvme_budget budget = nvme_ways_budget(ways->job->options, ways->job->nvme_bytes);
    budget.ring_times = times;
    budget.passing_first = passing_first;
    return try_way(ways, &budget, error);
}

static void try_rings(struct ways *ways)
{
    for (int passing = 0; passing < 2; passing++)
        for (uint32_t times = 1;
             times <= RING_TIMES_MOST && step_of(ways->best) < NEAR_RING * best_seconds(ways);
             times++)
            try_ring(ways, times, passing, NULL);
}

/* ---- the host pool as a cache ---- */

static double try_stays(struct ways *ways, const struct nvme_uses *uses, uint32_t parts,
                        uint8_t write_share)
{
    struct nvme_budget budget = nvme_ways_budget(ways->job->options, ways->job->nvme_bytes);
    const struct nvme_stays_job job = {.plan = ways->found->plan,
                                       .uses = uses,
                                       .host_bytes = budget.host_bytes,
                                       .ahead_share = (double)parts / ALL_PARTS,
                                       .write_share = write_share};
    struct nvme_stays *stays = nvme_stays_find(&job);
    budget.stays = stays;
    double seconds = stays ? try_way(ways, &budget, NULL) : INFINITY;
    nvme_stays_free(stays);
    return seconds;
}

/* Returns the share of the time of a byte that is read and written in which it is written. */
static uint8_t write_share(const struct costs *costs)
{
    double read = costs_link_rate(costs, MOVER_NVME_READ),
           written = costs_link_rate(costs, MOVER_NVME_WRITE);
    double share = round(BIAS_PARTS * read / (read + written));
    return (uint8_t)CLAMP(share, 1, BIAS_PARTS - 1);
}

/* Tries with so much room for loads that run ahead. Reads and writes of a phase need not be
 * balanced as those of the step are, so the extremes are tried, too. */
static void try_caches_ahead(struct ways *ways, const struct nvme_uses *uses, uint32_t parts)
{
    static const uint8_t extremes[] = {1, BIAS_PARTS - 1};
    uint8_t balanced = write_share(ways->job->options->costs);
    double seconds = try_stays(ways, uses, parts, balanced);
    if (seconds > NEAR_CACHE * best_seconds(ways) && isfinite(seconds))
        return;
    for (uint32_t i = 0; i < G_N_ELEMENTS(extremes); i++)
        if (extremes[i] != balanced)
            try_stays(ways, uses, parts, extremes[i]);
}

static void try_caches(struct ways *ways)
{
    struct nvme_uses *uses = nvme_uses_new(ways->found->plan, ways->accesses);
    for (uint32_t a = 0; a < G_N_ELEMENTS(ahead_parts); a++)
        try_caches_ahead(ways, uses, ahead_parts[a]);
    nvme_uses_free(uses);
}

struct plan *nvme_ways_fastest(const struct nvme_ways_job *job, const struct search_result *found,
                               GError **error)
{
    struct ways ways = {.job = job, .found = found, .non_model = non_model_place(found->trace)};
    ways.accesses = accesses_new(found->trace, found->plan->layout, ways.non_model->extent);
    try_ring(&ways, 0, false, error);
    if (!ways.best || ways.best->nvme_bytes) {
        try_rings(&ways);
        try_caches(&ways);
    }
    if (ways.best)
        g_clear_error(error);
    accesses_free(ways.accesses);
    non_model_free(ways.non_model);
    return ways.best;
}
