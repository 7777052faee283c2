/* An iteration by phase: by hand, and that phases add up to the iteration on random traces. */
#include "sim/phases.h"
#include "sim/sizes.h"
#include "sim/sweep.h"
#include "tests/chunks/random_iteration.h"

static const double second = 1e9;

static void span(struct timeline *timeline, enum mover_queue queue, enum timeline_kind kind,
                 uint32_t moment, double start, double end, uint64_t bytes)
{
    const struct timeline_span one = {.kind = (uint8_t)kind, .moment = moment, .bytes = bytes};
    timeline_close(timeline_note(timeline, queue, &one), (uint64_t)(start * second),
                   (uint64_t)(end * second));
}

/* The iteration shown lasts from 10 s to 24 s. Its forward operator waits until 11 s for a copy
 * that the update before it issued, as the one at the end of this iteration will; backward begins
 * when forward ends at 13 s and computes until 16 s; its gradient leaves from 15 s to 19 s, when
 * the host begins to update. Five bytes leave at 20 s, in no time. The parameter comes back from 23
 * s on, for one second more than the iteration lasts. */
static struct timeline *by_hand(void)
{
    struct timeline *timeline = timeline_new();
    const uint64_t bytes[] = {300, 400, 200};
    g_array_append_vals(timeline->used_device_bytes, bytes, G_N_ELEMENTS(bytes));
    span(timeline, MOVER_COMPUTE, TIMELINE_OPERATOR, 0, 1, 2, 0); /* an earlier iteration's */
    span(timeline, MOVER_H2D, TIMELINE_FETCH, 2, 9, 11, 80);
    timeline_show(timeline, 0, (uint64_t)(10 * second));
    span(timeline, MOVER_COMPUTE, TIMELINE_OPERATOR, 0, 11, 13, 0);
    span(timeline, MOVER_COMPUTE, TIMELINE_OPERATOR, 1, 13, 16, 0);
    span(timeline, MOVER_D2H, TIMELINE_WRITE_BACK, 2, 15, 19, 80);
    span(timeline, MOVER_HOST, TIMELINE_OPERATOR, 2, 19, 23, 0);
    span(timeline, MOVER_D2H, TIMELINE_WRITE_BACK, 2, 20, 20, 5);
    span(timeline, MOVER_H2D, TIMELINE_FETCH, 2, 23, 25, 80);
    timeline_show(timeline, (uint64_t)(10 * second), (uint64_t)(24 * second));
    return timeline;
}

static void assert_phase(const struct phase_figures *f, double seconds, double compute, double host,
                         double h2d, double d2h, uint64_t peak)
{
    g_assert_cmpfloat_with_epsilon(f->seconds, seconds, 1e-9);
    g_assert_cmpfloat_with_epsilon(f->busy_seconds[MOVER_COMPUTE], compute, 1e-9);
    g_assert_cmpfloat_with_epsilon(f->busy_seconds[MOVER_HOST], host, 1e-9);
    g_assert_cmpfloat_with_epsilon(f->bytes[MOVER_H2D], h2d, 1e-6);
    g_assert_cmpfloat_with_epsilon(f->bytes[MOVER_D2H], d2h, 1e-6);
    g_assert_cmpuint(f->peak_device_bytes, ==, peak);
}

static void test_by_hand(void)
{
    struct trace_operator operators[] = {
        {.phase = TRACE_FORWARD}, {.phase = TRACE_BACKWARD}, {.phase = TRACE_UPDATE_PHASE}};
    const struct trace trace = {.operator_count = 3, .operators = operators};
    struct timeline *timeline = by_hand();
    struct phases phases = phases_of(timeline, &trace);
    assert_phase(&phases.of[TRACE_FORWARD], 2, 2, 0, 0, 0, 300);
    assert_phase(&phases.of[TRACE_BACKWARD], 6, 3, 0, 0, 80, 400);
    assert_phase(&phases.of[TRACE_UPDATE_PHASE], 6, 0, 4, 80, 5, 200);
    timeline_free(timeline);
}

/* Two micro-batches: forward and backward come twice. */
static void test_parts(void)
{
    struct trace_operator operators[] = {
        {.phase = TRACE_FORWARD}, {.phase = TRACE_BACKWARD}, {.phase = TRACE_FORWARD}};
    const struct trace trace = {.operator_count = 3, .operators = operators};
    struct timeline *timeline = by_hand();
    struct phases phases = phases_of(timeline, &trace);
    assert_phase(&phases.of[TRACE_FORWARD], 8, 2, 4, 80, 5, 300);
    assert_phase(&phases.of[TRACE_BACKWARD], 6, 3, 0, 0, 80, 400);
    assert_phase(&phases.of[TRACE_UPDATE_PHASE], 0, 0, 0, 0, 0, 0);
    timeline_free(timeline);
}

static void assert_adds_up(const struct phases *phases, const struct plan_figures *figures)
{
    struct phase_figures all = {0};
    for (int p = 0; p < PHASE_COUNT; p++) {
        all.seconds += phases->of[p].seconds;
        for (int q = 0; q < MOVER_QUEUES; q++)
            all.bytes[q] += phases->of[p].bytes[q];
        all.peak_device_bytes = MAX(all.peak_device_bytes, phases->of[p].peak_device_bytes);
    }
    g_assert_cmpfloat_with_epsilon(all.seconds, figures->iteration_seconds, 1e-9);
    g_assert_cmpfloat_with_epsilon(all.bytes[MOVER_H2D], (double)figures->h2d_bytes, 1e-2);
    g_assert_cmpfloat_with_epsilon(all.bytes[MOVER_D2H], (double)figures->d2h_bytes, 1e-2);
    g_assert_cmpuint(all.peak_device_bytes, ==, figures->peak_device_bytes);
}

static void test_add_up(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < 20; i++) {
        struct trace *trace = random_iteration(random);
        g_autoptr(GPtrArray) layouts = layout_list_parse("4KiB", NULL, trace, NULL);
        g_autoptr(GArray) budgets = sizes_parse_budgets("50%", trace, NULL);
        g_autoptr(GArray) look_aheads = sizes_parse_counts("0,3", NULL);
        struct costs *costs = costs_new(NULL, NULL, NULL);
        const struct sweep_options options = {.layouts = layouts,
                                              .budgets = budgets,
                                              .look_aheads = look_aheads,
                                              .policies = policy_all,
                                              .host_budget = UINT64_MAX,
                                              .costs = costs};
        struct sweep *sweep = sweep_run(trace, &options);
        for (uint32_t r = 0; r < sweep->row_count; r++) {
            if (!sweep->rows[r].fits)
                continue;
            struct timeline *timeline = timeline_new();
            plan_free(sweep_plan(trace, &options, &sweep->rows[r], timeline));
            struct phases phases = phases_of(timeline, trace);
            assert_adds_up(&phases, &sweep->rows[r].figures);
            timeline_free(timeline);
        }
        sweep_free(sweep);
        costs_free(costs);
        trace_free(trace);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/phases/by-hand", test_by_hand);
    g_test_add_func("/phases/parts", test_parts);
    g_test_add_func("/phases/add-up", test_add_up);
    return g_test_run();
}
