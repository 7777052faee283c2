#include "planner/proof/certificate.h"
#include "models/derive.h"
#include "planner/proof/bound.h"
#include "planner/proof/cases.h"
#include "planner/proof/joint.h"
#include "planner/proof/nvme_bound.h"
#include "planner/proof/nvme_prices.h"
#include "planner/proof/prices.h"
#include "planner/schedule/placement.h"

#include <math.h>
#include <string.h>

/* The mix only starts a search, so a rough one will do. */
enum { MIX_WINDOWS = 24 };
#define MIX_CLOSE 5e-3

static uint64_t achieved_ns(const struct plan *plan)
{
    return (uint64_t)llround(plan->predicted.iteration_seconds * 1e9);
}

/* The bound for either side does not cover updates within backward, nor a group whose updates the
 * plan has on both sides. */
static bool groups_are_whole(const struct plan *plan)
{
    const struct layout *layout = plan->layout;
    g_autofree uint8_t *seen = g_new0(uint8_t, layout->group_count);
    for (uint32_t t = 0; t < plan->choices->tensor_count; t++) {
        uint32_t group = layout->chunks[layout->places[TRACE_PARAM][t].chunk].group;
        seen[group] |= plan->choices->host_update[t] ? 2 : 1;
        if (seen[group] == 3)
            return false;
    }
    return true;
}

static bool covers_either_side(const struct time_proof_job *job)
{
    const struct plan *plan = job->plan;
    return plan->choices && plan->choices->tensor_count == job->traced->tensor_count &&
           !run_updates_early(plan->choices) && placement_is_possible(job->traced, job->platform) &&
           groups_are_whole(plan);
}

static struct trace *all_on(const struct time_proof_job *job, int on_host)
{
    g_autofree uint8_t *where = g_malloc(job->traced->tensor_count);
    memset(where, on_host, job->traced->tensor_count);
    return model_place_updates_from(job->traced, where, job->plan->choices->first_update,
                                    job->platform, NULL);
}

/* The traces of the sides for a bound. The job's own trace is of its only side if updates stay. */
static struct time_job begin_sides(const struct time_proof_job *job, bool either_side)
{
    struct time_job sides = {
        .plan = job->plan, .sides = {job->trace}, .costs = job->costs, .watch = job->watch};
    if (either_side) {
        sides.sides[TIME_DEVICE] = all_on(job, 0);
        sides.sides[TIME_HOST] = all_on(job, 1);
    }
    time_job_set_order(&sides, job->traced);
    return sides;
}

static void end_sides(const struct time_job *sides)
{
    if (!sides->sides[TIME_HOST])
        return;
    trace_free((struct trace *)sides->sides[TIME_DEVICE]);
    trace_free((struct trace *)sides->sides[TIME_HOST]);
}

/* The largest chunks are taken together if the iteration has at most so many operators, and the
 * plan takes this factor longer than the bound without. */
enum { JOINT_OPERATORS = 1000 };
#define JOINT_WIDE 1.02

static void prove_jointly(const struct time_job *sides, struct certificate_time *time)
{
    if (sides->sides[0]->operator_count <= JOINT_OPERATORS && proof_goes_on(sides->watch) &&
        (double)time->achieved > JOINT_WIDE * (double)time->bound)
        time->bound = joint_prove(sides, time->bound, &time->joint);
}

/* Chooses windows, finds prices and fills *time. The bound holds for any placement of the groups'
 * optimizers, if updates can be placed and the plan has each group on one side. */
static void time_proof_make(const struct time_proof_job *job, struct certificate_time *time)
{
    struct reuses *reuses = bound_reuses(job->trace, job->plan);
    bool either_side = covers_either_side(job);
    struct time_job sides = begin_sides(job, either_side);
    time->achieved = achieved_ns(job->plan);
    time->either_side = either_side;
    if (cases_prove(&sides, reuses, time))
        prove_jointly(&sides, time);
    else
        time->either_side = false;
    time->bound = MAX(time->bound, nvme_bound_ns(job->plan, job->trace, job->costs));
    end_sides(&sides);
    reuses_free(reuses);
}

/* The proof of the traffic, which uses the same program, must be over. */
static void prove_with_nvme(const struct time_proof_job *job, struct certificate_time *time)
{
    if (proof_goes_on(job->watch))
        time->bound = nvme_prices_prove(job->plan, job->trace, job->costs, time->bound,
                                        &time->nvme);
}

static double *shares_of_tensors(const struct time_proof_job *job, const double *of_block)
{
    const struct layout *layout = job->plan->layout;
    double *shares = g_new(double, job->traced->tensor_count);
    for (uint32_t t = 0; t < job->traced->tensor_count; t++)
        shares[t] = of_block[layout->chunks[layout->places[TRACE_PARAM][t].chunk].group];
    return shares;
}

uint32_t time_proof_mixes(const struct time_proof_job *job, uint64_t *bound,
                          double *mixes[TIME_PROOF_MIXES])
{
    struct reuses *reuses = bound_reuses(job->trace, job->plan);
    g_autoptr(GArray) starts = g_array_new(FALSE, FALSE, sizeof(struct window_start));
    uint32_t count = 0;
    uint64_t host_bytes;
    time_windows_choose(job->trace, reuses, MIX_WINDOWS, starts);
    if (starts->len && covers_either_side(job)) {
        const struct time_job sides = begin_sides(job, true);
        struct time_model *model = time_model_new(
            &sides, reuses, (const struct window_start *)(void *)starts->data, starts->len);
        uint32_t blocks = model->block_count;
        g_autofree double *of_block = g_new(double, 2 * blocks);
        g_autofree struct certificate_window *windows =
            time_prices_find(model, MIX_CLOSE, UINT64_MAX, NULL, &host_bytes, of_block, true);
        *bound = time_model_bound_ns(model, &(struct time_prices){windows, NULL, 0, host_bytes});
        time_model_free(model);
        end_sides(&sides);
        mixes[count++] = shares_of_tensors(job, of_block);
        if (memcmp(of_block, of_block + blocks, blocks * sizeof *of_block) != 0)
            mixes[count++] = shares_of_tensors(job, of_block + blocks);
    }
    reuses_free(reuses);
    return count;
}

uint32_t time_proof_case_mixes(const struct time_proof_job *job, double *mixes[CASES_MIXES])
{
    if (!covers_either_side(job))
        return 0;
    struct reuses *reuses = bound_reuses(job->trace, job->plan);
    struct time_job sides = begin_sides(job, true);
    uint32_t count = cases_find_mixes(&sides, reuses, achieved_ns(job->plan), mixes);
    for (uint32_t i = 0; i < count; i++) {
        g_autofree double *of_group = mixes[i];
        mixes[i] = shares_of_tensors(job, of_group);
    }
    end_sides(&sides);
    reuses_free(reuses);
    return count;
}

/* ---- the check ---- */

/* Sets the bound that follows from the certificate's prices. Returns what is wrong with them, or
 * NULL. */
static const char *recompute(const struct time_proof_job *job, const struct certificate_time *time,
                             uint64_t *bound)
{
    struct reuses *reuses = bound_reuses(job->trace, job->plan);
    struct time_job sides = begin_sides(job, time->either_side);
    const char *wrong = NULL;
    *bound = UINT64_MAX;
    for (uint32_t i = 0; i < time->case_count && !wrong; i++) {
        uint64_t of_case;
        wrong = cases_recompute(&sides, reuses, &time->cases[i], &of_case);
        *bound = MIN(*bound, of_case);
    }
    uint64_t of_joint = 0, of_nvme = 0;
    wrong = wrong ? wrong : joint_recompute(&sides, &time->joint, &of_joint);
    wrong = wrong ? wrong
                  : nvme_prices_recompute(job->plan, job->trace, job->costs, &time->nvme, &of_nvme);
    *bound = MAX(*bound, MAX(of_joint, of_nvme));
    *bound = MAX(*bound, nvme_bound_ns(job->plan, job->trace, job->costs));
    end_sides(&sides);
    reuses_free(reuses);
    return wrong;
}

/* Recomputes the time bound from the prices in the plan's certificate. PLAN_ERROR_INVALID names
 * what differs. */
static bool time_proof_check(const struct time_proof_job *job, GError **error)
{
    const struct certificate_time *time = &job->plan->certificate->time;
    uint64_t achieved = achieved_ns(job->plan), bound = 0;
    const char *wrong = NULL;
    if (time->either_side && !covers_either_side(job))
        wrong = "the optimizer cannot be placed on either side";
    else if (!certificate_covers_all(time, time->either_side ? job->plan->layout->group_count : 0))
        wrong = "its cases do not cover all sides of its branches";
    else if ((wrong = recompute(job, time, &bound)))
        ;
    else if (bound != time->bound)
        wrong = "the lower bound of the time does not follow from the prices";
    else if (achieved != time->achieved)
        wrong = "the time is not that of the plan";
    else if (achieved < bound)
        wrong = "the plan takes less than the lower bound of the time";
    if (wrong)
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                    "certificate: %s (time %" G_GUINT64_FORMAT " ns, at least %" G_GUINT64_FORMAT
                    " ns in it; %" G_GUINT64_FORMAT " and %" G_GUINT64_FORMAT " found)",
                    wrong, time->achieved, time->bound, achieved, bound);
    return !wrong;
}

static uint64_t traffic_of(const struct plan *plan)
{
    return plan->predicted.h2d_bytes + plan->predicted.d2h_bytes;
}

static void prove_traffic(const struct plan *plan, const struct trace *trace,
                          struct certificate_traffic *traffic)
{
    struct reuses *reuses = bound_reuses(trace, plan);
    g_autofree uint64_t *price = traffic_prices_find(reuses, &COPIES_COUNT_ALIKE);
    traffic->achieved = traffic_of(plan);
    traffic->bound = bound_traffic(reuses, price);
    traffic->prices = certificate_room_prices(price, reuses->moment_count, &traffic->price_count);
    reuses_free(reuses);
}

/* The proof of the traffic, which runs in parallel with the proof of the time. */
struct traffic_proof {
    const struct plan *plan;
    const struct trace *trace;
    struct certificate_traffic traffic;
};

static void *run_traffic_proof(void *data)
{
    struct traffic_proof *proof = data;
    prove_traffic(proof->plan, proof->trace, &proof->traffic);
    return NULL;
}

struct platform *certificate_platform(const struct certificate *certificate, GError **error)
{
    struct platform *platform = platform_parse(certificate->platform, "the certificate's platform",
                                               error);
    if (platform && certificate->nodes &&
        !platform_spread_ranks(platform, certificate->ranks, certificate->nodes, error))
        g_clear_pointer(&platform, platform_free);
    return platform;
}

struct costs *certificate_costs(const struct certificate *certificate, GError **error)
{
    struct platform *platform = NULL;
    if (certificate->platform && !(platform = certificate_platform(certificate, error)))
        return NULL;
    struct costs *costs = costs_new(platform, certificate->link, error);
    platform_free(platform);
    return costs;
}

/* Reads what times are computed from; returns false if the certificate's platform or link is
 * invalid. */
static bool begin_times(const struct plan *plan, const struct trace *trace,
                        const struct trace *traced, struct platform **platform,
                        struct costs **costs, struct time_proof_job *job, GError **error)
{
    const struct certificate *certificate = plan->certificate;
    if (certificate->platform && !(*platform = certificate_platform(certificate, error)))
        return false;
    if (*platform && certificate->link)
        platform_keep_apart(*platform);
    *costs = certificate_costs(certificate, error);
    *job = (struct time_proof_job){
        .plan = plan, .trace = trace, .traced = traced, .platform = *platform, .costs = *costs};
    return *costs != NULL;
}

bool certificate_make(struct plan *plan, const struct trace *trace,
                      const struct certificate_source *source, GError **error)
{
    struct platform *platform = NULL;
    struct costs *costs = NULL;
    struct time_proof_job job;
    struct traffic_proof proof = {.plan = plan, .trace = trace};
    certificate_free(plan->certificate);
    struct certificate *certificate = plan->certificate = g_new0(struct certificate, 1);
    certificate->objective = g_strdup(source->objective);
    certificate->trace_sha256 = g_strdup(source->trace_sha256);
    certificate->platform = g_strdup(source->platform);
    certificate->link = g_strdup(source->link);
    certificate->ranks = source->spread.ranks;
    certificate->nodes = source->spread.nodes;
    certificate->began = source->began;
    GThread *beside = g_thread_try_new("traffic", run_traffic_proof, &proof, NULL);
    bool ok = begin_times(plan, trace, source->traced, &platform, &costs, &job, error);
    job.watch = source->watch;
    if (ok)
        time_proof_make(&job, &certificate->time);
    if (beside)
        g_thread_join(beside);
    else
        run_traffic_proof(&proof);
    certificate->traffic = proof.traffic;
    if (ok)
        prove_with_nvme(&job, &certificate->time);
    platform_free(platform);
    costs_free(costs);
    return ok;
}

/* ---- the check ---- */

static bool same(const char *what, uint64_t stated, uint64_t found, GError **error)
{
    if (stated == found)
        return true;
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                "certificate: %s is %" G_GUINT64_FORMAT " in it, %" G_GUINT64_FORMAT
                " when recomputed",
                what, stated, found);
    return false;
}

static bool check_traffic(const struct plan *plan, const struct trace *trace, GError **error)
{
    const struct certificate_traffic *traffic = &plan->certificate->traffic;
    struct reuses *reuses = bound_reuses(trace, plan);
    g_autofree uint64_t *price = certificate_spread_prices(traffic->prices, traffic->price_count,
                                                           reuses->moment_count);
    uint64_t bound = price ? bound_traffic(reuses, price) : 0;
    reuses_free(reuses);
    if (!price) {
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                    "certificate: a price names a moment that the run does not have");
        return false;
    }
    if (!same("the lower bound of the traffic", traffic->bound, bound, error) ||
        !same("the traffic that the plan achieves", traffic->achieved, traffic_of(plan), error))
        return false;
    if (traffic->achieved < bound)
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                    "certificate: the plan moves %" G_GUINT64_FORMAT
                    " bytes, less than their lower bound of %" G_GUINT64_FORMAT,
                    traffic->achieved, bound);
    return traffic->achieved >= bound;
}

bool certificate_check(const struct plan *plan, const struct trace *trace,
                       const struct trace *traced, GError **error)
{
    struct platform *platform = NULL;
    struct costs *costs = NULL;
    struct time_proof_job job;
    bool ok = check_traffic(plan, trace, error) &&
              begin_times(plan, trace, traced, &platform, &costs, &job, error) &&
              time_proof_check(&job, error);
    platform_free(platform);
    costs_free(costs);
    return ok;
}
