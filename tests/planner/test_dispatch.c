/* Schedules by dispatch(): a replay takes what the walk saw, on a slow link the host gets what it
 * updates first before what it updates last, fetches that wait for the host leave their room to
 * others meanwhile, and what ranks gather counts by the network's time. */
#include "models/synth.h"
#include "planner/answers/verify.h"
#include "planner/schedule/claims.h"
#include "planner/schedule/deadlines.h"
#include "planner/search/candidate.h"
#include "tests/chunks/random_iteration.h"

#include <math.h>

enum { CASES = 20, MANY_CASES = 100, DEADLINES = 300, REPLAYS = 4 };
enum { MOMENTS = 60, CLAIMS = 12 };

static void test_the_earliest_deadline_comes_first(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    g_autoptr(GArray) deadlines = deadlines_new();
    g_autofree int64_t *moment = g_new(int64_t, DEADLINES);
    for (uint32_t i = 0; i < DEADLINES; i++) {
        moment[i] = g_rand_int_range(random, 0, DEADLINES / 4);
        deadlines_add(deadlines, (struct deadline){moment[i], i});
    }
    struct deadline before = {-1, 0};
    for (uint32_t i = 0; i < DEADLINES; i++) {
        uint32_t first = deadlines_first(deadlines);
        g_assert_cmpuint(deadlines_take(deadlines), ==, first);
        g_assert_cmpuint(first, <, DEADLINES);
        g_assert_true(before.moment < moment[first] ||
                      (before.moment == moment[first] && before.index < first));
        before = (struct deadline){moment[first], first};
    }
    g_assert_cmpuint(deadlines->len, ==, 0);
}

/* Returns the least room at the moments of a claim, each looked at by itself. */
static int64_t least_by_moment(const GArray *others, const struct room_claim *claim,
                               const struct headroom *headroom, uint32_t now)
{
    int64_t least = INT64_MAX;
    for (int64_t moment = claim->from; moment < claim->until; moment++) {
        int64_t room = headroom_at(headroom, (moment_id)((now + moment) % MOMENTS));
        for (guint i = 0; i < others->len; i++) {
            const struct room_claim *other = &g_array_index(others, struct room_claim, i);
            if (other->from <= moment && moment < other->until)
                room -= other->bytes;
        }
        least = MIN(least, room);
    }
    return least;
}

static void test_a_claim_counts_at_its_moments(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < MANY_CASES; i++) {
        g_autoptr(GArray) claims = g_array_new(FALSE, FALSE, sizeof(struct room_claim));
        int64_t bytes[MOMENTS];
        uint32_t now = (uint32_t)g_rand_int_range(random, 0, MOMENTS);
        for (uint32_t m = 0; m < MOMENTS; m++)
            bytes[m] = g_rand_int_range(random, 0, 1000);
        struct headroom *headroom = headroom_new(bytes, MOMENTS);
        for (int c = 0; c < CLAIMS; c++) {
            int64_t from = g_rand_int_range(random, 0, MOMENTS - 1);
            int64_t until = g_rand_int_range(random, (gint32)from + 1, MOMENTS);
            struct room_claim claim = {from, until, g_rand_int_range(random, 1, 100)};
            int64_t spare = least_by_moment(claims, &claim, headroom, now) - claim.bytes;
            g_assert_true(claims_leave_room(claims, &claim, headroom, now, MOMENTS, spare));
            g_assert_false(claims_leave_room(claims, &claim, headroom, now, MOMENTS, spare + 1));
            g_array_append_val(claims, claim);
        }
        headroom_free(headroom);
    }
}

struct fixture {
    struct platform *platform;
    struct trace *trace;
    struct non_model *non_model;
    struct costs *costs;
    struct candidate_job job;
    struct candidate *candidate;
};

static const struct model_config config = {.name = "small",
                                           .layers = 6,
                                           .width = 384,
                                           .heads = 6,
                                           .inner = 1536,
                                           .positions = 256,
                                           .vocabulary = 256,
                                           .tied = true};

/* Makes a candidate for the trace and the costs. `bias` is of its retention. */
static void set_up_candidate(struct fixture *f, const struct layout_spec *spec,
                             const struct placement *placement, uint64_t device_budget)
{
    uint64_t needed;
    f->non_model = non_model_place(f->trace);
    f->job = (struct candidate_job){.trace = f->trace,
                                    .non_model = f->non_model,
                                    .costs = f->costs,
                                    .platform = f->platform,
                                    .device_budget = device_budget,
                                    .host_budget = UINT64_MAX};
    f->candidate = candidate_new(&f->job, spec, placement, &needed, NULL);
    g_assert_nonnull(f->candidate);
    retention_choose(
        f->candidate->retention,
        &(struct retention_bias){.d2h_share = BIAS_PARTS / 2, .gather_share = BIAS_PARTS / 2});
}

static uint64_t peak_bytes(const struct trace *trace)
{
    struct non_model *non_model = non_model_place(trace);
    uint64_t peak = non_model->peak_bytes;
    non_model_free(non_model);
    return peak;
}

/* This share of the updates runs on the host, behind a link. Chunks of a list have between `least`
 * and twice as much, in MiB, and so have lists. */
static void set_up_job(struct fixture *f, GRand *random, const struct model_job *job,
                       const char *link, uint16_t host_parts, int least, uint64_t more_bytes)
{
    const struct placement placement = {PLACEMENT_SPREAD, host_parts, 0, NULL, 0};
    struct layout_spec spec = {.order = NULL};
    for (int list = 0; list < TRACE_LISTS; list++)
        spec.chunk_bytes[list] = (uint64_t)g_rand_int_range(random, least, 2 * least + 1) << 20;
    f->platform = platform_read(PROJECT_DIR "/platforms/v100-yard.json", NULL);
    f->trace = model_synthesise(&config, job, f->platform, NULL);
    f->costs = costs_new(f->platform, link, NULL);
    set_up_candidate(f, &spec, &placement, peak_bytes(f->trace) + more_bytes);
}

/* The link takes longer than everything else. */
static void set_up_share(struct fixture *f, GRand *random, uint16_t host_parts,
                         uint32_t micro_batches, int least, uint64_t more_bytes)
{
    const struct model_job job = {.choices = {.batch = 2, .micro_batches = micro_batches},
                                  .sequence = 128,
                                  .precision = MODEL_BF16};
    g_autofree char *link = g_strdup_printf("h2d=%dMB/s,d2h=%dMB/s",
                                            g_rand_int_range(random, 100, 200),
                                            g_rand_int_range(random, 100, 200));
    set_up_job(f, random, &job, link, host_parts, least, more_bytes);
}

static void set_up(struct fixture *f, GRand *random, uint32_t micro_batches, int least,
                   uint64_t more_bytes)
{
    set_up_share(f, random, PLACEMENT_PARTS, micro_batches, least, more_bytes);
}

enum { RANKS = 4 };

/* Ranks that share parameters, with a network and a link of these rates. All updates are on the
 * device. */
static void set_up_ranks(struct fixture *f, double network, const char *link, uint64_t more_bytes)
{
    const struct model_job job = {.choices = {.batch = 2, .micro_batches = 2 * RANKS, .stage = 3},
                                  .sequence = 128,
                                  .precision = MODEL_BF16,
                                  .ranks = RANKS};
    const struct placement on_device = {PLACEMENT_SPREAD, 0, 0, NULL, 0};
    struct layout_spec spec = {.order = NULL};
    for (int list = 0; list < TRACE_LISTS; list++)
        spec.chunk_bytes[list] = 1u << 20;
    f->platform = platform_read(PROJECT_DIR "/platforms/dgx-a100.json", NULL);
    f->platform->node.level.bytes_per_second = network;
    g_assert_true(platform_spread_ranks(f->platform, RANKS, 1, NULL));
    f->costs = costs_new(f->platform, link, NULL);
    f->trace = model_synthesise(&config, &job, f->platform, NULL);
    set_up_candidate(f, &spec, &on_device, peak_bytes(f->trace) + more_bytes);
}

static void tear_down(struct fixture *f)
{
    candidate_free(f->candidate);
    costs_free(f->costs);
    non_model_free(f->non_model);
    trace_free(f->trace);
    platform_free(f->platform);
}

/* Returns the least seconds of schedules in the order of the last uses. */
static double seconds_in_order_of_use(const struct fixture *f)
{
    struct interval_options options = {.look_ahead = 64, .flush_early = true};
    struct moment_times *times = NULL;
    double least = G_MAXDOUBLE;
    for (int replay = 0; replay < REPLAYS; replay++) {
        struct moment_times *next;
        struct plan *plan = candidate_plan(f->candidate, &options, &next);
        least = MIN(least, plan->predicted.iteration_seconds);
        plan_free(plan);
        moment_times_free(times);
        times = next;
        options = (struct interval_options){.look_ahead = UINT32_MAX,
                                            .flush_early = true,
                                            .times = times,
                                            .margin_ns = times->period_ns / 16};
    }
    moment_times_free(times);
    return least;
}

/* Checks the plan of a schedule. Returns its seconds. */
static double check_plan(const struct fixture *f, const struct intervals *dispatched, bool by_time)
{
    g_autoptr(GError) error = NULL;
    struct moment_times *times;
    struct plan *plan = candidate_plan_dispatched(f->candidate, dispatched, by_time, &times);
    if (!plan)
        plan = candidate_plan_dispatched(f->candidate, dispatched, ADDRESSES_MOVING, &times);
    double seconds = plan->predicted.iteration_seconds;
    verify_plan(plan, f->candidate->trace, f->costs, NULL, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(plan->predicted.h2d_bytes + plan->predicted.d2h_bytes, ==,
                     f->candidate->retention->traffic);
    g_assert_cmpfloat(seconds * 1e9, >=, (double)dispatched->period_ns * (1 - 1e-6));
    plan_free(plan);
    moment_times_free(times);
    return seconds;
}

static void test_a_slow_link_serves_the_host_first(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    int exact = 0;
    for (int i = 0; i < CASES; i++) {
        struct fixture f;
        set_up(&f, random, 1, 2, 120u << 20);
        struct intervals *dispatched = candidate_dispatch(f.candidate, &(struct walk_options){0});
        double by_moment = check_plan(&f, dispatched, false);
        double by_time = check_plan(&f, dispatched, true), seconds = MIN(by_moment, by_time);
        g_test_message("%.4f s, in the order of use %.4f s", seconds, seconds_in_order_of_use(&f));
        g_assert_cmpfloat(seconds, <, 0.8 * seconds_in_order_of_use(&f));
        exact += seconds * 1e9 <= (double)dispatched->period_ns * (1 + 1e-6);
        intervals_free(dispatched);
        tear_down(&f);
    }
    g_test_message("%d of %d plans take exactly what the walk saw", exact, CASES);
    g_assert_cmpint(exact * 2, >=, CASES);
}

/* Returns the seconds of the plan whose chunks may move. *walk is what the walk saw. */
static double seconds_of_moving(const struct fixture *f, double *walk)
{
    struct moment_times *times;
    struct intervals *dispatched = candidate_dispatch(f->candidate, &(struct walk_options){0});
    struct plan *plan = candidate_plan_dispatched(f->candidate, dispatched, ADDRESSES_MOVING,
                                                  &times);
    double seconds = plan->predicted.iteration_seconds;
    *walk = (double)dispatched->period_ns * 1e-9;
    plan_free(plan);
    moment_times_free(times);
    intervals_free(dispatched);
    return seconds;
}

/* Where few chunks fit, those that wait for no copy move before others are awaited, and chunks that
 * follow each other in parts take less time. */
static void test_large_chunks_wait_little(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    double whole = 0, parts = 0, less = 0;
    for (int i = 0; i < MANY_CASES; i++) {
        struct fixture f;
        double walk;
        set_up(&f, random, 4, 3, 20u << 20);
        g_assert_cmpuint(f.candidate->cut_from_bytes, >, 0);
        double in_parts = seconds_of_moving(&f, &walk);
        parts += in_parts / walk - 1;
        f.candidate->cut_from_bytes = 0;
        double as_wholes = seconds_of_moving(&f, &walk);
        whole += as_wholes / walk - 1;
        less += 1 - in_parts / as_wholes;
        tear_down(&f);
    }
    g_test_message("plans take %.1f %% longer than the walk saw, %.1f %% in parts, in which they "
                   "take %.1f %% less time",
                   100 * whole / MANY_CASES, 100 * parts / MANY_CASES, 100 * less / MANY_CASES);
    g_assert_cmpfloat(whole / MANY_CASES, <, 0.03);
    g_assert_cmpfloat(parts / MANY_CASES, <, 0.05);
    g_assert_cmpfloat(less / MANY_CASES, >, 0.03);
}

/* Returns the seconds of the best plan of a schedule. */
static double best_of_addresses(const struct fixture *f, bool leaves_late, bool *waits)
{
    struct intervals *dispatched =
        candidate_dispatch(f->candidate, &(struct walk_options){.leaves_late = leaves_late});
    double least = INFINITY;
    for (int how = ADDRESSES_BY_MOMENT; how <= ADDRESSES_MOVING; how++) {
        struct moment_times *times;
        struct plan *plan = candidate_plan_dispatched(f->candidate, dispatched, how, &times);
        least = plan ? fmin(least, plan->predicted.iteration_seconds) : least;
        plan_free(plan);
        moment_times_free(times);
    }
    *waits = dispatched->waits;
    intervals_free(dispatched);
    return least;
}

/* Where write-backs last until the next iteration, addresses may depend on when that is. */
static void test_chunks_may_leave_late(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    int waiting = 0, better = 0;
    double gain = 0;
    for (int i = 0; i < MANY_CASES; i++) {
        struct fixture f;
        bool waits;
        set_up_share(&f, random, 3 * PLACEMENT_PARTS / 4, 4, 3, 80u << 20);
        double soon = best_of_addresses(&f, false, &waits);
        double late = best_of_addresses(&f, true, &waits);
        waiting += waits;
        better += late < soon;
        gain += fmax(1 - late / soon, 0);
        if (!waits)
            g_assert_cmpfloat(late, ==, soon);
        tear_down(&f);
    }
    g_test_message(
        "%d of %d schedules wait beyond the iteration, %d plans are better if chunks leave "
        "late, all by %.2f %% on average",
        waiting, MANY_CASES, better, 100 * gain / MANY_CASES);
    g_assert_cmpfloat(gain / MANY_CASES, >, 0.03);
}

/* The second backward makes gradients one after the other, and the host updates the last layers
 * while the device still needs the parameters of the first ones. New parameters come back
 * meanwhile: the link would otherwise take its directions one after the other. */
static void test_new_parameters_do_not_wait_for_later_ones(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    const struct model_job job = {
        .choices = {.batch = 2, .micro_batches = 1, .split_masters = true, .second_backward = true},
        .sequence = 128,
        .precision = MODEL_BF16};
    double ratio = 0;
    for (int i = 0; i < CASES; i++) {
        struct fixture f;
        uint64_t more_bytes = (uint64_t)g_rand_int_range(random, 34, 45) << 20;
        set_up_job(&f, random, &job, "h2d=150MB/s,d2h=150MB/s", 11 * PLACEMENT_PARTS / 16, 1,
                   more_bytes);
        struct intervals *dispatched = candidate_dispatch(f.candidate, &(struct walk_options){0});
        struct moment_times *times;
        struct plan *plan = candidate_plan_dispatched(f.candidate, dispatched, ADDRESSES_MOVING,
                                                      &times);
        uint64_t most = MAX(plan->predicted.h2d_bytes, plan->predicted.d2h_bytes);
        ratio += (double)dispatched->period_ns * 0.15 / (double)most / CASES;
        plan_free(plan);
        moment_times_free(times);
        intervals_free(dispatched);
        tear_down(&f);
    }
    g_test_message("an iteration takes %.3f times as long as the busier direction", ratio);
    g_assert_cmpfloat(ratio, <, 1.2);
}

/* Returns the share of the gathered chunks' intervals that are retained. */
static double gathers_kept(double network, const char *link)
{
    struct fixture f;
    set_up_ranks(&f, network, link, 10u << 20);
    const struct reuses *reuses = f.candidate->reuses;
    double kept = 0, all = 0;
    for (uint32_t g = 0; g < reuses->count; g++) {
        const struct reuse *reuse = &reuses->items[g];
        if (!reuses_is_gathered(reuses, reuse->chunk) || !reuse_can_retain(reuse) ||
            !reuse_span(reuses, reuse))
            continue;
        kept += f.candidate->retention->retained[g];
        all++;
    }
    tear_down(&f);
    return kept / all;
}

/* What is gathered slowly stays, and what comes slowly over the link leaves for it only otherwise.
 */
static void test_the_slower_way_is_saved(void)
{
    double slow_network = gathers_kept(1e9, "h2d=50GB/s,d2h=50GB/s");
    double slow_link = gathers_kept(1e11, "h2d=1GB/s,d2h=1GB/s");
    g_test_message("%.2f of the gathers saved on a slow network, %.2f beside a slow link",
                   slow_network, slow_link);
    g_assert_cmpfloat(slow_network, >, 1.2 * slow_link);
}

/* Gathers and reductions share the network; the walk knows when they are over, and gathers of the
 * next operators come while the device computes. */
static void test_the_network_is_a_queue(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < CASES; i++) {
        struct fixture f;
        double network = g_rand_double_range(random, 2e9, 2e10);
        set_up_ranks(&f, network, "h2d=25GB/s,d2h=25GB/s", 128u << 20);
        struct intervals *dispatched = candidate_dispatch(f.candidate, &(struct walk_options){0});
        double by_moment = check_plan(&f, dispatched, false);
        double by_time = check_plan(&f, dispatched, true), seconds = MIN(by_moment, by_time);
        g_test_message("%.5f s, the walk %.5f s, in the order of use %.5f s", seconds,
                       (double)dispatched->period_ns * 1e-9, seconds_in_order_of_use(&f));
        g_assert_cmpfloat(seconds * 1e9, <=, 1.005 * (double)dispatched->period_ns);
        intervals_free(dispatched);
        tear_down(&f);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/dispatch/deadlines", test_the_earliest_deadline_comes_first);
    g_test_add_func("/dispatch/slow-link", test_a_slow_link_serves_the_host_first);
    g_test_add_func("/dispatch/large-chunks", test_large_chunks_wait_little);
    g_test_add_func("/dispatch/leave-late", test_chunks_may_leave_late);
    g_test_add_func("/dispatch/claims", test_a_claim_counts_at_its_moments);
    g_test_add_func("/dispatch/new-parameters", test_new_parameters_do_not_wait_for_later_ones);
    g_test_add_func("/dispatch/slower-way", test_the_slower_way_is_saved);
    g_test_add_func("/dispatch/network", test_the_network_is_a_queue);
    return g_test_run();
}
