/* Kernels, copies and allocations, written to a trace file and read back. */
#include "traces/activity/activity.h"

#include "tests/traces/random_activity.h"
#include "tests/traces/random_trace.h"
#include "tests/traces/replace_file.h"
#include "traces/trace_file.h"

#include <glib/gstdio.h>
#include <sqlite3.h>
#include <string.h>

enum { MOST = 300 };

struct fixture {
    char *folder, *path;
    GRand *random;
    struct trace *trace;
    struct activity *activity;
    struct record_string *strings;
};

static void set_up(struct fixture *f, gconstpointer data)
{
    (void)data;
    f->folder = g_dir_make_tmp("pstar-activity-XXXXXX", NULL);
    f->path = g_build_filename(f->folder, "run.pstar", NULL);
    f->random = g_rand_new_with_seed((guint32)g_test_rand_int());
    f->trace = random_trace(f->random, 10);
    f->activity = random_activity(f->random, MOST);
    f->strings = random_activity_strings();
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    (void)data;
    g_unlink(f->path);
    g_assert_cmpint(g_rmdir(f->folder), ==, 0);
    random_activity_strings_free(f->strings);
    activity_free(f->activity);
    trace_free(f->trace);
    g_rand_free(f->random);
    g_free(f->folder);
    g_free(f->path);
}

static struct record_file *open_file(const struct fixture *f)
{
    GError *error = NULL;
    struct record_file *file = record_file_new(f->path, f->trace, &error);
    g_assert_no_error(error);
    return file;
}

static void add(struct record_file *file, const struct fixture *f, const struct activity *activity,
                bool strings)
{
    GError *error = NULL;
    const struct records more = {.activity = activity,
                                 .strings = f->strings,
                                 .string_count = strings ? RANDOM_ACTIVITY_STRINGS : 0};
    record_file_add(file, &more, &error);
    g_assert_no_error(error);
}

static void write_all(const struct fixture *f)
{
    struct record_file *file = open_file(f);
    add(file, f, f->activity, true);
    g_assert_true(record_file_complete(file, NULL, 0, false, NULL));
    record_file_free(file);
}

static struct activity *read_parts(const struct fixture *f, uint32_t parts)
{
    GError *error = NULL;
    struct activity *back = activity_read(f->path, parts, &error);
    g_assert_no_error(error);
    return back;
}

/* Compares as bytes; padding is 0 on both sides. */
#define ASSERT_SAME(a, b, array, count)                                      \
    g_assert_cmpuint((a)->count, ==, (b)->count);                            \
    g_assert_cmpmem((a)->array, (a)->count * sizeof *(a)->array, (b)->array, \
                    (b)->count * sizeof *(b)->array)

static void assert_same(const struct activity *a, const struct activity *b)
{
    ASSERT_SAME(a, b, kernels, kernel_count);
    ASSERT_SAME(a, b, launches, kernel_count);
    ASSERT_SAME(a, b, copies, copy_count);
    ASSERT_SAME(a, b, sets, set_count);
    ASSERT_SAME(a, b, syncs, sync_count);
    ASSERT_SAME(a, b, calls, call_count);
    ASSERT_SAME(a, b, overheads, overhead_count);
    ASSERT_SAME(a, b, memory, memory_count);
    ASSERT_SAME(a, b, pools, pool_count);
    ASSERT_SAME(a, b, correlations, correlation_count);
    g_assert_cmpuint(a->dropped, ==, b->dropped);
    g_assert_cmpuint(a->unfinished, ==, b->unfinished);
    g_assert_cmpuint(a->untimed, ==, b->untimed);
    g_assert_cmpuint(a->unreadable, ==, b->unreadable);
    g_assert_cmpint(a->chosen_calls, ==, b->chosen_calls);
    g_assert_cmpuint(a->gpu_count, ==, b->gpu_count);
    for (uint32_t i = 0; i < a->gpu_count; i++) {
        g_assert_cmpuint(a->gpus[i].id, ==, b->gpus[i].id);
        g_assert_cmpuint(a->gpus[i].memory_bytes, ==, b->gpus[i].memory_bytes);
        g_assert_cmpuint(a->gpus[i].multiprocessors, ==, b->gpus[i].multiprocessors);
        g_assert_cmpstr(a->gpus[i].name, ==, b->gpus[i].name);
        g_assert_cmpstr(a->gpus[i].uuid, ==, b->gpus[i].uuid);
    }
}

static void test_round_trip(struct fixture *f, gconstpointer data)
{
    (void)data;
    write_all(f);
    struct activity *back = read_parts(f, ACTIVITY_ALL);
    assert_same(f->activity, back);
    g_assert_cmpuint(back->recorded, ==, ACTIVITY_ALL);
    activity_free(back);
    struct trace *trace = trace_read(f->path, NULL);
    f->trace->partial = false;
    assert_traces_equal(f->trace, trace);
    trace_free(trace);
}

static void test_parts(struct fixture *f, gconstpointer data)
{
    (void)data;
    write_all(f);
    struct activity *kernels = read_parts(f, ACTIVITY_KERNELS);
    ASSERT_SAME(f->activity, kernels, kernels, kernel_count);
    g_assert_null(kernels->launches);
    g_assert_cmpuint(kernels->copy_count + kernels->call_count + kernels->memory_count, ==, 0);
    g_assert_cmpuint(kernels->recorded, ==, ACTIVITY_ALL);
    activity_free(kernels);
    struct activity *launches = read_parts(f, ACTIVITY_LAUNCHES);
    ASSERT_SAME(f->activity, launches, kernels, kernel_count);
    ASSERT_SAME(f->activity, launches, launches, kernel_count);
    activity_free(launches);
    struct activity *nothing = read_parts(f, 0);
    g_assert_cmpuint(nothing->kernel_count, ==, 0);
    activity_free(nothing);
}

/* A trace of a program without a device is empty. */
static void test_none(struct fixture *f, gconstpointer data)
{
    (void)data;
    record_file_free(open_file(f));
    struct activity *back = read_parts(f, ACTIVITY_ALL);
    g_assert_cmpuint(back->recorded, ==, 0);
    g_assert_cmpuint(back->kernel_count + back->gpu_count, ==, 0);
    g_assert_null(back->kernels);
    g_assert_cmpuint(back->dropped, ==, 0);
    activity_free(back);
}

/* Writes the second half first, as a profiler's buffers may arrive, and without launch records. */
static void test_order(struct fixture *f, gconstpointer data)
{
    (void)data;
    struct activity *all = f->activity;
    uint32_t half = all->kernel_count / 2;
    for (uint32_t i = 1; i < all->kernel_count;
         i++) /* records with equal starts keep the order of the file */
        all->kernels[i].start_ns = MAX(all->kernels[i].start_ns, all->kernels[i - 1].start_ns + 1);
    for (uint32_t i = 0; i < all->kernel_count; i++)
        all->kernels[i].end_ns = all->kernels[i].start_ns + i % 7;
    const struct activity first = {
        .kernels = all->kernels, .launches = all->launches, .kernel_count = half, .dropped = 3};
    const struct activity second = {.kernels = all->kernels + half,
                                    .launches = all->launches + half,
                                    .kernel_count = all->kernel_count - half,
                                    .dropped = 4};
    const struct activity bare = {.kernels = all->kernels, .kernel_count = 1};
    struct record_file *file = open_file(f);
    add(file, f, &second, true);
    add(file, f, &first, false);
    struct activity *back = read_parts(f, ACTIVITY_ALL);
    ASSERT_SAME(all, back, kernels, kernel_count);
    ASSERT_SAME(all, back, launches, kernel_count);
    g_assert_cmpuint(back->dropped, ==, 7);
    activity_free(back);
    add(file, f, &bare, false);
    record_file_free(file);
    back = read_parts(f, ACTIVITY_LAUNCHES);
    g_assert_cmpuint(back->kernel_count, ==, all->kernel_count + 1);
    g_assert_cmpuint(back->launches[1].grid[0], ==, 0);
    activity_free(back);
}

/* A failed transaction leaves nothing, and the next one works. */
static void test_rollback(struct fixture *f, gconstpointer data)
{
    (void)data;
    struct record_file *file = open_file(f);
    GError *error = NULL;
    const struct record_string twice[] = {{1, f->strings[0].text}, {1, f->strings[0].text}};
    struct records more = {
        .activity = f->activity, .strings = (struct record_string *)twice, .string_count = 2};
    g_assert_false(record_file_add(file, &more, &error));
    g_assert_nonnull(error);
    g_clear_error(&error);
    more.string_count = 0;
    g_assert_true(record_file_add(file, &more, NULL));
    record_file_free(file);
    struct activity *back = read_parts(f, ACTIVITY_ALL);
    assert_same(f->activity, back);
    activity_free(back);
}

static sqlite3_int64 ask(sqlite3 *database, const char *sql)
{
    sqlite3_stmt *row = NULL;
    g_assert_cmpint(sqlite3_prepare_v2(database, sql, -1, &row, NULL), ==, SQLITE_OK);
    g_assert_cmpint(sqlite3_step(row), ==, SQLITE_ROW);
    sqlite3_int64 answer = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    return answer;
}

static void execute(const struct fixture *f, const char *sql)
{
    sqlite3 *database = NULL;
    g_assert_cmpint(sqlite3_open(f->path, &database), ==, SQLITE_OK);
    g_assert_cmpint(sqlite3_exec(database, sql, NULL, NULL, NULL), ==, SQLITE_OK);
    sqlite3_close(database);
}

/* Queries of scripts for Nsight Systems' exports. */
static void test_scripts(struct fixture *f, gconstpointer data)
{
    (void)data;
    write_all(f);
    uint64_t kernel_ns = 0, up_bytes = 0, pinned = 0;
    for (uint32_t i = 0; i < f->activity->kernel_count; i++)
        kernel_ns += f->activity->kernels[i].end_ns - f->activity->kernels[i].start_ns;
    for (uint32_t i = 0; i < f->activity->copy_count; i++)
        if (f->activity->copies[i].kind == COPY_HOST_TO_DEVICE)
            up_bytes += f->activity->copies[i].bytes;
    for (uint32_t i = 0; i < f->activity->memory_count; i++)
        if (f->activity->memory[i].kind == MEMORY_PINNED &&
            f->activity->memory[i].operation == MEMORY_ALLOCATE)
            pinned += f->activity->memory[i].bytes;
    sqlite3 *database = NULL;
    g_assert_cmpint(sqlite3_open(f->path, &database), ==, SQLITE_OK);
    g_assert_cmpint(ask(database, "SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN "
                                  "StringIds s ON s.id = coalesce(k.demangledName, k.shortName)"),
                    ==, (sqlite3_int64)kernel_ns);
    g_assert_cmpint(ask(database, "SELECT coalesce(sum(bytes), 0) FROM CUPTI_ACTIVITY_KIND_MEMCPY "
                                  "m JOIN ENUM_CUDA_MEMCPY_OPER o ON o.id = m.copyKind WHERE "
                                  "o.label = 'Host-to-Device'"),
                    ==, (sqlite3_int64)up_bytes);
    g_assert_cmpint(ask(database, "SELECT coalesce(sum(bytes), 0) FROM "
                                  "CUDA_GPU_MEMORY_USAGE_EVENTS e JOIN ENUM_CUDA_MEM_KIND k ON "
                                  "k.id = e.memKind JOIN ENUM_CUDA_DEV_MEM_EVENT_OPER o ON o.id = "
                                  "e.memoryOperationType WHERE k.label = 'Pinned' AND o.label = "
                                  "'Allocation'"),
                    ==, (sqlite3_int64)pinned);
    g_assert_cmpint(ask(database, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN "
                                  "CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) LEFT JOIN "
                                  "TARGET_INFO_GPU g ON g.id = k.deviceId WHERE k.globalPid / "
                                  "0x1000000 % 0x1000000 > 0 AND g.name IS NOT NULL AND "
                                  "k.greenContextId IS NULL"),
                    ==, f->activity->kernel_count);
    for (uint32_t i = 0; i < COPY_KINDS; i++) {
        g_autofree char *sql = g_strdup_printf(
            "SELECT label = '%s' FROM ENUM_CUDA_MEMCPY_OPER WHERE id = %u", copy_kind_label(i), i);
        g_assert_cmpint(ask(database, sql), ==, 1);
    }
    for (uint32_t i = 0; i < MEMORY_KINDS; i++) {
        g_autofree char *sql = g_strdup_printf(
            "SELECT label = '%s' FROM ENUM_CUDA_MEM_KIND WHERE id = %u", memory_kind_label(i), i);
        g_assert_cmpint(ask(database, sql), ==, 1);
    }
    sqlite3_close(database);
}

/* A wrong value is refused, naming the table, the row and the column. */
static void test_wrong(struct fixture *f, gconstpointer data)
{
    (void)data;
    static const struct {
        const char *sql, *says;
    } wrongs[] = {
        {"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1 WHERE rowid = 1",
         "CUPTI_ACTIVITY_KIND_KERNEL: row 1: ends before it begins"},
        {"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'noon' WHERE rowid = 1",
         "CUPTI_ACTIVITY_KIND_KERNEL: row 1: start is not an integer"},
        {"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET streamId = -1 WHERE rowid = 1",
         "row 1: streamId must be an integer in [0, 4294967295]"},
        {"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridZ = 1.5 WHERE rowid = 1",
         "row 1: gridZ is not an integer"},
        {"UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET srcKind = 8 WHERE rowid = 1",
         "CUPTI_ACTIVITY_KIND_MEMCPY: row 1: srcKind has no value 8"},
        {"UPDATE CUDA_GPU_MEMORY_USAGE_EVENTS SET memoryOperationType = 2 WHERE rowid = 1",
         "CUDA_GPU_MEMORY_USAGE_EVENTS: row 1: memoryOperationType has no value 2"},
        {"ALTER TABLE CUPTI_ACTIVITY_KIND_MEMSET DROP COLUMN value", "no such column: value"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(wrongs); i++) {
        write_all(f);
        execute(f, wrongs[i].sql);
        GError *error = NULL;
        g_assert_null(activity_read(f->path, ACTIVITY_ALL, &error));
        g_assert_cmpint((int)error->domain, ==, (int)TRACE_ERROR);
        g_assert_true(g_str_has_prefix(error->message, f->path));
        if (!strstr(error->message, wrongs[i].says))
            g_error("'%s' does not say '%s'", error->message, wrongs[i].says);
        g_clear_error(&error);
        /* the simulator does not read these tables */
        struct trace *trace = trace_read(f->path, &error);
        g_assert_no_error(error);
        trace_free(trace);
    }
}

/* Damaged files never crash the reader and are refused by name. */
static void test_damage(struct fixture *f, gconstpointer data)
{
    (void)data;
    write_all(f);
    char *whole;
    gsize length;
    int refused = 0;
    g_assert_true(g_file_get_contents(f->path, &whole, &length, NULL));
    for (int round = 0; round < 400; round++) {
        g_autofree char *damaged = g_memdup2(whole, length);
        for (int i = g_rand_int_range(f->random, 1, 20); i > 0; i--)
            damaged[g_rand_int_range(f->random, 100, (gint32)length)] ^=
                (char)(1 << g_rand_int_range(f->random, 0, 8));
        replace_file(f->path, damaged, length);
        GError *error = NULL;
        struct activity *back = activity_read(f->path, ACTIVITY_ALL, &error);
        g_assert_true((back == NULL) == (error != NULL));
        if (error)
            g_assert_true(g_str_has_prefix(error->message, f->path));
        for (uint32_t i = 1; back && i < back->kernel_count; i++)
            g_assert_cmpuint(back->kernels[i - 1].start_ns, <=, back->kernels[i].start_ns);
        refused += error != NULL;
        g_clear_error(&error);
        activity_free(back);
    }
    g_test_message("%d of 400 damaged files refused", refused);
    g_assert_cmpint(refused, >, 0);
    g_free(whole);
}

#define ADD(name, function) g_test_add(name, struct fixture, NULL, set_up, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/activity/round-trip", test_round_trip);
    ADD("/activity/parts", test_parts);
    ADD("/activity/none", test_none);
    ADD("/activity/order", test_order);
    ADD("/activity/rollback", test_rollback);
    ADD("/activity/scripts", test_scripts);
    ADD("/activity/wrong", test_wrong);
    ADD("/activity/damage", test_damage);
    return g_test_run();
}
