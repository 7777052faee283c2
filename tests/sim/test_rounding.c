/* No clock loses time by rounding: what a queue is busy with takes at least as long as its pieces
 * of work, in whole nanoseconds. Threads that share cores may lose less than one nanosecond a
 * piece. */
#include "sim/timing.h"
#include "tests/chunks/random_iteration.h"

enum { CASES = 300, PIECES = 400 };

/* A clock with the work that it was given. */
struct fixture {
    const struct timing_ops *timing;
    struct trace trace;
    struct costs costs;
    struct platform_point copy;
    void *self;
    int busiest;             /* the queue that gets most of the work */
    struct mover_after last; /* pieces of each queue */
    uint64_t work_ns[MOVER_QUEUES], pieces;
};

static void set_up(struct fixture *f, const struct timing_ops *timing, GRand *random)
{
    *f = (struct fixture){.timing = timing, .copy = {1e9, g_rand_double(random)}};
    f->busiest = g_rand_int_range(random, 0, MOVER_QUEUES);
    f->costs.threads =
        (struct costs_threads){.known = timing == &timing_cores,
                               .cores = 1 + g_rand_double(random),
                               .constants = {.put_seconds = g_rand_double(random) * 1e-9,
                                             .wake_seconds = g_rand_double(random) * 1e-9,
                                             .late_seconds = g_rand_double(random) * 1e-9,
                                             .gap_seconds = g_rand_double(random) * 1e-9}};
    f->costs.host_rate = timing == &timing_shared && g_rand_boolean(random) ? 2e9 : 0;
    for (int direction = 0; direction < 2; direction++)
        f->costs.threads.copy[direction].curve = (struct platform_curve){&f->copy, 1, NULL};
    f->self = timing->open(&(struct sim_job){.trace = &f->trace, .costs = &f->costs});
}

static struct timing_wait compute(struct fixture *f, uint64_t ns, const struct mover_after *after)
{
    const struct timing_work work = {.duration_ns = ns};
    f->work_ns[MOVER_COMPUTE] += ns;
    f->pieces++;
    return f->timing->compute(f->self, &work, after);
}

/* Adds work of a few nanoseconds to any queue; some of it waits for what another queue did. */
static void add_piece(struct fixture *f, GRand *random)
{
    static const struct mover_after none;
    int queue = g_rand_boolean(random) ? f->busiest : g_rand_int_range(random, 0, MOVER_QUEUES);
    uint64_t ns = (uint64_t)g_rand_int_range(random, 1, 30);
    const struct costs_copy time = {.alone_ns = ns,
                                    .both_ns = ns + (uint64_t)g_rand_int_range(random, 0, 30)};
    const struct mover_after *after = g_rand_int_range(random, 0, 16) ? &none : &f->last;
    if (queue == MOVER_COMPUTE) {
        f->last.queue[queue] = compute(f, ns, after).ticket;
        return;
    }
    f->last.queue[queue] = queue == MOVER_HOST ? f->timing->run_on_host(f->self, ns, 2 * ns, after)
                                               : f->timing->copy(f->self, (enum mover_queue)queue,
                                                                 ns, &time, after);
    f->work_ns[queue] += ns;
    f->pieces++;
}

static void test_no_time_is_lost(void)
{
    static const struct timing_ops *const clocks[] = {&timing_queues, &timing_shared,
                                                      &timing_cores};
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    int tight = 0;
    for (int i = 0; i < CASES; i++) {
        struct fixture f;
        set_up(&f, clocks[i % 3], random);
        for (int p = 0; p < PIECES; p++)
            add_piece(&f, random);
        uint64_t end_ns = compute(&f, 0, &f.last).end_ns;
        uint64_t lost_ns = f.timing == &timing_cores ? f.pieces : 0;
        for (int q = 0; q < MOVER_QUEUES; q++)
            g_assert_cmpuint(end_ns + lost_ns, >=, f.work_ns[q]);
        tight += end_ns <= f.work_ns[f.busiest] + f.work_ns[f.busiest] / 100;
        f.timing->close(f.self);
    }
    g_test_message("%d of %d schedules keep a queue busy for 99 %% of their time", tight, CASES);
    g_assert_cmpint(tight, >, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/rounding/no_time_is_lost", test_no_time_is_lost);
    return g_test_run();
}
