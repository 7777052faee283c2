/* Imports SQLite exports of Nsight Systems: all records are copied. */
#include "tests/traces/import_fixture.h"
#include "tests/traces/random_activity.h"
#include "traces/trace_file.h"

#include <glib/gstdio.h>
#include <sqlite3.h>
#include <string.h>

enum { MOST = 200 };

static void execute(const char *path, const char *sql)
{
    sqlite3 *database;
    char *reason = NULL;
    g_assert_cmpint(sqlite3_open(path, &database), ==, SQLITE_OK);
    if (sqlite3_exec(database, sql, NULL, NULL, &reason) != SQLITE_OK)
        g_error("%s: %s", sql, reason);
    g_assert_cmpint(sqlite3_close(database), ==, SQLITE_OK);
}

/* Removes our own tables and adds tables that only an export has. */
static void write_export(const struct import_fixture *f, const struct activity *activity)
{
    struct record_string *strings = random_activity_strings();
    const struct records records = {
        .activity = activity, .strings = strings, .string_count = RANDOM_ACTIVITY_STRINGS};
    struct record_file *file = record_file_new(f->from, NULL, NULL);
    g_assert_true(record_file_add(file, &records, NULL));
    record_file_free(file);
    random_activity_strings_free(strings);
    execute(f->from,
            "PRAGMA application_id = 0; PRAGMA user_version = 0;"
            "DROP TABLE meta; DROP TABLE samples;"
            "INSERT INTO StringIds VALUES (0, '');"
            "CREATE TABLE OSRT_API (start INTEGER, end INTEGER);"
            "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);"
            "CREATE TABLE IF NOT EXISTS PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);"
            "INSERT INTO PROCESSES VALUES (7 << 24, 7, 'train');"
            "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, "
            "localTime TEXT, other TEXT);"
            "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, '', '', '');"
            "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN tensorMapCount INTEGER;"
            "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY DROP COLUMN migrationCause;"
            "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, text, domainId) VALUES"
            " (5, 9, 59, 7 << 24 | 8, 'step', 0), (6, 7, 59, 7 << 24 | 8, 'inner', 0),"
            " (15, 19, 59, 7 << 24 | 8, 'step', 0);"
            "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, textId, domainId)"
            " SELECT 20, 21, 59, 7 << 24 | 8, min(id), 0 FROM StringIds WHERE id > 0;");
}

#define CHECK_SAME(array, count)                                                            \
    do {                                                                                    \
        g_assert_cmpuint(found->count, ==, expected->count);                                \
        g_assert_cmpmem(found->array, found->count * sizeof *found->array, expected->array, \
                        expected->count * sizeof *expected->array);                         \
    } while (0)

static void check_same(const struct activity *found, const struct activity *expected)
{
    CHECK_SAME(kernels, kernel_count);
    CHECK_SAME(launches, kernel_count);
    CHECK_SAME(copies, copy_count);
    CHECK_SAME(sets, set_count);
    CHECK_SAME(syncs, sync_count);
    CHECK_SAME(calls, call_count);
    CHECK_SAME(overheads, overhead_count);
    CHECK_SAME(memory, memory_count);
}

static void test_copied(struct import_fixture *f, gconstpointer data)
{
    g_autoptr(GRand) random = g_rand_new_with_seed((guint32)g_test_rand_int());
    struct activity *made = random_activity(random, MOST);
    (void)data;
    write_export(f, made);
    struct activity *expected, *found;
    g_assert_true(import_nsys(f->from, f->to, f->unknown, &f->error));
    g_assert_no_error(f->error);
    found = activity_read(f->to, ACTIVITY_ALL, &f->error);
    /* Compares with our own file. Rows with equal starts may be in another order. */
    struct record_string *strings = random_activity_strings();
    g_autofree char *own = g_build_filename(f->folder, "own.pstar", NULL);
    const struct records records = {
        .activity = made, .strings = strings, .string_count = RANDOM_ACTIVITY_STRINGS};
    struct record_file *file = record_file_new(own, NULL, NULL);
    g_assert_true(record_file_add(file, &records, NULL));
    record_file_free(file);
    expected = activity_read(own, ACTIVITY_ALL, NULL);
    check_same(found, expected);
    g_unlink(own);
    random_activity_strings_free(strings);
    activity_free(expected);
    activity_free(found);
    activity_free(made);
}

/* The description of the run is kept. */
static void test_run(struct import_fixture *f, gconstpointer data)
{
    g_autoptr(GRand) random = g_rand_new_with_seed((guint32)g_test_rand_int());
    struct activity *made = random_activity(random, 5);
    sqlite3 *database;
    sqlite3_stmt *row;
    (void)data;
    write_export(f, made);
    g_assert_true(import_nsys(f->from, f->to, f->unknown, &f->error));
    g_assert_cmpint(sqlite3_open(f->to, &database), ==, SQLITE_OK);
    g_assert_cmpint(sqlite3_prepare_v2(database,
                                       "SELECT utcEpochNs, p.name FROM PROCESSES p, "
                                       "TARGET_INFO_SESSION_START_TIME WHERE pid = 7",
                                       -1, &row, NULL),
                    ==, SQLITE_OK);
    g_assert_cmpint(sqlite3_step(row), ==, SQLITE_ROW);
    g_assert_cmpint(sqlite3_column_int64(row, 0), ==, G_GINT64_CONSTANT(1700000000000000000));
    g_assert_cmpstr((const char *)sqlite3_column_text(row, 1), ==, "train");
    sqlite3_finalize(row);
    sqlite3_close(database);
    activity_free(made);
}

/* An export may lack the kinds of memory, as a column or as values. */
static void test_memory_kinds(struct import_fixture *f, gconstpointer data)
{
    g_autoptr(GRand) random = g_rand_new_with_seed((guint32)g_test_rand_int());
    struct activity *made = random_activity(random, MOST), *found;
    (void)data;
    write_export(f, made);
    execute(f->from, "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET srcKind = NULL WHERE rowid % 2;"
                     "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY DROP COLUMN dstKind;"
                     "UPDATE CUPTI_ACTIVITY_KIND_MEMSET SET memKind = NULL;");
    g_assert_true(import_nsys(f->from, f->to, f->unknown, &f->error));
    found = activity_read(f->to, ACTIVITY_ALL, &f->error);
    g_assert_no_error(f->error);
    g_assert_cmpuint(found->copy_count, ==, made->copy_count);
    uint32_t unknown = 0;
    for (uint32_t i = 0; i < found->copy_count; i++) {
        g_assert_cmpuint(found->copies[i].destination, ==, MEMORY_UNKNOWN);
        unknown += found->copies[i].source == MEMORY_UNKNOWN;
    }
    g_assert_cmpuint(unknown, >=, found->copy_count / 2);
    for (uint32_t i = 0; i < found->set_count; i++)
        g_assert_cmpuint(found->sets[i].memory, ==, MEMORY_UNKNOWN);
    activity_free(found);
    activity_free(made);
}

static void test_texts(struct import_fixture *f, gconstpointer data)
{
    g_autoptr(GRand) random = g_rand_new_with_seed((guint32)g_test_rand_int());
    struct activity *made = random_activity(random, 5);
    (void)data;
    write_export(f, made);
    g_assert_true(import_nsys(f->from, f->to, f->unknown, &f->error));
    struct records *records = records_read(f->to, &f->error);
    g_assert_no_error(f->error);
    g_assert_cmpuint(records->event_count, ==, 4);
    g_assert_cmpstr(records_text(records, records->events[0].text), ==, "step");
    g_assert_cmpstr(records_text(records, records->events[1].text), ==, "inner");
    g_assert_cmpuint(records->events[2].text, ==, records->events[0].text);
    g_assert_cmpuint(records->events[3].text, ==, 1);
    g_assert_cmpuint(records->events[0].process, ==, 7);
    g_assert_nonnull(strstr(records->unknown, "OSRT_API"));
    g_assert_null(strstr(records->unknown, "META_DATA"));
    g_assert_false(records->has_iteration);
    records_free(records);
    activity_free(made);
}

/* Another tool's table may promise nothing of its columns. */
#define LOOSE(table)                                                       \
    "CREATE TABLE loose AS SELECT * FROM " table "; DROP TABLE " table ";" \
    "ALTER TABLE loose RENAME TO " table ";"

/* Neither what is read nor what is written leaves or changes other files. */
static void test_untouched(struct import_fixture *f, gconstpointer data)
{
    g_autoptr(GRand) random = g_rand_new_with_seed((guint32)g_test_rand_int());
    struct activity *made = random_activity(random, 5);
    g_autofree char *log = g_strconcat(f->from, "-wal", NULL);
    (void)data;
    write_export(f, made);
    execute(f->from, "PRAGMA journal_mode = WAL");
    g_assert_true(import_nsys(f->from, f->to, f->unknown, &f->error));
    g_assert_no_error(f->error); /* tear_down finds no other files in the folder */
    g_unlink(f->to);
    g_assert_true(g_file_set_contents(log, "unfinished", -1, NULL));
    import_check_refused(f, import_nsys, "another program is still writing it, or was killed");
    g_unlink(log);
    activity_free(made);
}

static void test_refused(struct import_fixture *f, gconstpointer data)
{
    g_autoptr(GRand) random = g_rand_new_with_seed((guint32)g_test_rand_int());
    struct activity *made = random_activity(random, 5);
    (void)data;
    import_check_refused(f, import_nsys, "No such file");
    g_assert_false(g_file_test(f->from, G_FILE_TEST_EXISTS));
    g_assert_true(g_file_set_contents(f->from, "SQLite", -1, NULL));
    import_check_refused(f, import_nsys, "not an SQLite database");
    g_unlink(f->from);
    execute(f->from, "CREATE TABLE other (id INTEGER)");
    import_check_refused(f, import_nsys, "no table StringIds");
    g_unlink(f->from);
    execute(f->from, "CREATE TABLE StringIds (id INTEGER, value TEXT);"
                     "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER)");
    import_check_refused(f, import_nsys, "record again with nsys profile --trace=cuda,nvtx");
    execute(f->from, "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT);"
                     "INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100')");
    import_check_refused(f, import_nsys, "record again with nsys profile --trace=cuda,nvtx");
    g_unlink(f->from);
    static const struct {
        const char *sql, *reason;
    } damages[] = {
        {"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1",
         "CUPTI_ACTIVITY_KIND_KERNEL: row 1: ends before it begins"},
        {"UPDATE NVTX_EVENTS SET start = end + 1 WHERE end IS NOT NULL", "ends before it begins"},
        {"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET shortName = 4000000000", "names string 4000000000"},
        {"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon'", "CUPTI_ACTIVITY_KIND_KERNEL"},
        {LOOSE("CUPTI_ACTIVITY_KIND_KERNEL") "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = NULL "
                                             "WHERE rowid = 1",
         "/recorded: CUPTI_ACTIVITY_KIND_KERNEL: row 1: start is empty"},
        {LOOSE("StringIds") "INSERT INTO StringIds SELECT id, 'other' FROM StringIds WHERE id = 1",
         "/recorded: StringIds: row "},
        {"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN gridX",
         "/recorded: CUPTI_ACTIVITY_KIND_KERNEL: there is no column gridX"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(damages); i++) {
        g_unlink(f->from);
        write_export(f, made);
        execute(f->from, damages[i].sql);
        import_check_refused(f, import_nsys, damages[i].reason);
    }
    activity_free(made);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    IMPORT_TEST("/import_nsys/copied", test_copied);
    IMPORT_TEST("/import_nsys/run", test_run);
    IMPORT_TEST("/import_nsys/memory-kinds", test_memory_kinds);
    IMPORT_TEST("/import_nsys/texts", test_texts);
    IMPORT_TEST("/import_nsys/untouched", test_untouched);
    IMPORT_TEST("/import_nsys/refused", test_refused);
    return g_test_run();
}
