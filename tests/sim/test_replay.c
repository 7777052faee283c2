/* Plans of random iterations replayed: what the mover counts is what the plan says, and time obeys
 * what holds of any schedule. */
#include "chunks/dry_run.h"
#include "chunks/nvme_homes.h"
#include "chunks/residency/residency.h"
#include "sim/clock.h"
#include "sim/replay.h"
#include "tests/chunks/check_figures.h"
#include "tests/chunks/random_iteration.h"

#include <math.h>

enum { CASES = 300, WILD_CASES = 3000 };

struct fixture {
    struct trace *trace;
    struct layout *layout;
    struct non_model *non_model;
    struct accesses *accesses;
    struct costs *costs;
};

/* The fixture owns the trace and the costs. */
static void set_up_with(struct fixture *f, struct trace *trace, struct costs *costs, GRand *random)
{
    uint64_t chunk_bytes = LAYOUT_ALIGNMENT * (uint64_t)g_rand_int_range(random, 1, 40);
    g_assert_nonnull(costs);
    f->trace = trace;
    f->costs = costs;
    f->layout = layout_pack_uniform(f->trace, chunk_bytes, NULL);
    f->non_model = non_model_place(f->trace);
    f->accesses = accesses_new(f->trace, f->layout, f->non_model->extent);
}

static void set_up(struct fixture *f, GRand *random)
{
    static const char *const links[] = {NULL, "h2d=1MB/s,d2h=2MB/s", "h2d=1GB/s", "d2h=300MB/s"};
    struct trace *trace = random_iteration(random);
    set_up_with(f, trace,
                costs_new(NULL, links[g_rand_int_range(random, 0, G_N_ELEMENTS(links))], NULL),
                random);
}

static void tear_down(struct fixture *f)
{
    costs_free(f->costs);
    accesses_free(f->accesses);
    non_model_free(f->non_model);
    layout_free(f->layout);
    trace_free(f->trace);
}

static int policy_count(void)
{
    int count = 0;
    while (policy_all[count])
        count++;
    return count;
}

static struct plan *random_plan(const struct fixture *f, GRand *random)
{
    uint64_t least = accesses_least_arena_bytes(f->accesses, f->layout, NULL);
    uint64_t all = layout_slot_bytes(f->layout) + f->non_model->peak_bytes;
    uint64_t room = all > least ? all - least : 0;
    struct dry_run_options options = {
        .device_budget = least + (uint64_t)(g_rand_double(random) * (double)room),
        .host_budget = g_rand_boolean(random) ? UINT64_MAX : all / 2,
        .policy = policy_all[g_rand_int_range(random, 0, policy_count())],
        .look_ahead = (uint32_t)g_rand_int_range(random, 0, 6)};
    struct plan *plan = dry_run_accesses(f->trace, f->layout, NULL, f->accesses, &options, NULL);
    const struct nvme_budget nvme = {.host_bytes = UINT64_MAX, .nvme_bytes = UINT64_MAX};
    if (plan && g_rand_boolean(random)) /* where there are states that can live there */
        nvme_homes_give(plan, f->trace, f->accesses, &nvme, NULL);
    return plan;
}

static uint64_t operators_ns(const struct trace *trace)
{
    uint64_t ns = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        ns += trace->operators[m].duration_ns;
    return ns;
}

static void check_times(const struct fixture *f, const struct plan_figures *figures)
{
    double link = (double)MAX(costs_ns(&f->costs->h2d, figures->h2d_bytes),
                              costs_ns(&f->costs->d2h, figures->d2h_bytes));
    link = fmax(link, (double)MAX(costs_ns(&f->costs->nvme[0], figures->nvme_read_bytes),
                                  costs_ns(&f->costs->nvme[1], figures->nvme_write_bytes)));
    double rounding = (double)(figures->h2d_copies + figures->d2h_copies + 100);
    double ns = figures->iteration_seconds * 1e9;
    g_assert_cmpfloat(figures->stall_seconds, >=, 0);
    g_assert_cmpfloat(figures->stall_seconds, <=, figures->iteration_seconds + 1e-12);
    /* A queue cannot do more work in an iteration than an iteration takes. */
    g_assert_cmpfloat(ns + rounding, >=, link);
    if (figures->moves == 0 && figures->h2d_bytes + figures->d2h_bytes == 0)
        g_assert_cmpfloat(figures->stall_seconds, ==, 0);
}

static void test_random_plans(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    int fitting = 0;
    for (int i = 0; i < CASES; i++) {
        struct fixture f;
        set_up(&f, random);
        struct plan *plan = random_plan(&f, random);
        if (plan) {
            g_autoptr(GError) error = NULL;
            struct replay_view view = {f.trace, f.accesses, f.costs};
            plan_check(plan, f.trace, &error);
            g_assert_no_error(error);
            struct replay_figures figures = replay(plan, &view);
            check_figures(&figures.first, &plan->predicted);
            check_figures(&figures.steady, &plan->predicted);
            check_times(&f, &figures.steady);
            fitting++;
        }
        plan_free(plan);
        tear_down(&f);
    }
    g_test_message("%d of %d plans fit", fitting, CASES);
    g_assert_cmpint(fitting, >, CASES / 2);
}

/* A queue, or the host's memory, cannot do more work in an iteration than an iteration takes, even
 * if nobody waits for that work: it would fall behind more and more. */
static void check_queues(const struct fixture *f, const struct plan_figures *figures)
{
    uint64_t device_ns = 0, host_ns = 0, rounding = f->trace->operator_count;
    uint64_t host_bytes = figures->h2d_bytes + figures->d2h_bytes;
    for (uint32_t m = 0; m < f->trace->operator_count; m++) {
        const struct trace_operator *op = &f->trace->operators[m];
        *(op->place == TRACE_ON_HOST ? &host_ns : &device_ns) += op->duration_ns;
        host_bytes += op->place == TRACE_ON_HOST ? op->bytes : 0;
    }
    double ns = figures->iteration_seconds * 1e9 + (double)rounding;
    g_assert_cmpfloat(ns, >=, (double)device_ns);
    g_assert_cmpfloat(ns, >=, (double)host_ns);
    g_assert_cmpfloat(ns * f->costs->host_rate * 1e-9, >=,
                      f->costs->host_rate > 0 ? (double)host_bytes : 0);
}

#define RATE(ns) "{\"source\": \"a test\", \"points\": [[1, " ns "e-9]]}"
#define MACHINE                                                                                 \
    "{\"name\": \"a test's\", \"source\": \"a test\", \"device_bytes\": 1, \"host_bytes\": 1, " \
    "\"h2d\": " RATE("1") ", \"d2h\": " RATE("0.5") ", \"memory\": " RATE(                      \
        "0.1") ", \"compute_fp32\": " RATE("1") ", \"compute_bf16\": " RATE("1") ", "           \
                                                                                 "\"host_"      \
                                                                                 "update\":"    \
                                                                                 " " RATE("1")

#define THREADS                                                                          \
    ", \"threads\": {\"source\": \"a test\", \"host_cores\": 1, \"put_seconds\": 1e-8, " \
    "\"wake_seconds\": 3e-8, \"late_seconds\": 5e-8, \"gap_seconds\": 2e-8, "            \
    "\"slow_down\": [[0.1, 0.2, 0], [0, 0.1, 0.3], [0.5, 0.4, 0.1]]"

enum { CLOCKS = 5 };

/* The costs of queues, of directions that slow each other, of threads, of memory that is shared,
 * and of a rank's threads that share a core with computing. */
static struct costs *costs_of_clock(int clock)
{
    static const char *const machines[] = {
        MACHINE "}", MACHINE ", \"h2d_both\": " RATE("2") ", \"d2h_both\": " RATE("1") "}",
        MACHINE THREADS "}}",
        MACHINE ", \"host\": {\"source\": \"a test\", \"bytes_per_second\": 1.5e9}}",
        MACHINE THREADS ", \"cores\": 1}}"};
    g_autoptr(GError) error = NULL;
    struct platform *platform = platform_parse(machines[clock], "the test's platform", &error);
    g_assert_no_error(error);
    if (clock == 4)
        g_assert_true(platform_spread_ranks(platform, 2, 2, NULL));
    struct costs *costs = costs_new(platform, clock == 2 ? "h2d=1GB/s,d2h=2GB/s" : NULL, NULL);
    g_assert_cmpint(costs->threads.known, ==, clock == 2 || clock == 4);
    g_assert_cmpint(costs->threads.together, ==, clock == 4);
    g_assert_cmpint(costs_is_shared(costs), ==, clock == 1 || clock == 3);
    platform_free(platform);
    return costs;
}

/* Replays wild iterations under each of the clocks. */
static void test_no_queue_falls_behind(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < WILD_CASES; i++) {
        struct fixture f;
        set_up_with(&f, wild_iteration(random), costs_of_clock(i % CLOCKS), random);
        struct plan *plan = random_plan(&f, random);
        if (plan) {
            struct replay_view view = {f.trace, f.accesses, f.costs};
            const struct plan_figures steady = replay(plan, &view).steady;
            check_queues(&f, &steady);
        }
        plan_free(plan);
        tear_down(&f);
    }
}

static void assert_same_times(const struct plan_figures *a, const struct plan_figures *b)
{
    g_assert_cmpfloat(a->iteration_seconds, ==, b->iteration_seconds);
    g_assert_cmpfloat(a->stall_seconds, ==, b->stall_seconds);
}

/* From where a lap follows the one before, its figures are known, and the next lap's are the same.
 * Returns the moments at which it was known. */
static uint32_t check_repetition(const struct fixture *f, const struct plan *plan, bool awaits)
{
    struct sim_job job = {
        .trace = f->trace, .plan = plan, .non_model = f->accesses->non_model, .costs = f->costs};
    struct sim_clock *clock = sim_clock_new(&job);
    struct residency *residency = residency_new(plan, f->accesses, f->trace, &sim_clock_mover,
                                                clock);
    struct plan_figures known = {0};
    uint32_t moments = 0;
    residency_load(residency);
    if (awaits)
        sim_clock_await_copies(clock);
    sim_clock_lap(clock);
    for (int lap = 0; lap < 10; lap++) {
        for (uint32_t m = 0; m < plan->moment_count; m++) {
            residency_step(residency, m);
            if (!sim_clock_follows(clock)) {
                g_assert_cmpuint(moments, ==, 0);
                continue;
            }
            struct plan_figures figures = sim_clock_finish(clock);
            if (moments++)
                assert_same_times(&figures, &known);
            known = figures;
        }
        struct plan_figures figures = sim_clock_lap(clock);
        if (moments)
            assert_same_times(&figures, &known);
    }
    residency_free(residency);
    sim_clock_free(clock);
    return moments;
}

static void test_laps_that_repeat(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    uint32_t repeated = 0;
    for (int i = 0; i < CASES; i++) {
        struct fixture f;
        set_up(&f, random);
        struct plan *plan = random_plan(&f, random);
        if (plan)
            repeated += check_repetition(&f, plan, g_rand_boolean(random)) > 0;
        plan_free(plan);
        tear_down(&f);
    }
    g_test_message("%u plans repeat", repeated);
    g_assert_cmpuint(repeated, >, CASES / 4);
}

/* With room for everything nothing moves, and operators follow each other without a gap. */
static void test_everything_resident(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < CASES; i++) {
        struct fixture f;
        set_up(&f, random);
        struct dry_run_options options = {.device_budget = layout_slot_bytes(f.layout) +
                                                           f.non_model->peak_bytes,
                                          .host_budget = UINT64_MAX,
                                          .policy = &policy_opt};
        struct plan *plan = dry_run_accesses(f.trace, f.layout, NULL, f.accesses, &options, NULL);
        struct replay_view view = {f.trace, f.accesses, f.costs};
        struct plan_figures steady = replay(plan, &view).steady;
        bool on_host = false;
        for (uint32_t m = 0; m < f.trace->operator_count; m++)
            on_host |= f.trace->operators[m].place == TRACE_ON_HOST;
        if (!on_host) {
            g_assert_cmpuint(steady.h2d_bytes + steady.d2h_bytes, ==, 0);
            g_assert_cmpfloat_with_epsilon(steady.iteration_seconds,
                                           (double)operators_ns(f.trace) * 1e-9, 1e-12);
            g_assert_cmpfloat(steady.stall_seconds, ==, 0);
        }
        plan_free(plan);
        tear_down(&f);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/replay/random_plans", test_random_plans);
    g_test_add_func("/replay/no_queue_falls_behind", test_no_queue_falls_behind);
    g_test_add_func("/replay/laps_that_repeat", test_laps_that_repeat);
    g_test_add_func("/replay/everything_resident", test_everything_resident);
    return g_test_run();
}
