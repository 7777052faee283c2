/* Copies and host operators that share the host's memory, also with other ranks: times worked out
 * by hand. Alone, a byte of a copy takes a nanosecond, and the host's operator 3 bytes a
 * nanosecond. */
#include "sim/timing.h"

static const struct mover_after at_once;

struct fixture {
    struct costs costs;
    struct trace trace;
    void *shared;
};

/* `rate`: bytes a nanosecond of the host's memory. */
static void open_fixture(struct fixture *f, double rate)
{
    *f = (struct fixture){.costs = {.host_rate = rate * 1e9}};
    f->shared = timing_shared.open(&(struct sim_job){.trace = &f->trace, .costs = &f->costs});
}

static void close_fixture(struct fixture *f)
{
    timing_shared.close(f->shared);
}

/* `both_ns`: beside the other direction. */
static mover_ticket copy(struct fixture *f, enum mover_queue queue, uint64_t bytes,
                         uint64_t both_ns)
{
    const struct costs_copy time = {.alone_ns = bytes, .both_ns = both_ns};
    return timing_shared.copy(f->shared, queue, bytes, &time, &at_once);
}

static mover_ticket run_on_host(struct fixture *f, uint64_t ns)
{
    return timing_shared.run_on_host(f->shared, ns, 3 * ns, &at_once);
}

/* Returns when the ticket is reached. */
static uint64_t end_of(struct fixture *f, enum mover_queue queue, mover_ticket ticket)
{
    struct mover_after after = at_once;
    after.queue[queue] = ticket;
    return timing_shared.compute(f->shared, &(struct timing_work){0}, &after).end_ns;
}

/* Of 3 bytes a nanosecond the way down gets the one that it wants, and the others 2 of 4. At 800 it
 * is done, with 400 bytes up and 1200 of the host. Then they get 3 of 4, and the way up takes 267
 * ns for 200 bytes; the host has done 1800 of 3000. */
static void test_shares(void)
{
    struct fixture f;
    open_fixture(&f, 3);
    mover_ticket up = copy(&f, MOVER_H2D, 600, 600), down = copy(&f, MOVER_D2H, 800, 800);
    mover_ticket host = run_on_host(&f, 1000);
    g_assert_cmpuint(end_of(&f, MOVER_D2H, down), ==, 800);
    g_assert_cmpuint(end_of(&f, MOVER_H2D, up), ==, 800 + 267);
    g_assert_cmpuint(end_of(&f, MOVER_HOST, host), ==, 1067 + 400);
    close_fixture(&f);
}

/* Of 1.2 bytes a nanosecond the way down gets half, so 700 bytes take 1167 ns, and the others 0.6
 * of 4: 175 bytes up and 525 of the host by then. Then they get 1.2 of 4; 225 bytes up take 750 ns,
 * and the host has done 1200 of 1500 bytes. */
static void test_scarce(void)
{
    struct fixture f;
    open_fixture(&f, 1.2);
    mover_ticket up = copy(&f, MOVER_H2D, 400, 400), down = copy(&f, MOVER_D2H, 700, 700);
    mover_ticket host = run_on_host(&f, 500);
    g_assert_cmpuint(end_of(&f, MOVER_D2H, down), ==, 1167);
    g_assert_cmpuint(end_of(&f, MOVER_H2D, up), ==, 1167 + 750);
    g_assert_cmpuint(end_of(&f, MOVER_HOST, host), ==, 1917 + 250);
    close_fixture(&f);
}

/* Beside each other the directions want half a byte a nanosecond each. The way down gets it, the
 * others 1.5 of 3.5, until the host's 1500 bytes are done, at 1167, with 250 bytes up and 583 down.
 * Then both directions get what they want; at 1600 the way down is done, and the way up, with 467
 * bytes, goes on at its own rate. */
static void test_slow_directions(void)
{
    struct fixture f;
    open_fixture(&f, 2);
    mover_ticket up = copy(&f, MOVER_H2D, 600, 1200), down = copy(&f, MOVER_D2H, 800, 1600);
    mover_ticket host = run_on_host(&f, 500);
    g_assert_cmpuint(end_of(&f, MOVER_HOST, host), ==, 1167);
    g_assert_cmpuint(end_of(&f, MOVER_D2H, down), ==, 1600);
    g_assert_cmpuint(end_of(&f, MOVER_H2D, up), ==, 1600 + 133);
    close_fixture(&f);
}

/* An operator that no copy runs beside takes what the memory takes. */
static void test_alone(void)
{
    struct fixture f;
    open_fixture(&f, 2);
    g_assert_cmpuint(end_of(&f, MOVER_HOST, run_on_host(&f, 1000)), ==, 1500);
    close_fixture(&f);
}

static struct costs *costs_of_ranks(const char *host, uint32_t ranks)
{
    static const char *const curves[] = {"h2d",          "d2h",    "compute_fp32",
                                         "compute_bf16", "memory", "host_update"};
    g_autoptr(GString) text = g_string_new("{\"name\": \"n\", \"source\": \"s\", "
                                           "\"device_bytes\": 1, \"host_bytes\": 1");
    GError *error = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(curves); i++)
        g_string_append_printf(text, ", \"%s\": {\"source\": \"s\", \"points\": [[1e9, 1]]}",
                               curves[i]);
    g_string_append_printf(text, "%s}", host);
    struct platform *platform = platform_parse(text->str, "the test's platform", &error);
    g_assert_no_error(error);
    if (ranks > 1)
        g_assert_true(platform_spread_ranks(platform, ranks, 1, NULL));
    struct costs *costs = costs_new(platform, NULL, &error);
    g_assert_no_error(error);
    platform_free(platform);
    return costs;
}

static struct costs *costs_of(const char *host)
{
    return costs_of_ranks(host, 1);
}

/* Copies 600 bytes up, and exchanges `bytes` in 400 ns beside it; returns the ends of both. */
static void copy_beside_exchange(bool shares, uint64_t bytes, uint64_t *copied, uint64_t *exchanged)
{
    g_autofree char *node =
        g_strdup_printf(", \"node\": {\"source\": \"s\", \"gpus\": 2, \"bytes_per_second\": 1e9, "
                        "\"latency_seconds\": 1e-9, \"exchanges_share_link\": %s}",
                        shares ? "true" : "false");
    struct fixture f = {0};
    struct costs *costs = costs_of_ranks(node, 2);
    g_assert_cmpint(costs_exchanges_share_link(costs), ==, shares);
    f.shared = timing_shared.open(&(struct sim_job){.trace = &f.trace, .costs = costs});
    const struct costs_copy time = {.alone_ns = 400, .both_ns = 400, .link_bytes = bytes};
    mover_ticket up = copy(&f, MOVER_H2D, 600, 600);
    mover_ticket network = timing_shared.copy(f.shared, MOVER_NETWORK, 0, &time, &at_once);
    *exchanged = end_of(&f, MOVER_NETWORK, network);
    *copied = end_of(&f, MOVER_H2D, up);
    close_fixture(&f);
    costs_free(costs);
}

/* Of a byte a nanosecond, a copy and an exchange that both want all of it get half each: the
 * exchange ends at 800, and the rest of the copy takes 200. An exchange that wants a quarter gets
 * it. */
static void test_shared_link(void)
{
    uint64_t copied, exchanged;
    copy_beside_exchange(true, 400, &copied, &exchanged);
    g_assert_cmpuint(exchanged, ==, 800);
    g_assert_cmpuint(copied, ==, 1000);
    copy_beside_exchange(true, 100, &copied, &exchanged);
    g_assert_cmpuint(exchanged, ==, 400);
    g_assert_cmpuint(copied, ==, 700);
    copy_beside_exchange(false, 400, &copied, &exchanged);
    g_assert_cmpuint(exchanged, ==, 400);
    g_assert_cmpuint(copied, ==, 600);
}

/* A rank has its part of the memory, less where its memory is far; no copy is faster, alone or on
 * the link as it is reported. */
static void test_ranks(void)
{
    static const struct {
        const char *host;
        double rate; /* bytes a nanosecond; 0 if nothing is shared */
        uint64_t ns; /* of 800 bytes */
    } expected[] = {
        {"", 0, 800},
        {", \"host\": {\"source\": \"s\", \"bytes_per_second\": 4e9}", 4, 800},
        {", \"host\": {\"source\": \"s\", \"bytes_per_second\": 2e9, \"ranks\": 4}", 0.5, 1600},
        {", \"host\": {\"source\": \"s\", \"bytes_per_second\": 2e9, \"ranks\": 2, "
         "\"bound\": false, \"binding_speed_up\": 1.25}",
         0.8, 1000},
        {", \"host\": {\"source\": \"s\", \"bytes_per_second\": 2e9, \"ranks\": 2, "
         "\"bound\": true, \"binding_speed_up\": 1.25}",
         1, 800}};
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
        struct costs *costs = costs_of(expected[i].host);
        g_assert_cmpfloat_with_epsilon(costs->host_rate, expected[i].rate * 1e9, 1);
        g_assert_true(costs_is_shared(costs) == (expected[i].rate > 0));
        for (int q = MOVER_H2D; q <= MOVER_D2H; q++) {
            g_assert_cmpuint(costs_copy(costs, (enum mover_queue)q, 800, 0).alone_ns, ==,
                             expected[i].ns);
            g_assert_cmpfloat_with_epsilon(costs_link_rate(costs, (enum mover_queue)q),
                                           800e9 / (double)expected[i].ns, 1);
        }
        costs_free(costs);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/host-memory/shares", test_shares);
    g_test_add_func("/host-memory/scarce", test_scarce);
    g_test_add_func("/host-memory/slow-directions", test_slow_directions);
    g_test_add_func("/host-memory/alone", test_alone);
    g_test_add_func("/host-memory/ranks", test_ranks);
    g_test_add_func("/host_memory/shared_link", test_shared_link);
    return g_test_run();
}
