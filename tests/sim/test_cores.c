/* Threads that share cores, against schedules worked out by hand: copies take a core half as long
 * as the link takes them, who waits wakes 10 ns late, and a copy ends 20 ns after it is due. */
#include "sim/timing.h"

static const struct mover_after none;

struct fixture {
    struct trace trace;
    struct costs costs;
    struct platform_point copy;
    void *cores;
};

/* `cores` of the host; copies take `ns_a_byte` of one. */
static void set_up(struct fixture *f, double cores, double ns_a_byte)
{
    *f = (struct fixture){.copy = {1e9, ns_a_byte}};
    f->costs.threads = (struct costs_threads){.known = true,
                                              .cores = cores,
                                              .constants = {.host_cores = (uint32_t)cores,
                                                            .put_seconds = 5e-9,
                                                            .wake_seconds = 10e-9,
                                                            .late_seconds = 20e-9,
                                                            .gap_seconds = 1e-9}};
    for (int direction = 0; direction < 2; direction++)
        f->costs.threads.copy[direction].curve = (struct platform_curve){&f->copy, 1, NULL};
    f->cores = timing_cores.open(&(struct sim_job){.trace = &f->trace, .costs = &f->costs});
}

static mover_ticket copy(struct fixture *f, enum mover_queue queue, uint64_t bytes,
                         uint64_t link_ns, const struct mover_after *after)
{
    return timing_cores.copy(f->cores, queue, bytes,
                             &(struct costs_copy){.alone_ns = link_ns, .both_ns = link_ns}, after);
}

static mover_ticket run_on_host(struct fixture *f, uint64_t duration_ns,
                                const struct mover_after *after)
{
    return timing_cores.run_on_host(f->cores, duration_ns, 0, after);
}

/* A move, which is bound by memory. */
static struct timing_wait compute(struct fixture *f, uint64_t duration_ns,
                                  const struct mover_after *after)
{
    const struct timing_work work = {.duration_ns = duration_ns, .is_move = true};
    return timing_cores.compute(f->cores, &work, after);
}

static struct mover_after after(enum mover_queue queue, mover_ticket ticket)
{
    struct mover_after work = none;
    work.queue[queue] = ticket;
    return work;
}

/* 5 to queue it, 10 to wake, 1000 over the link, 20 late, 10 to wake again. */
static void test_one_copy(void)
{
    struct fixture f;
    set_up(&f, 1, 0.5);
    struct mover_after copied = after(MOVER_H2D, copy(&f, MOVER_H2D, 1000, 1000, &none));
    g_assert_cmpuint(copied.queue[MOVER_H2D], ==, 1);
    struct timing_wait wait = compute(&f, 300, &copied);
    g_assert_cmpuint(wait.start_ns, ==, 5 + 10 + 1000 + 20 + 10);
    g_assert_cmpuint(wait.end_ns, ==, wait.start_ns + 300);
    g_assert_cmpuint(wait.waited_ns, ==, wait.start_ns - 5 - 1); /* the gap is no stall */
    g_assert_cmpint(wait.queue, ==, MOVER_H2D);
    timing_cores.close(f.cores);
}

/* The second begins when the first is due: sleeping too long does not add up. */
static void test_copies_in_a_row(void)
{
    struct fixture f;
    set_up(&f, 1, 0.5);
    copy(&f, MOVER_D2H, 1000, 1000, &none);
    struct mover_after both = after(MOVER_D2H, copy(&f, MOVER_D2H, 500, 500, &none));
    struct timing_wait wait = compute(&f, 0, &both);
    g_assert_cmpuint(wait.start_ns, ==, 5 + 10 + 1000 + 500 + 20 + 10);
    timing_cores.close(f.cores);
}

/* A copy that waits for another queue wakes once that is complete. */
static void test_copy_after_copy(void)
{
    struct fixture f;
    set_up(&f, 1, 0.5);
    struct mover_after down = after(MOVER_D2H, copy(&f, MOVER_D2H, 1000, 1000, &none));
    struct mover_after up = after(MOVER_H2D, copy(&f, MOVER_H2D, 1000, 1000, &down));
    struct timing_wait wait = compute(&f, 0, &up);
    g_assert_cmpuint(wait.start_ns, ==, 5 + 10 + 1000 + 20 + 10 + 1000 + 20 + 10);
    timing_cores.close(f.cores);
}

/* An operator of the host beside a copy that takes half of the only core. */
static void test_host_shares_its_core(void)
{
    struct fixture f;
    set_up(&f, 1, 0.5);
    copy(&f, MOVER_H2D, 10000, 10000, &none);
    struct mover_after done = after(MOVER_HOST, run_on_host(&f, 1000, &none));
    struct timing_wait wait = compute(&f, 0, &done);
    g_assert_cmpuint(wait.start_ns, ==, 5 + 5 + 10 + 2000 + 10);

    /* With a core to spare it does not notice. */
    timing_cores.close(f.cores);
    set_up(&f, 2, 0.5);
    copy(&f, MOVER_H2D, 10000, 10000, &none);
    done = after(MOVER_HOST, run_on_host(&f, 1000, &none));
    wait = compute(&f, 0, &done);
    g_assert_cmpuint(wait.start_ns, <=, 5 + 5 + 10 + 1334 + 10);
    timing_cores.close(f.cores);
}

/* Both directions want the whole core: each gets half, and the link is what memory makes it. */
static void test_copies_share_a_core(void)
{
    struct fixture f;
    set_up(&f, 1, 1);
    struct mover_after both = after(MOVER_H2D, copy(&f, MOVER_H2D, 1000, 1, &none));
    both.queue[MOVER_D2H] = copy(&f, MOVER_D2H, 1000, 1, &none);
    struct timing_wait wait = compute(&f, 0, &both);
    /* 5 ns of the first alone, the rest at half speed. */
    g_assert_cmpuint(wait.start_ns, ==, 5 + 10 + 2000 + 20 + 10);
    timing_cores.close(f.cores);
}

/* A copy at the rate beside which operators were measured slows by what was measured. */
static void test_operators_slow_beside_copies(void)
{
    struct fixture f;
    set_up(&f, 1, 0.1);
    double *slow_down = f.costs.threads.constants.slow_down[PLATFORM_MEMORY_BOUND];
    slow_down[PLATFORM_BESIDE_H2D] = 0.25;
    copy(&f, MOVER_H2D, 20000, 10000, &none); /* 2 GB/s */
    struct timing_wait beside = compute(&f, 1000, &none);
    /* The first 9 ns before the copy's thread has woken are undisturbed. */
    g_assert_cmpuint(beside.end_ns - beside.start_ns, ==, 9 + (1000 - 9) * 5 / 4 + 1);
    slow_down[PLATFORM_BESIDE_H2D] = 0;
    struct timing_wait idle = compute(&f, 20000, &none);
    slow_down[PLATFORM_BESIDE_H2D] = 0.25;
    struct timing_wait alone = compute(&f, 1000, &none);
    g_assert_cmpuint(idle.end_ns - idle.start_ns, ==, 20000);
    g_assert_cmpuint(alone.end_ns - alone.start_ns, ==, 1000);
    g_assert_cmpuint(alone.waited_ns, ==, 0);
    timing_cores.close(f.cores);
}

/* ---- computing on the same cores ---- */

static void set_up_together(struct fixture *f, double cores)
{
    set_up(f, cores, 1);
    f->costs.threads.together = true;
}

static struct mover_after exchange(struct fixture *f, uint64_t link_ns, uint64_t core_ns)
{
    const struct costs_copy time = {.alone_ns = link_ns, .both_ns = link_ns, .core_ns = core_ns};
    return after(MOVER_NETWORK, timing_cores.copy(f->cores, MOVER_NETWORK, 0, &time, &none));
}

/* An exchange that takes less than half of the core gets it; computing gets the rest. */
static void test_exchange_takes_a_part(void)
{
    struct fixture f;
    set_up_together(&f, 1);
    exchange(&f, 1000, 400);
    struct timing_wait wait = compute(&f, 3000, &none);
    g_assert_cmpuint(wait.start_ns, ==, 5 + 1);
    g_assert_cmpuint(wait.end_ns, ==, 5 + 10 + 1000 + (3000 - 9 - 600));
    timing_cores.close(f.cores);

    /* On two cores, computing has a thread on each. */
    set_up_together(&f, 2);
    exchange(&f, 1000, 400);
    wait = compute(&f, 3000, &none);
    g_assert_cmpuint(wait.end_ns, ==, 5 + 10 + 1000 + (3000 - 9 - 800));
    timing_cores.close(f.cores);
}

/* If both want more than half of the core, each gets half. */
static void test_halves(void)
{
    struct fixture f;
    set_up_together(&f, 1);
    struct mover_after exchanged = exchange(&f, 1000, 800);
    struct timing_wait wait = compute(&f, 3000, &none);
    g_assert_cmpuint(wait.end_ns, ==, 5 + 10 + 1600 + (3000 - 9 - 800));
    g_assert_cmpuint(compute(&f, 0, &exchanged).waited_ns, ==, 0);
    timing_cores.close(f.cores);

    set_up_together(&f, 1);
    copy(&f, MOVER_H2D, 1000, 1, &none); /* as fast as memory: it takes the core all the time */
    wait = compute(&f, 3000, &none);
    g_assert_cmpuint(wait.end_ns, ==, 5 + 10 + 2000 + (3000 - 9 - 1000));
    timing_cores.close(f.cores);
}

/* Who waits does not share: the exchange takes as long as alone. */
static void test_waiting_takes_nothing(void)
{
    struct fixture f;
    set_up_together(&f, 1);
    struct mover_after exchanged = exchange(&f, 1000, 900);
    struct timing_wait wait = compute(&f, 50, &exchanged);
    g_assert_cmpuint(wait.start_ns, ==, 5 + 10 + 1000 + 10);
    g_assert_cmpuint(wait.end_ns, ==, wait.start_ns + 50);
    timing_cores.close(f.cores);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/cores/one_copy", test_one_copy);
    g_test_add_func("/cores/copies_in_a_row", test_copies_in_a_row);
    g_test_add_func("/cores/copy_after_copy", test_copy_after_copy);
    g_test_add_func("/cores/host_shares_its_core", test_host_shares_its_core);
    g_test_add_func("/cores/copies_share_a_core", test_copies_share_a_core);
    g_test_add_func("/cores/operators_slow_beside_copies", test_operators_slow_beside_copies);
    g_test_add_func("/cores/exchange_takes_a_part", test_exchange_takes_a_part);
    g_test_add_func("/cores/halves", test_halves);
    g_test_add_func("/cores/waiting_takes_nothing", test_waiting_takes_nothing);
    return g_test_run();
}
