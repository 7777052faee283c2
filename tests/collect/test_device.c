/* What pstar-collect records of a program that uses a CUDA device (device_fixture.h). */
#include "tests/collect/device_fixture.h"
#include "tests/collect/fake/fake.h"
#include "tests/collect/queued.h"
#include "tests/collect/trained.h"
#include "traces/activity/activity_summary.h"
#include "traces/activity/guess.h"
#include "traces/gathers.h"
#include "traces/trace_file.h"

#include <sqlite3.h>
#include <string.h>

/* Returns the first value of the first row, read without our code. */
static gint64 query(const struct fixture *fixture, const char *sql)
{
    sqlite3 *database;
    sqlite3_stmt *row;
    g_assert_cmpint(sqlite3_open_v2(fixture->path, &database, SQLITE_OPEN_READONLY, NULL), ==, 0);
    if (sqlite3_prepare_v2(database, sql, -1, &row, NULL) != SQLITE_OK)
        g_error("%s: %s", sql, sqlite3_errmsg(database));
    g_assert_cmpint(sqlite3_step(row), ==, SQLITE_ROW);
    gint64 value = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    sqlite3_close(database);
    return value;
}

/* Counts the kernels of a range by its name, in SQL. */
static gint64 kernels_in(const struct fixture *fixture, const char *range)
{
    g_autofree char *sql = g_strdup_printf(
        "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k "
        "JOIN CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION c USING (correlationId) "
        "JOIN NVTX_EVENTS e ON e.rangeId = c.externalId JOIN StringIds s ON s.id = e.textId "
        "WHERE s.value = '%s'",
        range);
    return query(fixture, sql);
}

static void test_whole_run(struct fixture *fixture, gconstpointer data)
{
    bool mixed = data != NULL;
    collect(fixture, "--iterations 2:4 -- %s ranges 6", TRACED_TRAINED);
    assert_exit(fixture, 0);
    g_assert_cmpstr(fixture->errors, ==, "");
    g_assert_cmpstr(fixture->output, ==, "trained\n");
    struct traced traced = read_traced(fixture);
    const struct activity *activity = traced.activity;
    g_assert_cmpuint(activity->kernel_count, ==, 2 * TRAINED_KERNELS);
    g_assert_cmpuint(count_kernels(&traced, "linear"), ==, 2 * TRAINED_LAYERS);
    g_assert_cmpuint(count_kernels(&traced, "adamw"), ==, 2 * TRAINED_LAYERS);
    g_assert_cmpuint(activity->copy_count, ==, 2);
    g_assert_cmpuint(activity->copies[0].bytes, ==, TRAINED_INPUT_BYTES);
    g_assert_cmpuint(activity->set_count, ==, 2);
    g_assert_cmpuint(
        activity->dropped + activity->unfinished + activity->untimed + activity->unreadable, ==, 0);
    for (uint32_t i = 1; i < activity->kernel_count && !mixed; i++)
        g_assert_cmpuint(activity->kernels[i - 1].end_ns, <=, activity->kernels[i].start_ns);
    g_assert_cmpuint(activity->gpu_count, ==, 1);
    g_assert_cmpstr(activity->gpus[0].name, ==, "Fake device");
    g_assert_cmpstr(activity->gpus[0].uuid, ==, "GPU-abababab-abab-abab-abab-abababababab");

    /* Allocations from before the window are known with their times. */
    struct memory_use *use = memory_use_of(activity);
    g_assert_cmpuint(use->unseen + use->reused, ==, 0);
    const struct device_memory *memory = &g_array_index(use->devices, struct device_memory, 0);
    g_assert_cmpuint(memory->allocated.peak_bytes, ==, TRAINED_PEAK_BYTES);
    g_assert_cmpuint(memory->allocated.live_bytes, ==, TRAINED_MODEL_BYTES);
    g_assert_cmpuint(use->pinned.peak_bytes, ==, TRAINED_INPUT_BYTES);
    memory_use_free(use);

    /* All times are of one clock: work runs after its range began. */
    g_assert_cmpint(query(fixture,
                          "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME r, NVTX_EVENTS "
                          "e JOIN StringIds s ON s.id = e.textId WHERE s.value = 'step 3' "
                          "AND r.start BETWEEN e.start AND e.end"),
                    >, TRAINED_KERNELS);
    g_assert_cmpint(kernels_in(fixture, "forward"), ==, 2 * (2 * TRAINED_LAYERS + 1));
    g_assert_cmpint(kernels_in(fixture, "backward"), ==, 2 * 3 * TRAINED_LAYERS);
    g_assert_cmpint(kernels_in(fixture, "update"), ==, 2 * TRAINED_LAYERS);
    g_assert_cmpint(query(fixture,
                          "SELECT count(*) FROM NVTX_EVENTS i JOIN NVTX_EVENTS o ON "
                          "i.parentRangeId = o.rangeId JOIN StringIds s ON s.id = o.textId "
                          "WHERE s.value LIKE 'step %'"),
                    ==, 2 * 3);
    free_traced(&traced);
    assert_checked(fixture, "Fake device");
}

/* The innermost open range counts, in whatever order ranges end. */
/* An operator's time is that of the device, not the host's time for asking and waiting. A thread
 * may lose its core while it reads clocks, so rates may differ by a factor. */
static void test_operators(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    enum { LEAST_NS = 500 };
    GError *error = NULL;
    int seed = g_test_rand_int_range(0, 1000000);
    collect(fixture, "--iterations 1:4 -- %s %d 5", TRACED_QUEUED, seed);
    assert_exit(fixture, 0);
    struct trace *trace = trace_read(fixture->path, &error);
    g_assert_no_error(error);
    if (strstr(trace->machine, " processors")) /* the program may have declared another name */
        g_assert_true(g_str_has_suffix(trace->machine, " processors, Fake device"));
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        uint64_t duration = trace->operators[m].duration_ns;
        bool waited = queued_kind(m) == QUEUED_WAITED;
        uint64_t least = waited ? 2 * QUEUED_MICROSECONDS : QUEUED_LONG_MICROSECONDS;
        g_assert_cmpuint(duration, >=, LEAST_NS * least);
        if (waited)
            g_assert_cmpuint(duration, <=, 2000 * least);
    }
    trace_free(trace);
}

/* A program that waits for no operator has the device's times, however long the host lingers in
 * the ranges; operators on the host have the host's. */
static void test_queued(struct fixture *fixture, gconstpointer data)
{
    GError *error = NULL;
    (void)data;
    collect(fixture, "--iterations 1:3 -- %s %d 3 device", TRACED_QUEUED,
            g_test_rand_int_range(0, 1000000));
    assert_exit(fixture, 0);
    g_assert_cmpstr(fixture->errors, ==, "");
    struct trace *trace = trace_read(fixture->path, &error);
    g_assert_no_error(error);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        uint64_t duration = trace->operators[m].duration_ns;
        if (trace->operators[m].place == TRACE_ON_HOST)
            g_assert_cmpuint(duration, >=, 500 * QUEUED_LONG_MICROSECONDS);
        else
            g_assert_cmpuint(duration, <, 500 * QUEUED_LONG_MICROSECONDS);
    }
    trace_free(trace);
    g_assert_cmpint(query(fixture, "SELECT count(*) FROM meta WHERE key = 'durations_scaled'"), ==,
                    0);
}

/* What ranks gather takes as long as its collectives on the device, however long the host lingers,
 * and other kernels of the range. Without the device's times no gather is known. */
static void test_queued_gathers(struct fixture *fixture, gconstpointer data)
{
    GError *error = NULL;
    struct gathers *gathers;
    collect(fixture, "--iterations 1:3 -- %s %d 3 gathers", TRACED_QUEUED,
            g_test_rand_int_range(0, 1000000));
    assert_exit(fixture, 0);
    struct trace *trace = trace_read(fixture->path, &error);
    g_assert_no_error(error);
    g_assert_true(gathers_read(fixture->path, &gathers, &error));
    g_assert_no_error(error);
    g_assert_true((gathers != NULL) == (data == NULL));
    g_assert_cmpuint(gathers ? gathers->count : 0, ==,
                     gathers ? (trace->operator_count + 2) / 3 : 0);
    for (uint32_t g = 0; gathers && g < gathers->count; g++) {
        g_assert_cmpuint(gathers->bytes[g], ==, QUEUED_GATHERED_BYTES + g);
        g_assert_cmpuint(gathers->duration_ns[g], >=, 1000 * QUEUED_MICROSECONDS);
        g_assert_cmpuint(gathers->duration_ns[g], <, 500 * QUEUED_LONG_MICROSECONDS);
    }
    gathers_free(gathers);
    trace_free(trace);
}

/* The operators of a resident step take as long in all as a step that was not recorded, in which
 * kernels were slower. */
static void test_resident(struct fixture *fixture, gconstpointer data)
{
    GError *error = NULL;
    (void)data;
    collect(fixture, "--iterations 4:5 -- %s %d 5 resident", TRACED_QUEUED,
            g_test_rand_int_range(0, 1000000));
    assert_exit(fixture, 0);
    g_assert_cmpstr(fixture->errors, ==, "");
    gint64 factor = query(fixture, "SELECT CAST(value * 1000 AS INTEGER) FROM meta WHERE key = "
                                   "'durations_scaled'");
    g_assert_cmpint(factor, >=, QUEUED_SLOWER * 500);
    struct trace *trace = trace_read(fixture->path, &error);
    g_assert_no_error(error);
    uint64_t sum = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        sum += trace->operators[m].duration_ns;
    g_assert_cmpuint(sum, >=,
                     UINT64_C(1000) * trace->operator_count * QUEUED_SLOWER * QUEUED_MICROSECONDS);
    trace_free(trace);

    /* No step before the window but the first, which warms up. */
    collect(fixture, "--iterations 1:2 -- %s 7 2 resident", TRACED_QUEUED);
    assert_exit(fixture, 0);
    g_assert_cmpint(query(fixture, "SELECT count(*) FROM meta WHERE key = 'durations_scaled'"), ==,
                    0);
}

/* Without the device's times nothing is known, and the collector says so. */
static void test_queued_unrecorded(struct fixture *fixture, gconstpointer data)
{
    GError *error = NULL;
    (void)data;
    collect(fixture, "-- %s 7 3 device", TRACED_QUEUED);
    assert_exit(fixture, 0);
    assert_says(fixture, "operators, whose durations are unknown");
    struct trace *trace = trace_read(fixture->path, &error);
    g_assert_no_error(error);
    for (uint32_t m = 0; m < trace->operator_count; m++)
        g_assert_true((trace->operators[m].duration_ns > 0) ==
                      (trace->operators[m].place == TRACE_ON_HOST));
    trace_free(trace);
    assert_checked(fixture, "whose durations are unknown");
}

static void test_crossed_ranges(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "--iterations 1:2 -- %s crossed 3", TRACED_TRAINED);
    assert_exit(fixture, 0);
    /* The range begins after layer 1 and ends after layer 2's backward, but "backward" begins
     * within it. */
    g_assert_cmpint(kernels_in(fixture, "crossing"), ==, 2 * (TRAINED_LAYERS - 2) + 1);
    g_assert_cmpint(kernels_in(fixture, "forward"), ==, 2 * 2);
    g_assert_cmpint(kernels_in(fixture, "backward"), ==, 3 * TRAINED_LAYERS);
    assert_checked(fixture, "kernels");
}

/* The window holds the second iteration, however the program marks its iterations. */
static void test_marks(struct fixture *fixture, gconstpointer data)
{
    static const struct {
        const char *marks, *options;
    } cases[] = {{"ranges", ""}, {"batches", "--range 'my b*'"}, {"optimizer", ""}, {"marks", ""}};
    (void)data;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        collect(fixture, "%s -- %s %s 4", cases[i].options, TRACED_TRAINED, cases[i].marks);
        assert_exit(fixture, 0);
        g_assert_cmpstr(fixture->errors, ==, "");
        struct traced traced = read_traced(fixture);
        g_assert_cmpuint(traced.activity->kernel_count, ==, TRAINED_KERNELS);
        g_assert_cmpuint(count_kernels(&traced, "adamw"), ==, TRAINED_LAYERS);
        free_traced(&traced);
        g_assert_cmpint(query(fixture,
                              "SELECT count(*) FROM NVTX_EVENTS JOIN StringIds s ON s.id = "
                              "textId WHERE s.value = 'iteration' AND uint64Value = 1"),
                        ==, 1);
        assert_checked(fixture, "step 1 ");
    }
    collect(fixture, "--range nothing -- %s batches 4", TRACED_TRAINED);
    assert_exit(fixture, 0);
    assert_says(fixture, "no iteration");
}

/* A program without marks: iterations are found by repeated launches. */
static void test_no_marks(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "-- %s none 12", TRACED_TRAINED);
    assert_exit(fixture, 0);
    g_assert_cmpstr(fixture->errors, ==, "");
    struct traced traced = read_traced(fixture);
    const struct activity *activity = traced.activity;
    g_assert_cmpuint(activity->kernel_count, ==, TRAINED_KERNELS);
    g_assert_cmpuint(count_kernels(&traced, "adamw"), ==, TRAINED_LAYERS);
    g_assert_cmpstr(records_text(traced.records, activity->kernels[0].short_name), ==, "linear");
    g_assert_cmpstr(
        records_text(traced.records, activity->kernels[activity->kernel_count - 1].short_name), ==,
        "adamw");
    struct memory_use *use = memory_use_of(activity);
    g_assert_cmpuint(use->unseen + use->reused, ==, 0);
    g_assert_cmpuint(g_array_index(use->devices, struct device_memory, 0).allocated.peak_bytes, ==,
                     TRAINED_PEAK_BYTES);
    memory_use_free(use);
    free_traced(&traced);
    assert_checked(fixture, "38 launches and waits that repeat, 100.0 % alike");
    assert_checked(fixture,
                   "of 18 kernels, begins by kernels' names and by what is freed, which agree");
    assert_checked(fixture, "1.75 MiB   peak, at kernel 12; 7 allocations come and go");
    assert_checked(fixture, "12 MiB   in 12 allocations that live through it");

    collect(fixture, "--iterations 8:11 -- %s none 20", TRACED_TRAINED);
    assert_exit(fixture, 0);
    traced = read_traced(fixture);
    g_assert_cmpuint(traced.activity->kernel_count, ==, 3 * TRAINED_KERNELS);
    free_traced(&traced);
    assert_checked(fixture, "step 10 ");

    collect(fixture, "-- %s none 3", TRACED_TRAINED);
    assert_exit(fixture, 1);
    assert_says(fixture, "no trace: nothing marks the program's iterations");
    g_assert_cmpint(count_lines(fixture->errors), ==, 2);

    collect(fixture, "--iterations 8:90 -- %s none 20", TRACED_TRAINED);
    assert_exit(fixture, 1);
    assert_says(fixture, "is partial");
    assert_checked(fixture, "the end");
}

static void check_accumulated(const struct guessed_iteration *guessed)
{
    g_assert_nonnull(guessed);
    g_assert_cmpuint(guessed->micro_batches, ==, TRAINED_MICRO_BATCHES);
    g_assert_cmpuint(guessed->phases->len, ==, 2 * TRAINED_MICRO_BATCHES + 1);
    for (guint i = 0; i < guessed->phases->len; i++) {
        const struct guessed_phase *phase = &g_array_index(guessed->phases, struct guessed_phase,
                                                           i);
        bool last = i + 1 == guessed->phases->len;
        g_assert_cmpuint(phase->phase, ==,
                         last           ? TRACE_UPDATE_PHASE
                         : (i % 2 == 0) ? TRACE_FORWARD
                                        : TRACE_BACKWARD);
        g_assert_cmpuint(phase->kernels, ==,
                         last         ? TRAINED_LAYERS
                         : i % 2 == 0 ? 2 * TRAINED_LAYERS + 1
                                      : (i == 1 ? 3 : 4) * TRAINED_LAYERS);
        g_assert_cmpuint(phase->by & GUESSED_NAMES, ==, GUESSED_NAMES);
    }
}

/* Several micro-batches per update, each followed by a wait: an iteration contains all of them. */
static void test_accumulated(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "--iterations 1:3 -- %s accumulated 12", TRACED_TRAINED);
    assert_exit(fixture, 0);
    g_assert_cmpstr(fixture->errors, ==, "");
    struct traced traced = read_traced(fixture);
    g_assert_cmpuint(traced.activity->kernel_count, ==, 2 * TRAINED_ACCUMULATED_KERNELS);
    struct guessed_iteration *guessed = guess_iteration(traced.activity, traced.records);
    check_accumulated(guessed);
    guess_free(guessed);
    free_traced(&traced);
    assert_checked(fixture, "5   forward and backward before the update");

    /* In a recording of the whole run, the iteration is found, too. */
    collect(fixture, "--iterations all -- %s accumulated 8", TRACED_TRAINED);
    assert_exit(fixture, 0);
    traced = read_traced(fixture);
    guessed = guess_iteration(traced.activity, traced.records);
    check_accumulated(guessed);
    guess_free(guessed);
    free_traced(&traced);
}

/* Evaluations between steps are not iterations and are not recorded. */
static void test_evaluated(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "--iterations 1:7 -- %s evaluated 40", TRACED_TRAINED);
    assert_exit(fixture, 0);
    g_assert_cmpstr(fixture->errors, ==, "");
    g_assert_cmpstr(fixture->output, ==, "trained\n");
    struct traced traced = read_traced(fixture);
    g_assert_cmpuint(traced.activity->kernel_count, ==, 6 * TRAINED_KERNELS);
    g_assert_cmpuint(count_kernels(&traced, "adamw"), ==, 6 * TRAINED_LAYERS);
    struct memory_use *use = memory_use_of(traced.activity);
    g_assert_cmpuint(use->unseen + use->reused, ==, 0);
    const struct device_memory *memory = &g_array_index(use->devices, struct device_memory, 0);
    g_assert_cmpuint(memory->allocated.peak_bytes, ==, TRAINED_PEAK_BYTES);
    /* The input is freed after the optimizer's last kernel, which ends an iteration. */
    g_assert_cmpuint(memory->allocated.live_bytes, ==, TRAINED_MODEL_BYTES + TRAINED_INPUT_BYTES);
    memory_use_free(use);
    free_traced(&traced);
    g_assert_cmpint(query(fixture, "SELECT count(*) FROM NVTX_EVENTS WHERE text = 'iteration'"), ==,
                    6);
    assert_checked(fixture, "kernels");
}

static void test_whole_program(struct fixture *fixture, gconstpointer data)
{
    static const char *const marks[] = {"none", "ranges"};
    (void)data;
    for (size_t i = 0; i < G_N_ELEMENTS(marks); i++) {
        collect(fixture, "--iterations all -- %s %s 3", TRACED_TRAINED, marks[i]);
        assert_exit(fixture, 0);
        g_assert_cmpstr(fixture->errors, ==, "");
        struct traced traced = read_traced(fixture);
        g_assert_cmpuint(count_kernels(&traced, "adamw"), ==, 3 * TRAINED_LAYERS);
        g_assert_cmpuint(count_kernels(&traced, "initialize"), ==, TRAINED_LAYERS);
        g_assert_cmpuint(traced.activity->gpu_count, ==, 1);
        free_traced(&traced);
        assert_checked(fixture, "kernels");
    }
}

/* 20 samples per second during a kernel of half a second. */
static void test_samples(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "-- %s ranges 3 long 1", TRACED_TRAINED);
    assert_exit(fixture, 0);
    static const struct {
        const char *counter;
        gint64 value;
    } counters[] = {{"device0_busy_percent", 42},
                    {"device0_memory_busy_percent", 17},
                    {"device0_used_bytes", 1 << 30},
                    {"device0_pcie_sent_bytes", 4096},
                    {"device0_pcie_received_bytes", INT64_C(1) << 40},
                    {"collector_device_bytes", 0}};
    for (size_t i = 0; i < G_N_ELEMENTS(counters); i++) {
        g_autofree char *sql = g_strdup_printf(
            "SELECT max(value) FROM samples WHERE counter = '%s'", counters[i].counter);
        g_assert_cmpint(query(fixture, sql), ==, counters[i].value);
    }
    g_assert_cmpint(query(fixture, "SELECT count(*) FROM samples WHERE counter = 'resident_bytes'"),
                    >=, 3);
    g_assert_cmpint(query(fixture, "SELECT count(*) FROM samples WHERE counter = 'cupti_ns'"), >=,
                    2);
    g_assert_cmpint(query(fixture, "SELECT count(*) FROM samples WHERE counter = 'realtime_ns'"),
                    >=, 2);
}

/* The profiler's device memory is reported and not part of the used memory. The host's pinned
 * memory is sampled. */
static void test_own_memory(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "-- %s ranges 3 long 1", TRACED_TRAINED);
    assert_exit(fixture, 0);
    g_assert_cmpint(query(fixture, "SELECT max(value) FROM samples WHERE counter = "
                                   "'collector_device_bytes'"),
                    ==, FAKE_TAKEN_BYTES);
    g_assert_cmpint(
        query(fixture, "SELECT max(value) FROM samples WHERE counter = 'device0_used_bytes'"), ==,
        (1 << 30) - FAKE_TAKEN_BYTES);
    g_assert_cmpint(
        query(fixture, "SELECT count(*) FROM samples r JOIN samples p USING (time) WHERE "
                       "r.counter = 'resident_bytes' AND p.counter = 'pinned_bytes' AND "
                       "p.value = 4096"),
        ==, query(fixture, "SELECT count(*) FROM samples WHERE counter = 'resident_bytes'"));
}

/* Queries of scripts for exports of Nsight Systems. */
static void test_scripts(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    gint64 before = g_get_real_time() * 1000;
    collect(fixture, "--iterations 1:3 -- %s ranges 4", TRACED_TRAINED);
    assert_exit(fixture, 0);
    static const struct {
        const char *sql;
        gint64 answer;
    } questions[] = {
        {"SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59 AND text LIKE 'step %'", 2},
        {"SELECT count(*) FROM NVTX_EVENTS n JOIN StringIds s ON n.textId = s.id "
         "WHERE coalesce(n.text, s.value) = 'forward' AND n.text = s.value",
         2},
        {"SELECT count(*) FROM NVTX_EVENTS WHERE eventType = (SELECT id FROM ENUM_NSYS_EVENT_TYPE "
         "WHERE name = 'NvtxPushPopRange') AND text = 'update'",
         2},
        {"SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON "
         "r.correlationId = k.correlationId AND k.globalPid = (r.globalTid & 0xFFFFFFFFFF000000) "
         "JOIN PROCESSES p ON p.globalPid = k.globalPid JOIN NVTX_EVENTS n ON n.globalTid = "
         "r.globalTid AND r.start BETWEEN n.start AND n.end AND n.text = 'backward' WHERE p.name = "
         "'traced_trained' AND p.pid = k.globalPid / 0x1000000 % 0x1000000",
         2 * 3 * TRAINED_LAYERS},
        {"SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY m JOIN ENUM_CUDA_MEMCPY_OPER e ON "
         "m.copyKind = e.id JOIN ENUM_CUDA_MEM_KIND s ON s.id = m.srcKind WHERE e.label = "
         "'Host-to-Device' AND s.label = 'Pinned'",
         2},
        {"SELECT numMultiprocessors FROM TARGET_INFO_CUDA_DEVICE c JOIN TARGET_INFO_GPU g ON g.id "
         "= "
         "c.gpuId JOIN PROCESSES p ON p.pid = c.pid WHERE c.cudaId = 0 AND g.name = 'Fake device'",
         12},
        {"SELECT max(live) FROM (SELECT sum(CASE memoryOperationType WHEN 0 THEN bytes ELSE -bytes "
         "END) OVER (ORDER BY start, rowid) AS live FROM CUDA_GPU_MEMORY_USAGE_EVENTS WHERE "
         "memKind = 2)",
         TRAINED_PEAK_BYTES},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(questions); i++)
        g_assert_cmpint(query(fixture, questions[i].sql), ==, questions[i].answer);
    gint64 kernel = query(fixture,
                          "SELECT max(k.start) + t.utcEpochNs FROM "
                          "CUPTI_ACTIVITY_KIND_KERNEL k, TARGET_INFO_SESSION_START_TIME t");
    g_assert_cmpint(kernel, >=, before);
    g_assert_cmpint(kernel, <=, g_get_real_time() * 1000);
}

/* CUPTI may say nothing about ranges. Calls are then assigned by their times, or all calls are
 * recorded from the second iteration on, and both are said. */
static void test_silent(struct fixture *fixture, gconstpointer data)
{
    bool never = strcmp(data, "silent") == 0;
    collect(fixture, "--iterations 2:4 -- %s ranges 6", TRACED_TRAINED);
    assert_exit(fixture, 0);
    g_assert_cmpint(kernels_in(fixture, "forward"), ==, 2 * (2 * TRAINED_LAYERS + 1));
    g_assert_cmpint(kernels_in(fixture, "backward"), ==, 2 * 3 * TRAINED_LAYERS);
    g_assert_cmpint(kernels_in(fixture, "update"), ==, 2 * TRAINED_LAYERS);
    gint64 by_time = query(fixture, "SELECT value FROM meta WHERE key = 'correlated_by_time'");
    gint64 calls = query(fixture, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME");
    g_assert_cmpint(by_time, >=, (never ? 2 : 1) * TRAINED_KERNELS);
    g_assert_cmpint(by_time, <=, never ? calls : calls / 2);
    if (never)
        assert_says(fixture, "CUPTI did not say which ranges asked for the device's work");
    g_assert_cmpint(count_lines(fixture->errors), ==, never);
    assert_checked(fixture, "kernels");
    test_operators(fixture, NULL);
}

#define ADD(name, function, fake) \
    g_test_add(name, struct fixture, fake, set_up_fakes, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/device/whole-run", test_whole_run, NULL);
    ADD("/device/mixed-buffers", test_whole_run, "mixed");
    ADD("/device/operators", test_operators, NULL);
    ADD("/device/queued", test_queued, NULL);
    ADD("/device/queued/unrecorded", test_queued_unrecorded, "busy");
    ADD("/device/queued/gathers", test_queued_gathers, NULL);
    ADD("/device/queued/gathers/unrecorded", test_queued_gathers, "busy");
    ADD("/device/resident", test_resident, NULL);
    ADD("/device/crossed-ranges", test_crossed_ranges, NULL);
    ADD("/device/marks", test_marks, NULL);
    ADD("/device/no-marks", test_no_marks, NULL);
    ADD("/device/accumulated", test_accumulated, NULL);
    ADD("/device/evaluated", test_evaluated, NULL);
    ADD("/device/whole-program", test_whole_program, NULL);
    ADD("/device/silent", test_silent, "silent");
    ADD("/device/silent-if-chosen", test_silent, "silent-if-chosen");
    ADD("/device/samples", test_samples, NULL);
    ADD("/device/own-memory", test_own_memory, "takes-memory");
    ADD("/device/scripts", test_scripts, NULL);
    return g_test_run();
}
