/* Copies in both directions at once: schedules worked out by hand, and what holds of any. Alone a
 * byte takes a nanosecond, beside the other direction two; from pageable memory one and a half. */
#include "chunks/dry_run.h"
#include "chunks/residency/residency.h"
#include "sim/clock.h"
#include "sim/replay.h"
#include "tests/chunks/random_iteration.h"

#include <math.h>

enum { OPERATORS = 2, CHUNKS = 3, CASES = 150, LAPS = 3 };

static const struct mover_after at_once;

/* The nanoseconds a byte of a platform's copies; pageable is 0 if not known. */
struct rates {
    double alone[2], both[2], pageable; /* [H2D, D2H]; both 0: not known */
    double host;                        /* bytes a nanosecond of the host's memory; 0: not known */
};

static struct costs *costs_of(const struct rates *rates)
{
    struct platform_point points[6], memory = {16, 1e-9};
    struct platform_curve curve[6];
    const double ns[6] = {rates->alone[0], rates->alone[1], rates->both[0],
                          rates->both[1],  rates->pageable, rates->pageable};
    for (int i = 0; i < 6; i++) {
        points[i] = (struct platform_point){1, ns[i] * 1e-9};
        curve[i] = (struct platform_curve){&points[i], ns[i] > 0, NULL};
    }
    struct platform platform = {.h2d = curve[0], .d2h = curve[1], .memory = {&memory, 1, NULL}};
    if (rates->host > 0)
        platform.host = (struct platform_host){.source = (char *)"a test",
                                               .bytes_per_second = rates->host * 1e9,
                                               .ranks = 1,
                                               .bound = true};
    platform.extra[PLATFORM_H2D_BOTH] = curve[2];
    platform.extra[PLATFORM_D2H_BOTH] = curve[3];
    platform.extra[PLATFORM_H2D_PAGEABLE] = curve[4];
    platform.extra[PLATFORM_D2H_PAGEABLE] = curve[5];
    return costs_new(&platform, NULL, NULL);
}

/* ---- by hand ---- */

struct fixture {
    struct trace_operator operators[OPERATORS];
    uint64_t non_model[OPERATORS];
    struct trace trace;
    struct chunk chunks[CHUNKS];
    struct layout layout;
    uint64_t host_address[CHUNKS], initial_address[CHUNKS];
    struct plan plan;
    struct costs *costs;
    struct timeline *timeline;
    struct sim_clock *clock;
};

/* `pinned`: of the host pool's 3,000 bytes. */
static void set_up(struct fixture *f, const void *pinned)
{
    const struct rates rates = {{1, 1}, {2, 2}, 1.5, 0};
    static const uint64_t used[CHUNKS] = {600, 800, 1600};
    uint64_t address = 0;
    for (int m = 0; m < OPERATORS; m++)
        f->operators[m] = (struct trace_operator){.name = "operator", .duration_ns = 1000};
    for (int c = 0; c < CHUNKS; c++) {
        f->chunks[c] = (struct chunk){.slot_bytes = 2048, .copy_bytes = used[c]};
        f->host_address[c] = address;
        address += used[c];
    }
    f->trace = (struct trace){
        .operator_count = OPERATORS, .operators = f->operators, .non_model_bytes = f->non_model};
    f->layout = (struct layout){.chunk_count = CHUNKS, .chunks = f->chunks};
    f->plan = (struct plan){.layout = &f->layout,
                            .host_address = f->host_address,
                            .initial_address = f->initial_address,
                            .host_pool_bytes = address};
    f->costs = costs_of(&rates);
    if (pinned)
        g_assert_true(costs_set_pinned(f->costs, *(const uint64_t *)pinned, NULL));
    f->timeline = timeline_new();
    f->clock = sim_clock_new(&(struct sim_job){.trace = &f->trace,
                                               .plan = &f->plan,
                                               .non_model = f->non_model,
                                               .costs = f->costs,
                                               .timeline = f->timeline});
}

static void tear_down(struct fixture *f, const void *pinned)
{
    (void)pinned;
    sim_clock_free(f->clock);
    timeline_free(f->timeline);
    costs_free(f->costs);
}

static struct mover_copy copy_of(const struct fixture *f, uint32_t chunk)
{
    return (struct mover_copy){.chunk = chunk,
                               .device_address = 2048 * (uint64_t)chunk,
                               .copy_bytes = f->chunks[chunk].copy_bytes,
                               .slot_bytes = f->chunks[chunk].slot_bytes};
}

static mover_ticket fetch(struct fixture *f, uint32_t chunk, const struct mover_after *after)
{
    struct mover_copy copy = copy_of(f, chunk);
    return sim_clock_mover.fetch(f->clock, &copy, after);
}

static mover_ticket write_back(struct fixture *f, uint32_t chunk, const struct mover_after *after)
{
    struct mover_copy copy = copy_of(f, chunk);
    return sim_clock_mover.write_back(f->clock, &copy, true, after);
}

static mover_ticket run_moment(struct sim_clock *clock, uint32_t moment,
                               const struct mover_after *after)
{
    mover_ticket received;
    return sim_clock_mover.run(clock, moment, after, &received);
}

static void check_span(const struct fixture *f, enum mover_queue queue, guint index,
                       uint64_t start_ns, uint64_t end_ns)
{
    const struct timeline_span *span = &g_array_index(f->timeline->spans[queue],
                                                      struct timeline_span, index);
    g_assert_cmpuint(span->start_ns, ==, start_ns);
    g_assert_cmpuint(span->end_ns, ==, end_ns);
}

/* Both begin at 0. At 1200 the 600 bytes up are there, and 600 of the 800 down; the other 200 take
 * 200 ns. */
static void test_from_the_beginning(struct fixture *f, const void *data)
{
    (void)data;
    struct mover_after both = {{[MOVER_H2D] = fetch(f, 0, &at_once)}};
    both.queue[MOVER_D2H] = write_back(f, 1, &at_once);
    g_assert_cmpuint(run_moment(f->clock, 0, &both), ==, 1400 + 1000);
    check_span(f, MOVER_H2D, 0, 0, 1200);
    check_span(f, MOVER_D2H, 0, 0, 1400);

    struct plan_figures lap = sim_clock_lap(f->clock);
    g_assert_cmpfloat_with_epsilon(lap.stall_seconds, 1400e-9, 1e-15);
    const struct timeline_stall *stall = &g_array_index(f->timeline->stalls, struct timeline_stall,
                                                        0);
    g_assert_cmpint(stall->queue, ==, MOVER_D2H);
    g_assert_cmpuint(stall->chunk, ==, 1);
    g_assert_cmpuint(stall->wait_ns, ==, 1400);
}

/* A copy that has begun is slowed by one that is queued later: 1600 bytes up from 0; at 1000, when
 * the first operator is done, 600 are left. 600 down take from 1000 to 2200, and 600 up as well. */
static void test_by_a_later_copy(struct fixture *f, const void *data)
{
    (void)data;
    struct mover_after fetched = {{[MOVER_H2D] = fetch(f, 2, &at_once)}};
    g_assert_cmpuint(run_moment(f->clock, 0, &at_once), ==, 1000);
    write_back(f, 0, &at_once);
    g_assert_cmpuint(run_moment(f->clock, 1, &fetched), ==, 2200 + 1000);
    check_span(f, MOVER_H2D, 0, 0, 2200);
    check_span(f, MOVER_D2H, 0, 1000, 2200);
}

/* Two up, one after the other, beside one down: up until 1200 and 2800; by then 1400 bytes are
 * down, and 200 go on alone. */
static void test_queue_beside_a_long_copy(struct fixture *f, const void *data)
{
    (void)data;
    fetch(f, 0, &at_once);
    struct mover_after up = {{[MOVER_H2D] = fetch(f, 1, &at_once)}};
    struct mover_after down = {{[MOVER_D2H] = write_back(f, 2, &at_once)}};
    g_assert_cmpuint(run_moment(f->clock, 0, &up), ==, 3800);
    g_assert_cmpuint(run_moment(f->clock, 1, &down), ==, 4800);
    check_span(f, MOVER_H2D, 0, 0, 1200);
    check_span(f, MOVER_H2D, 1, 1200, 2800);
    check_span(f, MOVER_D2H, 0, 0, 3000);
}

/* A fetch that waits for a write-back does not overlap it. */
static void test_one_after_the_other(struct fixture *f, const void *data)
{
    (void)data;
    struct mover_after written = {{[MOVER_D2H] = write_back(f, 0, &at_once)}};
    struct mover_after fetched = {{[MOVER_H2D] = fetch(f, 1, &written)}};
    g_assert_cmpuint(run_moment(f->clock, 0, &fetched), ==, 1400 + 1000);
    check_span(f, MOVER_D2H, 0, 0, 600);
    check_span(f, MOVER_H2D, 0, 600, 1400);
}

/* 300 down, 1000 of work, 200 up, beside 1600 bytes up that were queued before: the activations'
 * way down is slowed, and their way up waits for the queue. */
static void test_host_operator(struct fixture *f, const void *data)
{
    (void)data;
    f->operators[0].place = TRACE_ON_HOST;
    f->operators[0].d2h_bytes = 300;
    f->operators[0].h2d_bytes = 200;
    fetch(f, 2, &at_once); /* 300 bytes beside, until 600, then 1300 alone: 1900 */
    struct mover_after done = {{[MOVER_HOST] = run_moment(f->clock, 0, &at_once)}};
    struct plan_figures lap = sim_clock_lap(f->clock); /* sees the end without a wait */
    g_assert_cmpfloat_with_epsilon(lap.iteration_seconds, 2100e-9, 1e-15);
    g_assert_cmpuint(run_moment(f->clock, 1, &done), ==, 2100 + 1000);
    check_span(f, MOVER_D2H, 0, 0, 600);
    check_span(f, MOVER_HOST, 0, 600, 1600);
    check_span(f, MOVER_H2D, 0, 0, 1900);
    check_span(f, MOVER_H2D, 1, 1900, 2100);
}

/* 1,400 bytes are pinned: chunk 2 is not. Down alone it takes 2400 ns; beside 600 bytes up, 1200
 * of its 3200 beside, and 5/8 of 2400 alone. */
static void test_pageable(struct fixture *f, const void *data)
{
    (void)data;
    struct mover_after down = {{[MOVER_D2H] = write_back(f, 2, &at_once)}};
    fetch(f, 0, &at_once);
    g_assert_cmpuint(run_moment(f->clock, 0, &down), ==, 1200 + 1500 + 1000);
    check_span(f, MOVER_H2D, 0, 0, 1200);
    check_span(f, MOVER_D2H, 0, 0, 2700);
}

/* A byte may take 10 us, and no longer. */
static void test_slow_is_refused(void)
{
    const struct rates least = {{1, 1}, {9990, 1}, 0, 0}, slow = {{1, 1}, {1, 10010}, 0, 0};
    struct costs *costs = costs_of(&least);
    g_assert_nonnull(costs);
    g_assert_null(costs_of(&slow));
    g_autoptr(GError) error = NULL;
    g_assert_null(costs_new(NULL, "d2h=99KB/s", &error));
    g_assert_error(error, COSTS_ERROR, COSTS_ERROR_INVALID);
    g_assert_true(g_str_has_prefix(error->message, "d2h:"));
    costs_free(costs);
}

static void test_pageable_is_refused(void)
{
    const struct rates rates = {{1, 1}, {2, 2}, 0, 0};
    struct costs *none = costs_new(NULL, NULL, NULL), *pinned = costs_of(&rates);
    g_autoptr(GError) error = NULL, same = NULL;
    g_assert_false(costs_set_pinned(none, 1000, &error));
    g_assert_error(error, COSTS_ERROR, COSTS_ERROR_INVALID);
    g_assert_false(costs_set_pinned(pinned, 1000, &same));
    g_assert_error(same, COSTS_ERROR, COSTS_ERROR_INVALID);
    costs_free(none);
    costs_free(pinned);
}

/* ---- of any plan ---- */

struct example {
    struct trace *trace;
    struct layout *layout;
    struct non_model *non_model;
    struct accesses *accesses;
    struct plan *plan; /* NULL: does not fit */
};

static void draw(struct example *e, GRand *random)
{
    e->trace = random_iteration(random);
    e->layout = layout_pack_uniform(
        e->trace, LAYOUT_ALIGNMENT * (uint64_t)g_rand_int_range(random, 1, 40), NULL);
    e->non_model = non_model_place(e->trace);
    e->accesses = accesses_new(e->trace, e->layout, e->non_model->extent);
    uint64_t least = accesses_least_arena_bytes(e->accesses, e->layout, NULL);
    struct dry_run_options options = {
        .device_budget = least + (uint64_t)(g_rand_double(random) * (double)least),
        .host_budget = UINT64_MAX,
        .policy = random_policy(random),
        .look_ahead = (uint32_t)g_rand_int_range(random, 0, 6)};
    e->plan = dry_run_accesses(e->trace, e->layout, NULL, e->accesses, &options, NULL);
}

static void clear(struct example *e)
{
    plan_free(e->plan);
    accesses_free(e->accesses);
    non_model_free(e->non_model);
    layout_free(e->layout);
    trace_free(e->trace);
}

/* When each of a few iterations ends. */
struct ends {
    struct plan_figures lap[LAPS];
    double end[LAPS];
};

/* An operator waits, so that every span has its end: one on the device if there is any, since those
 * on the host may begin copies of their own. */
static void wait_for_all(const struct example *e, struct sim_clock *clock,
                         const struct timeline *timeline)
{
    struct mover_after all = at_once;
    uint32_t moment = 0;
    while (moment + 1 < e->trace->operator_count &&
           e->trace->operators[moment].place == TRACE_ON_HOST)
        moment++;
    for (int q = MOVER_H2D; q < MOVER_QUEUES; q++)
        all.queue[q] = timeline->spans[q]->len;
    run_moment(clock, moment, &all);
}

static struct ends run(const struct example *e, const struct rates *rates,
                       struct timeline *timeline)
{
    struct costs *costs = costs_of(rates);
    struct sim_clock *clock = sim_clock_new(&(struct sim_job){.trace = e->trace,
                                                              .plan = e->plan,
                                                              .non_model = e->accesses->non_model,
                                                              .costs = costs,
                                                              .timeline = timeline});
    struct residency *residency = residency_new(e->plan, e->accesses, e->trace, &sim_clock_mover,
                                                clock);
    struct ends ends;
    double now = sim_clock_lap(clock).iteration_seconds;
    residency_load(residency);
    for (int i = 0; i < LAPS; i++) {
        for (uint32_t m = 0; m < e->trace->operator_count; m++)
            residency_step(residency, m);
        ends.lap[i] = sim_clock_lap(clock);
        ends.end[i] = now += ends.lap[i].iteration_seconds;
    }
    if (timeline)
        wait_for_all(e, clock, timeline);
    residency_free(residency);
    sim_clock_free(clock);
    costs_free(costs);
    return ends;
}

static struct rates draw_rates(GRand *random)
{
    struct rates rates = {.pageable = 0};
    for (int d = 0; d < 2; d++) {
        rates.alone[d] = g_rand_double_range(random, 0.1, 3);
        rates.both[d] = rates.alone[d] * g_rand_double_range(random, 1, 3);
    }
    return rates;
}

/* Directions that do not slow each other, and memory that is never scarce, are independent queues,
 * to the nanosecond. */
static void check_same(const struct example *e, const struct rates *rates)
{
    const struct rates queues = {{rates->alone[0], rates->alone[1]}, {0, 0}, 0, 0};
    const struct rates equal = {
        {rates->alone[0], rates->alone[1]}, {rates->alone[0], rates->alone[1]}, 0, 0};
    const struct rates plenty = {{rates->alone[0], rates->alone[1]}, {0, 0}, 0, 1e9};
    struct ends expected = run(e, &queues, NULL), found = run(e, &equal, NULL);
    struct ends with_memory = run(e, &plenty, NULL);
    for (int i = 0; i < LAPS; i++) {
        g_assert_cmpmem(&expected.lap[i], sizeof expected.lap[i], &found.lap[i],
                        sizeof found.lap[i]);
        g_assert_cmpmem(&expected.lap[i], sizeof expected.lap[i], &with_memory.lap[i],
                        sizeof with_memory.lap[i]);
    }
}

/* Scarce memory never makes an iteration shorter, and changes no bytes. */
static void check_scarce(const struct example *e, const struct rates *rates)
{
    const struct rates queues = {{rates->alone[0], rates->alone[1]}, {0, 0}, 0, 0};
    struct rates scarce = *rates;
    scarce.host = 0.5;
    struct ends low = run(e, &queues, NULL), found = run(e, &scarce, NULL);
    uint64_t pieces = 0;
    for (int i = 0; i < LAPS; i++) {
        pieces += found.lap[i].h2d_copies + found.lap[i].d2h_copies + e->trace->operator_count;
        g_assert_cmpfloat(low.end[i], <=, found.end[i] + (double)pieces * 1e-9);
        g_assert_cmpuint(found.lap[i].d2h_bytes, ==, low.lap[i].d2h_bytes);
    }
}

/* Between copies that are never slowed, and copies that always are. */
static void check_bounds(const struct example *e, const struct rates *rates)
{
    const struct rates least = {{rates->alone[0], rates->alone[1]}, {0, 0}, 0, 0};
    const struct rates most = {{rates->both[0], rates->both[1]}, {0, 0}, 0, 0};
    struct ends low = run(e, &least, NULL), found = run(e, rates, NULL), high = run(e, &most, NULL);
    uint64_t copies = 0;
    for (int i = 0; i < LAPS; i++) {
        copies += found.lap[i].h2d_copies + found.lap[i].d2h_copies + e->trace->operator_count;
        double rounding = (double)copies * 1e-9; /* a nanosecond each, at most */
        g_assert_cmpfloat(low.end[i], <=, found.end[i] + rounding);
        g_assert_cmpfloat(found.end[i], <=, high.end[i] + rounding);
        g_assert_cmpuint(found.lap[i].h2d_bytes, ==, low.lap[i].h2d_bytes);
        g_assert_cmpuint(found.lap[i].peak_device_bytes, ==, low.lap[i].peak_device_bytes);
    }
}

/* How long a span lies beside spans of the other direction, and beside how many. */
static double beside(const struct timeline_span *span, const GArray *others, int *count)
{
    double ns = 0;
    for (guint i = 0; i < others->len; i++) {
        const struct timeline_span *other = &g_array_index(others, struct timeline_span, i);
        uint64_t from = MAX(span->start_ns, other->start_ns), to = MIN(span->end_ns, other->end_ns);
        if (from >= to)
            continue;
        ns += (double)(to - from);
        *count += 1;
    }
    return ns;
}

/* Every copy took exactly the time that it was beside others at one rate, and the rest at its own:
 * the parts sum up to the whole copy. */
static void check_progress(const struct example *e, const struct rates *rates)
{
    struct timeline *timeline = timeline_new();
    struct costs *costs = costs_of(rates);
    run(e, rates, timeline);
    for (int q = MOVER_H2D; q <= MOVER_D2H; q++)
        for (guint i = 0; i < timeline->spans[q]->len; i++) {
            const struct timeline_span *span = &g_array_index(timeline->spans[q],
                                                              struct timeline_span, i);
            struct costs_copy takes = costs_copy(costs, (enum mover_queue)q, span->bytes, 0);
            int count = 1;
            double slow = beside(span, timeline->spans[q == MOVER_H2D ? MOVER_D2H : MOVER_H2D],
                                 &count);
            double fast = (double)(span->end_ns - span->start_ns) - slow;
            double done = slow * (double)takes.alone_ns / (double)MAX(1, takes.both_ns) + fast;
            g_assert_cmpfloat(fabs(done - (double)takes.alone_ns), <=, count);
        }
    costs_free(costs);
    timeline_free(timeline);
}

static void test_any_plan(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    int planned = 0;
    for (int i = 0; i < CASES; i++) {
        struct example example;
        struct rates rates = draw_rates(random);
        draw(&example, random);
        if (example.plan) {
            planned++;
            check_same(&example, &rates);
            check_scarce(&example, &rates);
            check_bounds(&example, &rates);
            check_progress(&example, &rates);
        }
        clear(&example);
    }
    g_assert_cmpint(planned, >, CASES / 2);
}

#define ADD(name, pinned, function) \
    g_test_add("/duplex/" name, struct fixture, pinned, set_up, function, tear_down)

int main(int argc, char **argv)
{
    static const uint64_t pinned = 1400;
    g_test_init(&argc, &argv, NULL);
    ADD("from_the_beginning", NULL, test_from_the_beginning);
    ADD("by_a_later_copy", NULL, test_by_a_later_copy);
    ADD("queue_beside_a_long_copy", NULL, test_queue_beside_a_long_copy);
    ADD("one_after_the_other", NULL, test_one_after_the_other);
    ADD("host_operator", NULL, test_host_operator);
    ADD("pageable", &pinned, test_pageable);
    g_test_add_func("/duplex/pageable_is_refused", test_pageable_is_refused);
    g_test_add_func("/duplex/slow_is_refused", test_slow_is_refused);
    g_test_add_func("/duplex/any_plan", test_any_plan);
    return g_test_run();
}
