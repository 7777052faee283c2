/* Reuse intervals against plans: the computed traffic equals the replayed one, the bound is below
 * every retention, and small iterations are searched exhaustively. */
#include "chunks/dry_run.h"
#include "planner/answers/verify.h"
#include "planner/proof/bound.h"
#include "planner/proof/prices.h"
#include "planner/search/busy.h"
#include "planner/search/candidate.h"
#include "planner/search/trials.h"
#include "tests/chunks/random_iteration.h"

#include <math.h>

enum { CASES = 200, REUSES_ENUMERATED = 12, ENUMERATED_LEAST = 20, ROUNDS = 4 };

struct fixture {
    struct trace *trace;
    struct non_model *non_model;
    struct costs *costs;
    struct candidate_job job;
    struct candidate *candidate;
};

static struct layout_spec random_spec(const struct trace *trace, GRand *random, uint32_t *order)
{
    struct layout_spec spec = {.order = g_rand_boolean(random) ? order : NULL};
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        order[t] = t;
    for (uint32_t t = trace->tensor_count; t > 1; t--) {
        uint32_t other = (uint32_t)g_rand_int_range(random, 0, (gint32)t), retained = order[t - 1];
        order[t - 1] = order[other];
        order[other] = retained;
    }
    for (int list = 0; list < TRACE_LISTS; list++)
        spec.chunk_bytes[list] = LAYOUT_ALIGNMENT * (uint64_t)g_rand_int_range(random, 1, 40);
    return spec;
}

/* Makes a candidate with a budget between the least and everything. `candidate` is NULL if the
 * host's budget does not fit. */
static void set_up(struct fixture *f, GRand *random)
{
    uint32_t order[64];
    uint64_t needed;
    f->trace = random_iteration(random);
    g_assert_cmpuint(f->trace->tensor_count, <=, G_N_ELEMENTS(order));
    f->non_model = non_model_place(f->trace);
    f->costs = costs_new(NULL, g_rand_boolean(random) ? "h2d=500MB/s,d2h=200MB/s" : NULL, NULL);
    struct layout_spec spec = random_spec(f->trace, random, order);
    struct layout *layout = layout_pack(f->trace, &spec, NULL);
    struct accesses *accesses = accesses_new(f->trace, layout, f->non_model->extent);
    uint64_t least = accesses_least_arena_bytes(accesses, layout, NULL);
    uint64_t room = layout_slot_bytes(layout) + f->non_model->peak_bytes;
    f->job = (struct candidate_job){
        .trace = f->trace,
        .non_model = f->non_model,
        .costs = f->costs,
        .device_budget = least +
                         (uint64_t)(g_rand_double(random) * (double)(MAX(room, least) - least)),
        .host_budget = g_rand_boolean(random) ? UINT64_MAX
                                              : (uint64_t)(g_rand_double_range(random, 0.3, 1) *
                                                           (double)layout_slot_bytes(layout))};
    f->candidate = candidate_new(&f->job, &spec, &(struct placement){.pattern = PLACEMENT_TRACED},
                                 &needed, NULL);
    accesses_free(accesses);
    layout_free(layout);
}

static void tear_down(struct fixture *f)
{
    candidate_free(f->candidate);
    costs_free(f->costs);
    non_model_free(f->non_model);
    trace_free(f->trace);
}

static uint64_t traffic(const struct plan *plan)
{
    return plan->predicted.h2d_bytes + plan->predicted.d2h_bytes;
}

static void check_headroom(const struct retention *retention)
{
    const struct reuses *reuses = retention->reuses;
    g_autofree int64_t *headroom = g_memdup2(reuses->room,
                                             reuses->moment_count * sizeof *reuses->room);
    for (uint32_t g = 0; g < reuses->count; g++) {
        const struct reuse *reuse = &reuses->items[g];
        uint32_t m = reuse->from;
        bool takes = retention->retained[g] && !(reuse->flags & REUSE_STAYS); /* less room anyway */
        for (uint32_t i = 0; takes && i < reuse_span(reuses, reuse); i++) {
            m = (m + 1) % reuses->moment_count;
            headroom[m] -= (int64_t)reuses->slot_bytes[reuse->chunk];
        }
    }
    for (uint32_t m = 0; m < reuses->moment_count; m++) {
        g_assert_cmpint(headroom[m], >=, 0);
        g_assert_cmpint(headroom[m] - (int64_t)retention->reserve, ==,
                        headroom_at(retention->headroom, m));
    }
    g_assert_cmpuint(retention->traffic, ==, reuses_traffic(reuses, retention->retained));
}

static void check_plan(const struct fixture *f, struct plan *plan)
{
    g_autoptr(GError) error = NULL;
    verify_plan(plan, f->trace, f->costs, NULL, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(plan->predicted.peak_device_bytes, <=, f->job.device_budget);
    g_assert_cmpuint(plan->predicted.peak_host_bytes, <=, f->job.host_budget);
}

/* Candidates are pruned by these bounds, so plans must not be better. */
static void check_lower_bound(const struct plan *plan, double bytes, double seconds)
{
    g_assert_cmpfloat(bytes, <=, (double)traffic(plan));
    g_assert_cmpfloat(seconds, <=, plan->predicted.iteration_seconds * (1 + 1e-9));
}

static double lower_bound(const struct replay_view *view, const struct plan *plan,
                          enum objective objective)
{
    const struct busy_actions actions = {plan->layout, plan->actions, plan->first_action,
                                         plan->look_ahead};
    return busy_policy_lower_bound(view, &actions, objective);
}

static void check_policy(const struct fixture *f, const struct baselines *baselines,
                         const struct pstar_policy_ops *policy, uint32_t look_ahead)
{
    const struct replay_view view = {f->trace, f->candidate->accesses, f->costs};
    const struct busy_times busy = busy_count(&view);
    double operators = busy_lower_bound(&busy, OBJECTIVE_TIME);
    struct plan *plan = trial_plan_policy(&f->job, baselines, policy, look_ahead, OBJECTIVE_TIME,
                                          INFINITY);
    check_plan(f, plan);
    check_lower_bound(plan, lower_bound(&view, plan, OBJECTIVE_TRAFFIC),
                      lower_bound(&view, plan, OBJECTIVE_TIME));
    if (operators > 0)
        g_assert_null(trial_plan_policy(&f->job, baselines, policy, look_ahead, OBJECTIVE_TIME,
                                        operators * (1 - 1e-9)));
    plan_free(plan);
}

static void check_policies(const struct fixture *f)
{
    struct baselines baselines;
    trial_open_baselines(&f->job, f->trace, f->candidate->layout, &baselines);
    for (const struct pstar_policy_ops *const *p = policy_all; *p; p++) {
        check_policy(f, &baselines, *p, 0);
        check_policy(f, &baselines, *p, 3);
    }
    baselines_close(&baselines);
}

/* Schedules by moments, or by the moment times of the plan before, with any margin. */
static struct interval_options random_options(GRand *random, const struct moment_times *times)
{
    struct interval_options options = {.look_ahead = (uint32_t)g_rand_int_range(random, 0, 50),
                                       .flush_early = g_rand_boolean(random)};
    if (!times || g_rand_int_range(random, 0, 4) == 0)
        return options;
    options.times = times;
    options.margin_ns = (uint64_t)(g_rand_double(random) * (double)times->period_ns);
    if (g_rand_boolean(random))
        options.look_ahead = UINT32_MAX;
    return options;
}

static struct plan *plan_dispatched(const struct fixture *f, GRand *random,
                                    struct moment_times **times)
{
    uint64_t slack = (uint64_t)g_rand_int_range(random, 0, 1 << 14);
    struct intervals *dispatched = candidate_dispatch(
        f->candidate, &(struct walk_options){.slack_bytes = slack,
                                             .leaves_late = g_rand_boolean(random),
                                             .as_wholes = g_rand_boolean(random)});
    struct plan *plan = candidate_plan_dispatched(f->candidate, dispatched, g_rand_boolean(random),
                                                  times);
    g_assert_true(plan || !*times);
    if (!plan)
        plan = candidate_plan_dispatched(f->candidate, dispatched, ADDRESSES_MOVING, times);
    intervals_free(dispatched);
    return plan;
}

static void check_times(const struct moment_times *times, const struct plan *plan)
{
    int32_t n = (int32_t)times->moment_count;
    g_assert_cmpuint(times->moment_count, ==, plan->moment_count);
    for (int32_t m = 1 - 2 * n; m < 2 * n; m++) {
        g_assert_cmpint(moment_times_ns(times, m), >=, moment_times_ns(times, m - 1));
        g_assert_cmpint(moment_times_ns(times, m + n), ==,
                        moment_times_ns(times, m) + (int64_t)times->period_ns);
        int32_t found = moment_times_find(times, moment_times_ns(times, m));
        g_assert_cmpint(found, >=, m);
        g_assert_cmpint(moment_times_ns(times, found), ==, moment_times_ns(times, m));
    }
}

static struct retention_bias random_bias(GRand *random)
{
    return (struct retention_bias){
        .parameter_share = (uint8_t)g_rand_int_range(random, 0, BIAS_PARTS + 1),
        .d2h_share = (uint8_t)g_rand_int_range(random, 0, BIAS_PARTS + 1),
        .reserve = (uint8_t)g_rand_int_range(random, 0, 4),
        .spread = g_rand_boolean(random)};
}

/* The random iterations gather nothing. */
static bool has_all_slots(const struct homes *homes)
{
    for (uint32_t c = 0; c < homes->chunk_count; c++)
        if (homes->host_address[c] == NO_ADDRESS)
            return false;
    return true;
}

/* A host that is too small has slots for fewer chunks, and the choice of those that stay must not
 * cost more than that of the homes. Returns whether chunks stay that are not at home there. */
static bool choose(struct candidate *candidate, GRand *random)
{
    const struct retention_bias bias = random_bias(random);
    bool too_small = !has_all_slots(candidate->homes);
    retention_choose(candidate->retention, &bias);
    uint64_t cost = candidate->retention->cost;
    candidate_choose(candidate, &bias);
    g_assert_cmpuint(candidate->retention->cost, <=, cost);
    return too_small && has_all_slots(candidate->homes);
}

static void retain_otherwise(struct retention *retention, GRand *random)
{
    if (g_rand_boolean(random))
        retention_improve(retention, random, 50, NULL);
    else
        retention_reserve(retention, (uint64_t)g_rand_int_range(random, 0, 1 << 16));
}

static void test_plans_move_what_is_reckoned(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    int straight = 0, planned = 0, staying = 0;
    for (int i = 0; i < CASES; i++) {
        struct fixture f;
        set_up(&f, random);
        if (f.candidate && i % 10 == 0)
            check_policies(&f);
        struct moment_times *times = NULL;
        for (int round = 0; f.candidate && round < ROUNDS; round++) {
            struct moment_times *next = NULL;
            struct interval_options options = random_options(random, times);
            struct plan *plan = round % 2 ? plan_dispatched(&f, random, &next)
                                          : candidate_plan(f.candidate, &options, &next);
            check_headroom(f.candidate->retention);
            check_plan(&f, plan);
            check_times(next, plan);
            check_lower_bound(plan, candidate_lower_bound(f.candidate, OBJECTIVE_TRAFFIC),
                              candidate_lower_bound(f.candidate, OBJECTIVE_TIME));
            /* If no addresses are found in advance, making room may evict chunks. */
            g_assert_cmpuint(traffic(plan), >=, f.candidate->retention->traffic);
            straight += traffic(plan) == f.candidate->retention->traffic;
            planned++;
            plan_free(plan);
            moment_times_free(times);
            times = next;
            if (round == 0)
                staying += choose(f.candidate, random);
            else
                retain_otherwise(f.candidate->retention, random);
        }
        moment_times_free(times);
        tear_down(&f);
    }
    g_test_message("%d of %d plans move exactly what is reckoned, and %d hosts are too small",
                   straight, planned, staying);
    g_assert_cmpint(straight * 10, >=, planned * 9);
    g_assert_cmpint(staying, >=, CASES / 20);
}

/* Returns the least traffic over every retention that fits. */
static uint64_t enumerate(const struct reuses *reuses, const GArray *order)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t set = 0; set < 1u << order->len; set++) {
        struct retention *retention = retention_new(reuses);
        g_autofree int64_t *headroom = g_memdup2(reuses->room,
                                                 reuses->moment_count * sizeof *reuses->room);
        bool fits = true;
        for (guint i = 0; i < order->len; i++) {
            uint32_t g = g_array_index(order, uint32_t, i), m = reuses->items[g].from;
            if (!(set >> i & 1))
                continue;
            retention->retained[g] = 1;
            for (uint32_t s = 0; s < reuse_span(reuses, &reuses->items[g]); s++) {
                m = (m + 1) % reuses->moment_count;
                headroom[m] -= (int64_t)reuses->slot_bytes[reuses->items[g].chunk];
                fits &= headroom[m] >= 0;
            }
        }
        if (fits)
            least = MIN(least, reuses_traffic(reuses, retention->retained));
        retention_free(retention);
    }
    return least;
}

/* Checks that the bound is never above the least traffic, whatever the prices. Returns the bound
 * for the best prices. */
static uint64_t check_bound(const struct reuses *reuses, uint64_t least, GRand *random)
{
    g_autofree uint64_t *best = traffic_prices_find(reuses, &COPIES_COUNT_ALIKE);
    g_autofree uint64_t *price = g_new(uint64_t, reuses->moment_count);
    uint64_t bound = bound_traffic(reuses, best);
    for (int round = 0; round < 5; round++) {
        for (uint32_t m = 0; m < reuses->moment_count; m++)
            price[m] = g_rand_boolean(random) ? best[m] : g_rand_int(random) >> 2 * round;
        g_assert_cmpuint(bound_traffic(reuses, price), <=, least);
    }
    g_assert_cmpuint(bound, <=, least);
    return bound;
}

/* Chunks that must stay take their room from that of the moments, so the bound would count it
 * twice: a proof counts no chunk as staying. */
static bool may_bound(const struct reuses *reuses)
{
    for (uint32_t g = 0; g < reuses->count; g++)
        if (reuses->items[g].flags & REUSE_STAYS)
            return false;
    return true;
}

static void test_small_iterations_against_enumeration(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    int enumerated = 0, optimal = 0, bounded = 0, tight = 0;
    for (int i = 0; i < 40 * CASES && enumerated < CASES; i++) {
        struct fixture f;
        set_up(&f, random);
        if (f.candidate && f.candidate->retention->order->len <= REUSES_ENUMERATED) {
            uint64_t least = enumerate(f.candidate->reuses, f.candidate->retention->order);
            bool bounds = may_bound(f.candidate->reuses);
            bounded += bounds;
            tight += bounds && check_bound(f.candidate->reuses, least, random) == least;
            struct retention_bias bias = random_bias(random);
            bias.d2h_share = BIAS_PARTS / 2; /* traffic counts alone */
            bias.reserve = 0;
            retention_choose(f.candidate->retention, &bias);
            retention_improve(f.candidate->retention, random, 100, NULL);
            g_assert_cmpuint(f.candidate->retention->traffic, >=, least);
            optimal += f.candidate->retention->traffic == least;
            enumerated++;
        }
        tear_down(&f);
    }
    g_test_message("%d of %d iterations solved to the least, %d of %d bounds equal to it", optimal,
                   enumerated, tight, bounded);
    g_assert_cmpint(enumerated, >=, ENUMERATED_LEAST);
    g_assert_cmpint(optimal * 100, >=, enumerated * 95);
    g_assert_cmpint(tight * 100, >=, bounded * 25);
}

enum { USED_ONCE = 100, RANGE = 16, UNEVEN_MOST = 2 };

/* There is room for one chunk at two moments: for two chunks in turn, each of which saves a fetch,
 * or for the third one all of the time, which saves a fetch and a write-back. */
static void test_directions_have_weights(void)
{
    enum { MOMENTS = 4, CHUNKS = 3, READ_AGAIN = REUSE_REFETCH, DIRTY = REUSE_DIRTIES };
    uint32_t first[CHUNKS + 1] = {0, 2, 4, 6};
    struct reuse items[] = {{.chunk = 0, .from = 0, .to = 2, .flags = READ_AGAIN},
                            {.chunk = 0, .from = 2, .to = 0, .flags = READ_AGAIN | REUSE_LEAVES},
                            {.chunk = 1, .from = 1, .to = 3, .flags = READ_AGAIN},
                            {.chunk = 1, .from = 3, .to = 1, .flags = READ_AGAIN | REUSE_LEAVES},
                            {.chunk = 2, .from = 0, .to = 3, .flags = READ_AGAIN | DIRTY},
                            {.chunk = 2, .from = 3, .to = 0, .flags = REUSE_DEAD}};
    uint64_t bytes[CHUNKS] = {LAYOUT_ALIGNMENT, LAYOUT_ALIGNMENT, LAYOUT_ALIGNMENT};
    int64_t room[MOMENTS] = {0, LAYOUT_ALIGNMENT, LAYOUT_ALIGNMENT, 0};
    struct reuses reuses = {MOMENTS, CHUNKS, G_N_ELEMENTS(items), first, items, bytes, bytes, bytes,
                            room,    0};
    reuses_find_writes(&reuses);
    for (uint8_t d2h_share = 0; d2h_share <= BIAS_PARTS; d2h_share += BIAS_PARTS / 4) {
        if (d2h_share == BIAS_PARTS / 2)
            continue; /* a fetch and a write-back save as much as two fetches */
        struct retention *retention = retention_new(&reuses);
        retention_choose(retention, &(struct retention_bias){.d2h_share = d2h_share});
        bool third = d2h_share > BIAS_PARTS / 2;
        g_assert_cmpuint(retention->retained[0], ==, !third);
        g_assert_cmpuint(retention->retained[2], ==, !third);
        g_assert_cmpuint(retention->retained[4], ==, third);
        g_assert_cmpuint(retention->traffic, ==, reuses_traffic(&reuses, retention->retained));
        retention_free(retention);
    }
}

/* Each chunk is used once, one after the other, like optimizer states in an update. There is room
 * for `retained` of them beside the one in use. */
static void use_each_once(struct reuses *reuses, uint32_t retained)
{
    for (uint32_t c = 0; c < USED_ONCE; c++) {
        reuses->first[c + 1] = c + 1;
        reuses->items[c] =
            (struct reuse){.chunk = c, .from = c, .to = c, .flags = REUSE_DIRTIES | REUSE_REFETCH};
        reuses->slot_bytes[c] = reuses->copy_bytes[c] = LAYOUT_ALIGNMENT;
        reuses->room[c] = (int64_t)retained * LAYOUT_ALIGNMENT;
    }
}

static void test_what_leaves_is_spread(void)
{
    uint32_t first[USED_ONCE + 1] = {0};
    struct reuse items[USED_ONCE];
    uint64_t bytes[USED_ONCE], used[USED_ONCE];
    int64_t room[USED_ONCE];
    struct reuses reuses = {USED_ONCE, USED_ONCE, USED_ONCE, first, items,
                            bytes,     used,      used,      room,  0};
    for (uint32_t retained = 1; retained < USED_ONCE - 1; retained++) {
        use_each_once(&reuses, retained);
        reuses_find_writes(&reuses);
        struct retention *retention = retention_new(&reuses);
        retention_choose(retention,
                         &(struct retention_bias){.d2h_share = BIAS_PARTS / 2, .spread = true});
        g_assert_cmpuint(retention->traffic, ==,
                         (uint64_t)2 * LAYOUT_ALIGNMENT * (USED_ONCE - retained));
        for (uint32_t begin = 0; begin + RANGE <= USED_ONCE; begin++) {
            uint32_t of_range = 0;
            for (uint32_t c = begin; c < begin + RANGE; c++)
                of_range += retention->retained[c];
            g_assert_cmpfloat(fabs(of_range - (double)RANGE * retained / USED_ONCE), <=,
                              UNEVEN_MOST);
        }
        retention_free(retention);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/reuse/plans_move_what_is_reckoned", test_plans_move_what_is_reckoned);
    g_test_add_func("/reuse/small_iterations_against_enumeration",
                    test_small_iterations_against_enumeration);
    g_test_add_func("/reuse/directions_have_weights", test_directions_have_weights);
    g_test_add_func("/reuse/what_leaves_is_spread", test_what_leaves_is_spread);
    return g_test_run();
}
