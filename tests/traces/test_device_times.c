/* Device times of operators, computed from handmade tables of ranges, calls and waits. */
#include "traces/activity/activity_file.h"

#include <string.h>

enum { OPERATORS = 3 };

struct fixture {
    struct database database;
};

static void execute(const struct fixture *fixture, const char *sql)
{
    GError *error = NULL;
    database_execute(&fixture->database, sql, &error);
    g_assert_no_error(error);
}

static void set_up(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    *fixture = (struct fixture){.database = {.path = g_strdup("in memory"), .descriptor = -1}};
    g_assert_cmpint(sqlite3_open(":memory:", &fixture->database.handle), ==, SQLITE_OK);
    execute(
        fixture,
        "CREATE TABLE NVTX_EVENTS (start, end, eventType, rangeId, category, text, domainId, "
        "uint64Value, parentRangeId);"
        "INSERT INTO NVTX_EVENTS VALUES (0, NULL, 75, NULL, NULL, 'other', 1, NULL, NULL),"
        " (0, NULL, 75, NULL, NULL, 'pstar', 2, NULL, NULL);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, correlationId);"
        "CREATE TABLE StringIds (id, value);"
        "INSERT INTO StringIds VALUES (1, 'cuLaunchKernelEx'), (2, 'cudaEventSynchronize_v3020');"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, correlationId, nameId);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION (externalId, correlationId)");
}

static void tear_down(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    sqlite3_close(fixture->database.handle);
    g_free(fixture->database.path);
}

G_GNUC_PRINTF(2, 3)
static void add(const struct fixture *fixture, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *values = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_autofree char *sql = g_strconcat("INSERT INTO ", values, NULL);
    execute(fixture, sql);
}

/* Adds an operator's range on the host. */
static void add_range(const struct fixture *fixture, int id, int moment, int start, int end)
{
    add(fixture, "NVTX_EVENTS VALUES (%d, %d, 59, %d, 3, NULL, 2, %d, NULL)", start, end, id,
        moment);
}

/* Adds a call in a range (0 if unknown) with a name in StringIds. Returns its correlation. */
static int add_call(const struct fixture *fixture, int range, int over, int name)
{
    static int correlation;
    correlation++;
    add(fixture, "CUPTI_ACTIVITY_KIND_RUNTIME VALUES (%d, %d, %d, %d)", over - 1, over, correlation,
        name);
    if (range) /* once for the runtime's call, once for the driver's call within it */
        for (int i = 0; i < 2; i++)
            add(fixture, "CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION VALUES (%d, %d)", range,
                correlation);
    return correlation;
}

/* Adds work to a table, asked for by a call of the range that ended at `over`. */
static void add_work(const struct fixture *fixture, const char *table, int range, int start,
                     int end, int over)
{
    add(fixture, "CUPTI_ACTIVITY_KIND_%s (start, end, correlationId) VALUES (%d, %d, %d)", table,
        start, end, add_call(fixture, range, over, 1));
}

static void add_wait(const struct fixture *fixture, int range, int end)
{
    add_call(fixture, range, end, 2);
}

static uint32_t times_are(const struct fixture *fixture, bool queued, uint64_t a, uint64_t b,
                          uint64_t c)
{
    GError *error = NULL;
    uint64_t durations[OPERATORS] = {1001, 1002, 1003};
    const uint64_t wanted[OPERATORS] = {a, b, c};
    uint32_t doubtful;
    g_assert_true(
        device_times_take(&fixture->database, queued, durations, OPERATORS, &doubtful, &error));
    g_assert_no_error(error);
    for (int m = 0; m < OPERATORS; m++)
        g_assert_cmpuint(durations[m], ==, wanted[m]);
    return doubtful;
}

static void assert_times(const struct fixture *fixture, uint64_t a, uint64_t b, uint64_t c)
{
    times_are(fixture, false, a, b, c);
}

/* Two kernels, the second queued after a gap of 2, and a late one. */
static void test_waited(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    add_range(fixture, 1, 0, 0, 1000);
    add_work(fixture, "KERNEL", 1, 100, 200, 50);
    add_work(fixture, "KERNEL", 1, 202, 250, 60);
    add_work(fixture, "KERNEL", 1, 400, 410, 399);
    add_wait(fixture, 1, 900);
    add_range(fixture, 2, 2, 2000, 2100); /* asks for nothing */
    assert_times(fixture, 100 + 48 + 10 + 3 * 2, 1002, 1003);
}

static void test_median_of_iterations(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    static const int lengths[] = {30, 90, 40};
    for (int i = 0; i < 3; i++) {
        add_range(fixture, 10 + i, 1, 1000 * i, 1000 * i + 500);
        add_work(fixture, "KERNEL", 10 + i, 1000 * i + 100, 1000 * i + 100 + lengths[i],
                 1000 * i + 50);
        add_wait(fixture, 10 + i, 1000 * i + 400);
    }
    assert_times(fixture, 1001, 40, 1003);
}

/* A library called within an operator has its own nested ranges. */
static void test_inner_ranges(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    add_range(fixture, 1, 0, 0, 1000);
    add(fixture, "NVTX_EVENTS VALUES (10, 100, 59, 2, 3, NULL, 1, 2, 1)");
    add(fixture, "NVTX_EVENTS VALUES (20, 90, 59, 3, NULL, NULL, 1, NULL, 2)");
    add_work(fixture, "KERNEL", 1, 100, 110, 5);
    add_work(fixture, "KERNEL", 3, 200, 250, 80);
    add_work(fixture, "KERNEL", 2, 300, 301, 95);
    add_wait(fixture, 1, 950);
    add(fixture, "NVTX_EVENTS VALUES (2000, 2100, 59, 4, NULL, NULL, 1, NULL, NULL)");
    add_work(fixture, "KERNEL", 4, 2050, 2060, 2040); /* in no operator */
    assert_times(fixture, 10 + 50 + 1 + 3 * 90, 1002, 1003);
}

/* If the host does not wait, the longer of both times counts. */
static void test_not_waited(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    add_range(fixture, 1, 0, 0, 100);
    add_work(fixture, "KERNEL", 1, 500, 800, 20);
    add_range(fixture, 2, 1, 100, 300);
    add_work(fixture, "KERNEL", 2, 120, 130, 110);
    assert_times(fixture, 300, 200, 1003);
}

/* Concurrent work counts once. Memsets and copies within the device count; copies from the host do
 * not. */
static void test_kinds(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    execute(fixture, "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start, end, correlationId);"
                     "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end, correlationId, copyKind "
                     "DEFAULT 8)");
    add_range(fixture, 1, 0, 0, 1000);
    add_work(fixture, "KERNEL", 1, 100, 200, 90);
    add_work(fixture, "KERNEL", 1, 150, 220, 140);
    add_work(fixture, "MEMSET", 1, 300, 310, 290);
    add_work(fixture, "MEMCPY", 1, 400, 420, 390);
    add_work(fixture, "MEMCPY", 1, 500, 900, 490);
    execute(fixture, "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyKind = 1 WHERE start = 500");
    add_wait(fixture, 1, 950);
    assert_times(fixture, 120 + 10 + 20, 1002, 1003);
}

/* Ranges of other categories and domains, and ranges during which work of unknown origin ran. */
static void test_doubt(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    for (int i = 0; i < OPERATORS; i++) {
        add_range(fixture, 1 + i, i, 1000 * i, 1000 * i + 500);
        add_work(fixture, "KERNEL", 1 + i, 1000 * i + 100, 1000 * i + 150, 1000 * i + 50);
        add_wait(fixture, 1 + i, 1000 * i + 400);
    }
    add_work(fixture, "KERNEL", 0, 1200, 1201, 0);
    add_work(fixture, "KERNEL", 0, 2501, 2600, 0); /* after the last range */
    execute(fixture, "UPDATE NVTX_EVENTS SET domainId = 1 WHERE rangeId = 1");
    assert_times(fixture, 1001, 500, 50);
    execute(fixture, "DROP TABLE CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION");
    assert_times(fixture, 1001, 1002, 1003);
}

#define ADD(name, function) g_test_add(name, struct fixture, NULL, set_up, function, tear_down)

/* The program only queues work: the host's times do not count, and without work nothing is known,
 * except on the host. */
static void test_queued(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    execute(fixture, "CREATE TABLE operators (id, place);"
                     "INSERT INTO operators VALUES (0, 'device'), (1, 'device'), (2, 'host')");
    add_range(fixture, 1, 0, 0, 700); /* waited while the stream was full */
    add_work(fixture, "KERNEL", 1, 500, 800, 20);
    add_range(fixture, 2, 1, 700, 710);
    add_range(fixture, 3, 2, 710, 900);
    add_work(fixture, "KERNEL", 0, 850, 860, 10); /* of unknown origin */
    g_assert_cmpuint(times_are(fixture, true, 300, 0, 1003), ==, 1);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/device-times/waited", test_waited);
    ADD("/device-times/median-of-iterations", test_median_of_iterations);
    ADD("/device-times/inner-ranges", test_inner_ranges);
    ADD("/device-times/not-waited", test_not_waited);
    ADD("/device-times/kinds", test_kinds);
    ADD("/device-times/doubt", test_doubt);
    ADD("/device-times/queued", test_queued);
    return g_test_run();
}
