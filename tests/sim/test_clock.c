/* The clock against schedules worked out by hand: two chunks, three operators, links of 1 GB/s, so
 * that a byte takes a nanosecond. */
#include "sim/clock.h"

enum { OPERATORS = 3, CHUNKS = 2 };

struct fixture {
    struct trace_operator operators[OPERATORS];
    uint64_t non_model_bytes[OPERATORS], extent[OPERATORS];
    struct trace trace;
    struct chunk chunks[CHUNKS];
    struct layout layout;
    uint64_t host_address[CHUNKS], initial_address[CHUNKS];
    struct plan plan;
    struct costs *costs;
    struct sim_clock *clock;
};

static const struct mover_after at_once;

static void set_up(struct fixture *f, const void *data)
{
    (void)data;
    for (int m = 0; m < OPERATORS; m++) {
        f->operators[m].duration_ns = 1000;
        f->non_model_bytes[m] = 100 * (uint64_t)m;
        f->extent[m] = 150 * (uint64_t)m;
    }
    f->trace.operator_count = OPERATORS;
    f->trace.operators = f->operators;
    f->trace.non_model_bytes = f->non_model_bytes;
    f->chunks[0] = (struct chunk){.slot_bytes = 1024, .copy_bytes = 600};
    f->chunks[1] = (struct chunk){.slot_bytes = 1024, .copy_bytes = 800};
    f->layout.chunk_count = CHUNKS;
    f->layout.chunks = f->chunks;
    f->plan.layout = &f->layout;
    f->plan.host_address = f->host_address;
    f->plan.initial_address = f->initial_address;
    f->plan.host_pool_bytes = 5000;
    f->costs = costs_new(NULL, "h2d=1GB/s,d2h=1GB/s", NULL);
    g_assert_nonnull(f->costs);
    f->clock = sim_clock_new(&(struct sim_job){
        .trace = &f->trace, .plan = &f->plan, .non_model = f->extent, .costs = f->costs});
}

static void tear_down(struct fixture *f, const void *data)
{
    (void)data;
    sim_clock_free(f->clock);
    costs_free(f->costs);
}

static struct mover_copy copy_of(const struct fixture *f, uint32_t chunk, uint64_t address)
{
    return (struct mover_copy){.chunk = chunk,
                               .device_address = address,
                               .copy_bytes = f->chunks[chunk].copy_bytes,
                               .slot_bytes = f->chunks[chunk].slot_bytes};
}

static mover_ticket fetch(struct fixture *f, uint32_t chunk, uint64_t address,
                          const struct mover_after *after)
{
    struct mover_copy copy = copy_of(f, chunk, address);
    return sim_clock_mover.fetch(f->clock, &copy, after);
}

static mover_ticket run(struct fixture *f, uint32_t moment, const struct mover_after *after)
{
    mover_ticket received;
    return sim_clock_mover.run(f->clock, moment, after, &received);
}

static void test_queues_overlap(struct fixture *f, const void *data)
{
    (void)data;
    mover_ticket first = fetch(f, 0, 0, &at_once);
    mover_ticket second = fetch(f, 1, 1024, &at_once);
    g_assert_cmpuint(first, ==, 600);
    g_assert_cmpuint(second, ==, 1400); /* one queue a direction: after the first */

    struct mover_after first_copy = {{[MOVER_H2D] = first}};
    struct mover_after second_copy = {{[MOVER_H2D] = second}};
    g_assert_cmpuint(run(f, 0, &first_copy), ==, 1600);
    /* fetched meanwhile */
    g_assert_cmpuint(run(f, 1, &second_copy), ==, 2600);

    struct mover_copy copy = copy_of(f, 1, 1024);
    struct mover_after operator_1 = {{[MOVER_COMPUTE] = 2600}};
    g_assert_cmpuint(sim_clock_mover.write_back(f->clock, &copy, true, &operator_1), ==, 3400);
    /* the write-back and operator 2 overlap */
    g_assert_cmpuint(run(f, 2, &at_once), ==, 3600);

    struct plan_figures lap = sim_clock_lap(f->clock);
    g_assert_cmpfloat_with_epsilon(lap.iteration_seconds, 3600e-9, 1e-15);
    g_assert_cmpfloat_with_epsilon(lap.stall_seconds, 600e-9, 1e-15);
    g_assert_cmpuint(lap.h2d_bytes, ==, 1400);
    g_assert_cmpuint(lap.d2h_bytes, ==, 800);
    g_assert_cmpuint(lap.h2d_copies, ==, 2);
    g_assert_cmpuint(lap.d2h_copies, ==, 1);
    g_assert_cmpuint(lap.evictions, ==, 1);
}

static void test_stall_between_operators(struct fixture *f, const void *data)
{
    (void)data;
    g_assert_cmpuint(run(f, 0, &at_once), ==, 1000);
    struct mover_after operator_0 = {{[MOVER_COMPUTE] = 1000}};
    mover_ticket copied = fetch(f, 1, 0, &operator_0);
    g_assert_cmpuint(copied, ==, 1800);
    struct mover_after after = {{[MOVER_H2D] = copied}};
    g_assert_cmpuint(run(f, 1, &after), ==, 2800);

    struct plan_figures lap = sim_clock_lap(f->clock);
    g_assert_cmpfloat_with_epsilon(lap.stall_seconds, 800e-9, 1e-15);
    /* The next lap begins where this one ended, with nothing counted. */
    g_assert_cmpuint(run(f, 2, &at_once), ==, 3800);
    lap = sim_clock_lap(f->clock);
    g_assert_cmpfloat_with_epsilon(lap.iteration_seconds, 1000e-9, 1e-15);
    g_assert_cmpfloat(lap.stall_seconds, ==, 0);
    g_assert_cmpuint(lap.h2d_copies, ==, 0);
}

/* Nothing that it must wait for, and an idle link: yet it is issued at its moment. */
static void test_copies_are_bound_to_moments(struct fixture *f, const void *data)
{
    (void)data;
    run(f, 0, &at_once);
    g_assert_cmpuint(fetch(f, 0, 0, &at_once), ==, 1600);
    struct mover_copy copy = copy_of(f, 0, 0);
    g_assert_cmpuint(sim_clock_mover.write_back(f->clock, &copy, true, &at_once), ==, 1600);
}

static void test_host_operator(struct fixture *f, const void *data)
{
    (void)data;
    f->operators[1].place = TRACE_ON_HOST;
    f->operators[1].d2h_bytes = 300;
    f->operators[1].h2d_bytes = 200;
    run(f, 0, &at_once);
    struct mover_after operator_0 = {{[MOVER_COMPUTE] = 1000}};
    mover_ticket on_host = run(f, 1, &operator_0);
    g_assert_cmpuint(on_host, ==, 1000 + 300 + 1000 + 200);
    struct mover_after operator_1 = {{[MOVER_HOST] = on_host}};
    g_assert_cmpuint(run(f, 2, &operator_1), ==, 3500);

    struct plan_figures lap = sim_clock_lap(f->clock);
    /* The device waits for the host operator and its two copies. */
    g_assert_cmpfloat_with_epsilon(lap.stall_seconds, 1500e-9, 1e-15);
    g_assert_cmpuint(lap.d2h_bytes, ==, 300);
    g_assert_cmpuint(lap.h2d_bytes, ==, 200);
    g_assert_cmpuint(lap.d2h_copies + lap.h2d_copies, ==, 0); /* of chunks */
    g_assert_cmpuint(lap.peak_host_bytes, ==, 5000);
}

static void test_move_is_device_work(struct fixture *f, const void *data)
{
    (void)data;
    fetch(f, 0, 1024, &at_once);
    struct mover_copy to = copy_of(f, 0, 0);
    struct mover_after fetched = {{[MOVER_H2D] = 600}};
    /* 600 bytes read and written at 16 GB/s */
    g_assert_cmpuint(sim_clock_mover.move(f->clock, &to, 1024, &fetched), ==, 675);
    g_assert_cmpuint(run(f, 0, &at_once), ==, 1675);

    struct plan_figures lap = sim_clock_lap(f->clock);
    g_assert_cmpfloat_with_epsilon(lap.stall_seconds, 600e-9, 1e-15);
    g_assert_cmpuint(lap.moves, ==, 1);
    g_assert_cmpuint(lap.moved_bytes, ==, 600);
    g_assert_cmpuint(lap.peak_device_bytes, ==, 1024); /* where it lay when operator 0 ran */
}

static void test_peaks(struct fixture *f, const void *data)
{
    (void)data;
    struct mover_copy low = copy_of(f, 0, 0), high = copy_of(f, 1, 2048);

    sim_clock_mover.allocate(f->clock, &low);
    sim_clock_mover.allocate(f->clock, &high);
    run(f, 0, &at_once);
    struct plan_figures lap = sim_clock_lap(f->clock);
    g_assert_cmpuint(lap.peak_device_bytes, ==, 3072);
    g_assert_cmpuint(lap.peak_live_device_bytes, ==, 2048);
    g_assert_cmpuint(lap.h2d_bytes, ==, 0);

    /* The highest leaves: the other's end counts, beside the moment's non-model data. */
    sim_clock_mover.drop(f->clock, 1);
    run(f, 1, &at_once);
    run(f, 2, &at_once);
    lap = sim_clock_lap(f->clock);
    g_assert_cmpuint(lap.peak_device_bytes, ==, 1024 + 300);
    g_assert_cmpuint(lap.peak_live_device_bytes, ==, 1024 + 200);
    g_assert_cmpuint(lap.evictions, ==, 1);
    g_assert_cmpuint(lap.peak_host_bytes, ==, 5000);

    /* A write-back that stays keeps its address. */
    sim_clock_mover.write_back(f->clock, &low, false, &at_once);
    run(f, 0, &at_once);
    lap = sim_clock_lap(f->clock);
    g_assert_cmpuint(lap.peak_device_bytes, ==, 1024);
    g_assert_cmpuint(lap.evictions, ==, 0);
    g_assert_cmpuint(lap.d2h_copies, ==, 1);
}

static void test_link_text(void)
{
    const char *bad[] = {"h2d", "h2d=12", "h2d=0GB/s", "up=1GB/s", "h2d=1GB/s;d2h=1GB/s"};
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_null(costs_new(NULL, bad[i], &error));
        g_assert_nonnull(error);
    }
    struct costs *costs = costs_new(NULL, "d2h=2GB/s", NULL);
    g_assert_cmpuint(costs_ns(&costs->d2h, 1000), ==, 500);
    g_assert_cmpuint(costs_ns(&costs->h2d, 1000), ==, 125); /* the default */
    g_assert_cmpuint(costs_ns(&costs->h2d, 0), ==, 0);
    costs_free(costs);
}

#define ADD(name, function) \
    g_test_add("/clock/" name, struct fixture, NULL, set_up, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("queues_overlap", test_queues_overlap);
    ADD("stall_between_operators", test_stall_between_operators);
    ADD("copies_are_bound_to_moments", test_copies_are_bound_to_moments);
    ADD("host_operator", test_host_operator);
    ADD("move_is_device_work", test_move_is_device_work);
    ADD("peaks", test_peaks);
    g_test_add_func("/clock/link_text", test_link_text);
    return g_test_run();
}
