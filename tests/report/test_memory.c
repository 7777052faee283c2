/* The replay of a plan gives the figures that the plan states. */
#include "report/memory.h"
#include "report/plots.h"
#include "tests/report/sample.h"

static uint64_t sum_of(const uint64_t *by_phase)
{
    return by_phase[TRACE_FORWARD] + by_phase[TRACE_BACKWARD] + by_phase[TRACE_UPDATE_PHASE];
}

/* If everything fits, nothing moves. There are three lists of four chunks. Each forward adds an
 * activation and each backward frees one. */
static void test_everything_resident(void)
{
    struct trace *trace = sample_trace("");
    struct plan *plan = sample_plan(trace, 1 << 20);
    struct memory *memory = memory_replay(trace, plan);
    static const uint64_t activations[] = {1, 2, 3, 4, 4, 3, 2, 1, 0, 0, 0, 0};
    g_assert_cmpuint(memory->moment_count, ==, G_N_ELEMENTS(activations));
    for (uint32_t m = 0; m < memory->moment_count; m++) {
        const struct memory_moment *moment = &memory->moments[m];
        g_assert_cmpuint(moment->list_bytes[TRACE_PARAM], ==, 4096);
        g_assert_cmpuint(moment->list_bytes[TRACE_MASTER], ==, 0);
        g_assert_cmpuint(moment->list_bytes[TRACE_EXP_AVG_SQ], ==, 4096);
        g_assert_cmpuint(moment->chunk_bytes, ==, 3 * 4096);
        g_assert_cmpuint(memory_total(moment), ==, 3 * 4096 + 400 * activations[m]);
    }
    g_assert_cmpuint(memory->peak, ==, 3);
    g_assert_cmpuint(sum_of(memory->h2d_bytes), ==, 0);
    g_assert_cmpuint(sum_of(memory->d2h_bytes), ==, 0);
    memory_free(memory);
    plan_free(plan);
    trace_free(trace);
}

/* Every slot of the pool belongs to a chunk that is on the device or to one that is not. */
static void check_host(const struct memory_moment *moment, const struct plan *plan)
{
    uint64_t slots = 0, counted = moment->host_twice_bytes, on_device = 0;
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++)
        slots += plan->host_address[c] == NO_ADDRESS ? 0 : plan->layout->chunks[c].copy_bytes;
    for (int list = 0; list < TRACE_LISTS; list++) {
        counted += moment->host_slot_bytes[list];
        on_device += moment->list_bytes[list];
    }
    g_assert_cmpuint(counted, ==, slots);
    g_assert_cmpuint(moment->host_twice_bytes, <=, on_device);
}

/* The figures of the plan were counted at placement, independently of the replay. */
static void test_little_room(void)
{
    struct trace *trace = sample_trace("");
    for (uint64_t device_budget = 6000; device_budget <= 14000; device_budget += 500) {
        struct plan *plan = sample_plan(trace, device_budget);
        struct memory *memory = memory_replay(trace, plan);
        uint64_t peak = 0;
        for (uint32_t m = 0; m < memory->moment_count; m++) {
            peak = MAX(peak, memory_total(&memory->moments[m]));
            g_assert_cmpuint(memory_total(&memory->moments[m]), <=, device_budget);
            check_host(&memory->moments[m], plan);
        }
        g_assert_cmpuint(peak, ==, memory_total(&memory->moments[memory->peak]));
        g_assert_cmpuint(peak, ==, plan->predicted.peak_live_device_bytes);
        g_assert_cmpuint(sum_of(memory->h2d_bytes), ==, plan->predicted.h2d_bytes);
        g_assert_cmpuint(sum_of(memory->d2h_bytes), ==, plan->predicted.d2h_bytes);
        if (device_budget == SAMPLE_DEVICE_BYTES)
            g_assert_cmpuint(plan->predicted.h2d_bytes, >, 0);
        memory_free(memory);
        plan_free(plan);
    }
    trace_free(trace);
}

/* Where slots on the device are larger than their chunks, those on the host are not. */
static void test_rounded_slots(void)
{
    struct trace *trace = sample_trace("");
    struct plan *plan = sample_plan(trace, SAMPLE_DEVICE_BYTES);
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++)
        plan->layout->chunks[c].slot_bytes += 256;
    struct memory *memory = memory_replay(trace, plan);
    for (uint32_t m = 0; m < memory->moment_count; m++)
        check_host(&memory->moments[m], plan);
    memory_free(memory);
    plan_free(plan);
    trace_free(trace);
}

static void check_phase(const struct memory *memory, guint index, enum trace_phase phase,
                        uint32_t first, uint32_t last)
{
    const struct memory_phase *actual = &g_array_index(memory->phases, struct memory_phase, index);
    g_assert_cmpuint(actual->phase, ==, phase);
    g_assert_cmpuint(actual->first, ==, first);
    g_assert_cmpuint(actual->last, ==, last);
}

static void test_time(void)
{
    struct trace *trace = sample_trace("");
    struct plan *plan = sample_plan(trace, SAMPLE_DEVICE_BYTES);
    struct memory *memory = memory_replay(trace, plan);
    g_assert_true(memory->timed);
    g_assert_cmpfloat_with_epsilon(memory_duration(memory), 0.016, 1e-12);
    g_assert_cmpfloat_with_epsilon(memory->moments[5].start, 0.006, 1e-12);
    g_assert_cmpfloat_with_epsilon(memory->moments[5].end, 0.008, 1e-12);
    g_assert_cmpuint(memory->phases->len, ==, 3);
    check_phase(memory, 0, TRACE_FORWARD, 0, 3);
    check_phase(memory, 1, TRACE_BACKWARD, 4, 7);
    check_phase(memory, 2, TRACE_UPDATE_PHASE, 8, 11);
    memory_free(memory);

    for (uint32_t m = 0; m < trace->operator_count; m++)
        trace->operators[m].duration_ns = 0;
    memory = memory_replay(trace, plan);
    g_assert_false(memory->timed);
    g_assert_cmpfloat(memory_duration(memory), ==, 12);
    memory_free(memory);
    plan_free(plan);
    trace_free(trace);
}

static void check_moments(const struct memory *memory, const struct trace *trace, double seconds)
{
    double end = 0;
    bool waits = false;
    g_assert_true(memory->waits);
    for (uint32_t m = 0; m < memory->moment_count; m++) {
        const struct memory_moment *moment = &memory->moments[m];
        double length = moment->end - moment->start;
        double runs = (double)trace->operators[m].duration_ns * 1e-9;
        g_assert_cmpfloat_with_epsilon(moment->start, end, 1e-12);
        g_assert_cmpfloat(length, >=, runs - 1e-9);
        waits = waits || length > runs + 1e-9;
        end = moment->end;
    }
    g_assert_true(waits);
    g_assert_cmpfloat_with_epsilon(memory_duration(memory), seconds, 1e-9);
}

/* The operators take 16 ms. The step takes as long as the plan says, waiting included. The first
 * forward finds all that it needs, so it does not wait. */
static void test_waits(void)
{
    struct trace *trace = sample_trace("");
    struct plan *plan = sample_plan(trace, SAMPLE_DEVICE_BYTES);
    struct memory *memory = memory_replay(trace, plan);
    memory_add_waits(memory, trace, plan); /* the plan has no times */
    g_assert_false(memory->waits);
    g_assert_cmpfloat_with_epsilon(memory_duration(memory), 0.016, 1e-12);
    plan->predicted.iteration_seconds = 0.040;
    memory_add_waits(memory, trace, plan);
    check_moments(memory, trace, 0.040);
    g_assert_cmpfloat_with_epsilon(memory->moments[0].end, 0.001, 1e-9);
    memory_free(memory);
    plan_free(plan);
    trace_free(trace);
}

/* A step in which each operator takes twice as long and waits for as long again. */
static void test_taken(void)
{
    struct trace *trace = sample_trace("");
    struct plan *plan = sample_plan(trace, SAMPLE_DEVICE_BYTES);
    struct memory *memory = memory_replay(trace, plan);
    struct tracks *tracks = tracks_new("timeline.json");
    double at = 0;
    for (uint32_t m = 0; m + 1 < trace->operator_count; m++) {
        double runs = (double)trace->operators[m].duration_ns * 1e-9;
        tracks_add(tracks, TRACK_COMPUTE, at, at + 2 * runs, trace->operators[m].name);
        at += 4 * runs;
    }
    tracks->seconds = 0.064;
    g_assert_false(memory_take_times(memory, trace, tracks)); /* the last operator is missing */
    g_assert_false(memory->waits);
    tracks_add(tracks, TRACK_COMPUTE, at, at + 0.001, trace->operators[11].name);
    g_assert_true(memory_take_times(memory, trace, tracks));
    check_moments(memory, trace, 0.064);
    g_assert_cmpfloat_with_epsilon(memory->moments[5].start, 4 * 0.006, 1e-9);
    tracks_free(tracks);
    memory_free(memory);
    plan_free(plan);
    trace_free(trace);
}

static bool is_drawn(struct plot *plot)
{
    bool drawn = plot != NULL;
    plot_free(plot);
    return drawn;
}

/* Host memory that stays the same over the step is no picture. */
static void test_flat(void)
{
    struct trace *trace = sample_trace("");
    struct plan *plan = sample_plan(trace, SAMPLE_LITTLE_BYTES);
    struct memory *memory = memory_replay(trace, plan);
    const struct input_plan input = {.path = (char *)"plan.json", .plan = plan};
    g_assert_true(is_drawn(plot_host(&input, memory, 0)));
    for (uint32_t m = 1; m < memory->moment_count; m++)
        memory->moments[m] = memory->moments[0];
    g_assert_false(is_drawn(plot_host(&input, memory, 0)));
    memory_free(memory);
    plan_free(plan);
    trace_free(trace);

    struct tracks *tracks = tracks_new("run.pstar");
    const struct curve_point points[] = {{0, 1e9}, {1, 1.001e9}, {2, 2e9}};
    tracks->seconds = 3;
    g_array_append_vals(tracks->curves[CURVE_RESIDENT], points, 2);
    g_assert_false(is_drawn(plot_host_measured(tracks, 0)));
    g_array_append_vals(tracks->curves[CURVE_RESIDENT], points + 2, 1);
    g_assert_true(is_drawn(plot_host_measured(tracks, 0)));
    tracks_free(tracks);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/memory/everything_resident", test_everything_resident);
    g_test_add_func("/report/memory/little_room", test_little_room);
    g_test_add_func("/report/memory/rounded_slots", test_rounded_slots);
    g_test_add_func("/report/memory/time", test_time);
    g_test_add_func("/report/memory/waits", test_waits);
    g_test_add_func("/report/memory/taken", test_taken);
    g_test_add_func("/report/memory/flat", test_flat);
    return g_test_run();
}
