#include "traces/trace_file.h"

#include "tests/traces/random_trace.h"
#include "tests/traces/replace_file.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixture {
    char *folder, *path;
    GRand *random;
};

static void set_up(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    fixture->folder = g_dir_make_tmp("pstar-trace-XXXXXX", NULL);
    g_assert_nonnull(fixture->folder);
    fixture->path = g_build_filename(fixture->folder, "run.pstar", NULL);
    fixture->random = g_rand_new_with_seed((guint32)g_test_rand_int());
}

/* Checks that only the trace's file is left. */
static void tear_down(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    g_unlink(fixture->path);
    g_assert_cmpint(g_rmdir(fixture->folder), ==, 0);
    g_free(fixture->folder);
    g_free(fixture->path);
    g_rand_free(fixture->random);
}

static void test_round_trip(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    for (int i = 0; i < 100; i++) {
        struct trace *trace = random_trace(fixture->random, 60);
        GError *error = NULL;
        trace_write(trace, fixture->path, &error);
        g_assert_no_error(error);
        struct trace *back = trace_read(fixture->path, &error);
        g_assert_no_error(error);
        assert_traces_equal(trace, back);
        trace_free(back);
        trace_free(trace);
    }
}

static void test_invalid_is_not_written(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    struct trace *trace = random_trace(fixture->random, 5);
    trace->batch = 0;
    GError *error = NULL;
    g_assert_false(trace_write(trace, fixture->path, &error));
    g_assert_error(error, TRACE_ERROR, TRACE_ERROR_INVALID);
    g_assert_false(g_file_test(fixture->path, G_FILE_TEST_EXISTS));
    g_clear_error(&error);
    trace_free(trace);
}

static void assert_refused(const char *path, enum trace_error code, const char *reason)
{
    GError *error = NULL;
    g_assert_null(trace_read(path, &error));
    g_assert_error(error, TRACE_ERROR, (int)code);
    g_assert_true(g_str_has_prefix(error->message, path));
    if (!strstr(error->message, reason))
        g_error("'%s' does not say '%s'", error->message, reason);
    g_error_free(error);
}

static void execute(const char *path, const char *sql)
{
    sqlite3 *database;
    g_assert_cmpint(sqlite3_open(path, &database), ==, SQLITE_OK);
    char *message = NULL;
    sqlite3_exec(database, sql, NULL, NULL, &message);
    g_assert_cmpstr(message, ==, NULL);
    sqlite3_close(database);
}

static void test_other_files(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    assert_refused(fixture->path, TRACE_ERROR_IO, "No such file");
    g_assert_true(g_file_set_contents(fixture->path, "", 0, NULL));
    assert_refused(fixture->path, TRACE_ERROR_NOT_OURS, "not an SQLite database");
    g_assert_true(g_file_set_contents(fixture->path, "{\"a\": 1}", -1, NULL));
    assert_refused(fixture->path, TRACE_ERROR_NOT_OURS, "not an SQLite database");
    g_unlink(fixture->path);
    execute(fixture->path, "CREATE TABLE operators (id INTEGER)");
    assert_refused(fixture->path, TRACE_ERROR_NOT_OURS, "another program");
    execute(fixture->path, "PRAGMA application_id = 1886614642; PRAGMA user_version = 7");
    assert_refused(fixture->path, TRACE_ERROR_VERSION, "version 7");
    execute(fixture->path, "PRAGMA user_version = 1");
    assert_refused(fixture->path, TRACE_ERROR_NOT_OURS, "meta");
    assert_refused(fixture->folder, TRACE_ERROR_IO, "");
}

/* Breaks one thing of a valid trace per case, and checks where the message points. */
static void test_contents(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    static const struct {
        const char *sql, *reason;
    } cases[] = {
        {"DELETE FROM meta WHERE key = 'batch'", "meta: batch is missing"},
        {"UPDATE meta SET value = 'two' WHERE key = 'batch'", "meta: batch is wrong"},
        {"UPDATE meta SET value = 4294967296 WHERE key = 'sequence'", "meta: sequence"},
        {"UPDATE meta SET value = -1 WHERE key = 'library_bytes'", "meta: library_bytes"},
        {"UPDATE meta SET value = 0 WHERE key = 'micro_batches'", "meta: "},
        {"UPDATE meta SET value = 0 WHERE key = 'element_bytes_param'", "accesses: row 0"},
        {"DROP TABLE accesses", "accesses"},
        {"DROP TABLE operators", "holds NVTX ranges but no iteration"},
        {"ALTER TABLE operators RENAME COLUMN flops TO flop", "flops"},
        {"DELETE FROM tensors WHERE id = 0", "tensors: row 0: missing"},
        {"UPDATE tensors SET name = x'ff' WHERE id = 1", "tensors: row 1: name"},
        {"UPDATE tensors SET name = cast(x'ff' AS TEXT) WHERE id = 1", "tensors: row 1: name"},
        {"UPDATE tensors SET elements = 'many' WHERE id = 1", "tensors: row 1: elements"},
        {"UPDATE tensors SET elements = -5 WHERE id = 1", "tensors: row 1: elements"},
        {"DELETE FROM operators WHERE id = 1", "operators: row 1: missing"},
        {"UPDATE operators SET phase = 'sideways' WHERE id = 1", "operators: row 1: no phase"},
        {"UPDATE operators SET place = 1 WHERE id = 1", "operators: row 1"},
        {"UPDATE operators SET layer = -3 WHERE id = 1", "operators: row 1: layer"},
        {"UPDATE operators SET layer = 1000000 WHERE id = 1", "operators: row 1: layer"},
        {"UPDATE operators SET duration_ns = 1.5 WHERE id = 1", "operators: row 1: duration_ns"},
        {"UPDATE operators SET duration_ns = 1 << 54", "its duration is too long"},
        {"UPDATE accesses SET list = 'weights' WHERE id = 1", "accesses: row 1: no list"},
        {"UPDATE accesses SET mode = 'w' WHERE id = 1", "accesses: row 1: no mode"},
        {"UPDATE accesses SET tensor = 99 WHERE id = 1", "accesses: row 1"},
        {"UPDATE accesses SET operator = 99 WHERE id = 1", "accesses: row 1: there is no"},
        {"UPDATE accesses SET operator = 2 WHERE id = 0",
         "accesses: row 2: the accesses of operator 2"},
        {"UPDATE buffers SET last = 9 WHERE id = 0", "buffers: row 0"},
        {"UPDATE buffers SET saved = 2 WHERE id = 0", "buffers: row 0: saved"},
        {"UPDATE moments SET non_model_bytes = 1 + non_model_bytes WHERE id = 2", "moments: row 2"},
        {"DELETE FROM moments WHERE id = 2", "moments: 2 rows for 3 operators"},
        {"UPDATE meta SET value = 3 WHERE key = 'ranks'", "meta: ranks are 3"},
        {"UPDATE meta SET value = 'two' WHERE key = 'ranks'", "meta: ranks is wrong"},
        {"DELETE FROM meta WHERE key = 'ranks'", "there is one"},
        {"UPDATE meta SET value = 2 WHERE key = 'shared_parameters'", "meta: shared_parameters"},
        {"UPDATE exchanges SET collective = 'bcast'", "exchanges: row 0: no collective"},
        {"UPDATE exchanges SET operator = 9", "exchanges: row 0: there is no operator 9"},
        {"UPDATE exchanges SET sent_bytes = -1", "exchanges: row 0: sent_bytes"},
        {"UPDATE exchanges SET received_bytes = 1 << 62", "exchanges too many bytes"},
        {"INSERT INTO exchanges VALUES (1, 2, 'reduce', 1, 1)", "operator 2 has another reduce"},
        {"UPDATE uses SET buffer = 1", "uses: row 0: its buffer does not exist"},
        {"UPDATE uses SET operator = 3 WHERE id = 2", "uses: row 2: its operator does not exist"},
        {"UPDATE uses SET operator = 1 WHERE id = 2", "uses: row 2: it is not in the order"},
        {"UPDATE uses SET kind = 'eat'", "uses: row 0: no kind is called 'eat'"},
        {"UPDATE uses SET kind = 'save' WHERE id = 2", "uses: row 2: a buffer is saved once"},
        {"UPDATE uses SET kind = 'use' WHERE id = 1", "uses: row 2: what is restored was saved"},
        {"UPDATE uses SET kind = 'use' WHERE id = 2; UPDATE operators SET phase = 'backward' "
         "WHERE id = 1; UPDATE uses SET kind = 'use' WHERE id = 1",
         "uses: row 1: backward uses what was not restored"},
        {"UPDATE uses SET kind = 'restore' WHERE id = 0", "uses: row 0: what is restored was"},
        {"UPDATE operators SET phase = 'backward' WHERE id = 1; UPDATE operators SET phase = "
         "'update' WHERE id = 2; UPDATE uses SET kind = 'save' WHERE id = 0; UPDATE uses SET kind "
         "= 'restore' WHERE id = 1; UPDATE uses SET kind = 'use' WHERE id = 2",
         "uses: row 2: an update uses no activation"},
    };
    struct trace trace = {.batch = 1, .sequence = 1, .micro_batches = 2, .ranks = 2};
    trace.list_element_bytes[TRACE_PARAM] = 4;
    struct trace_tensor tensors[] = {{(char *)"a", 5, 0}, {(char *)"b", 6, 0}};
    struct trace_operator operators[] = {
        {.name = (char *)"forward a", .layer = -1, .access_count = 1},
        {.name = (char *)"forward b", .layer = 0, .first_access = 1, .access_count = 1},
        {.name = (char *)"backward b",
         .phase = TRACE_BACKWARD,
         .layer = 0,
         .first_access = 2,
         .access_count = 1,
         .exchange = {[TRACE_REDUCE] = {50, 60}}}};
    struct trace_access accesses[] = {{.tensor = 0}, {.tensor = 1}, {.tensor = 1}};
    struct trace_buffer buffers[] = {{.name = (char *)"x", .bytes = 8, .first = 0, .last = 2}};
    struct trace_use uses[] = {{0, 0, TRACE_USES}, {0, 1, TRACE_SAVES}, {0, 2, TRACE_RESTORES}};
    uint64_t non_model_bytes[] = {8, 8, 8};
    trace.tensors = tensors;
    trace.tensor_count = 2;
    trace.operators = operators;
    trace.operator_count = 3;
    trace.accesses = accesses;
    trace.access_count = 3;
    trace.buffers = buffers;
    trace.buffer_count = 1;
    trace.uses = uses;
    trace.use_count = 3;
    trace.non_model_bytes = non_model_bytes;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        GError *error = NULL;
        trace_write(&trace, fixture->path, &error);
        g_assert_no_error(error);
        execute(fixture->path, cases[i].sql);
        error = NULL;
        g_assert_null(trace_read(fixture->path, &error));
        g_assert_nonnull(error);
        if (!strstr(error->message, cases[i].reason))
            g_error("after %s: '%s' does not say '%s'", cases[i].sql, error->message,
                    cases[i].reason);
        g_error_free(error);
    }
}

/* Reads a damaged file. It must not crash; accepted traces are valid, refused ones are named. */
static bool read_damaged(const char *path)
{
    GError *error = NULL;
    struct trace *trace = trace_read(path, &error);
    g_assert_true((trace == NULL) == (error != NULL));
    if (error) {
        g_assert_true(error->domain == TRACE_ERROR);
        g_assert_true(g_str_has_prefix(error->message, path));
    } else {
        g_assert_true(trace_check(trace, path, NULL));
    }
    bool accepted = trace != NULL;
    trace_free(trace);
    g_clear_error(&error);
    return accepted;
}

static void test_damage(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    struct trace *trace = random_trace(fixture->random, 40);
    g_assert_true(trace_write(trace, fixture->path, NULL));
    trace_free(trace);
    char *whole;
    gsize length;
    g_assert_true(g_file_get_contents(fixture->path, &whole, &length, NULL));
    int refused = 0, rounds = g_test_slow() ? 20000 : 1500;
    for (int round = 0; round < rounds; round++) {
        char *damaged = g_memdup2(whole, length);
        int flips = g_rand_int_range(fixture->random, 1, 9);
        for (int i = 0; i < flips; i++) {
            /* Half of the damage is in the first page, which holds the schema. */
            gint32 most = g_rand_boolean(fixture->random) ? 4096 : (gint32)length;
            damaged[g_rand_int_range(fixture->random, 0, most)] ^=
                (char)(1 << g_rand_int_range(fixture->random, 0, 8));
        }
        replace_file(fixture->path, damaged, length);
        refused += !read_damaged(fixture->path);
        g_free(damaged);
    }
    g_test_message("%d of %d damaged files refused", refused, rounds);
    g_assert_cmpint(refused, >, 0);
    for (int i = 0; i < 200; i++) {
        size_t cut = (size_t)g_rand_int_range(fixture->random, 0, (gint32)length);
        replace_file(fixture->path, whole, cut);
        g_assert_false(read_damaged(fixture->path));
    }
    replace_file(fixture->path, whole, length - 1);
    assert_refused(fixture->path, TRACE_ERROR_NOT_OURS, "truncated");
    g_free(whole);
}

static void test_unwritable(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    struct trace *trace = random_trace(fixture->random, 5);
    char *path = g_build_filename(fixture->folder, "none", "run.pstar", NULL);
    GError *error = NULL;
    g_assert_false(trace_write(trace, path, &error));
    g_assert_error(error, TRACE_ERROR, TRACE_ERROR_IO);
    g_assert_true(g_str_has_prefix(error->message, path));
    g_clear_error(&error);
    g_free(path);

    g_assert_cmpint(g_mkdir(fixture->path, 0777), ==, 0);
    g_assert_false(trace_write(trace, fixture->path, &error));
    g_assert_error(error, TRACE_ERROR, TRACE_ERROR_IO);
    g_clear_error(&error);
    g_assert_cmpint(g_rmdir(fixture->path), ==, 0);
    trace_free(trace);
}

/* A limit on file sizes replaces a full disk: writes fail at the same place. The old file stays. */
static void test_full_disk(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    g_assert_true(g_file_set_contents(fixture->path, "the old one", -1, NULL));
    struct trace *trace = random_trace(fixture->random, 5);
    struct trace *large = random_trace(fixture->random, 3000);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit old, tight = {.rlim_cur = 8192, .rlim_max = RLIM_INFINITY};
    g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &old), ==, 0);
    tight.rlim_max = old.rlim_max;
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &tight), ==, 0);
    GError *error = NULL;
    bool written = trace_write(large, fixture->path, &error);
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &old), ==, 0);
    g_assert_false(written);
    g_assert_error(error, TRACE_ERROR, TRACE_ERROR_IO);
    g_test_message("%s", error->message);
    g_clear_error(&error);
    char *contents;
    g_assert_true(g_file_get_contents(fixture->path, &contents, NULL, NULL));
    g_assert_cmpstr(contents, ==, "the old one");
    g_free(contents);
    trace_free(trace);
    trace_free(large);
}

/* A journal left by a killed writer of the old file must not be applied to the new one. */
static void test_stale_journal(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    struct trace *trace = random_trace(fixture->random, 20);
    char *journal = g_strconcat(fixture->path, "-journal", NULL);
    g_assert_true(trace_write(trace, fixture->path, NULL));
    g_assert_true(g_file_set_contents(journal, "stale", -1, NULL));
    g_assert_true(trace_write(trace, fixture->path, NULL));
    g_assert_false(g_file_test(journal, G_FILE_TEST_EXISTS));
    struct trace *back = trace_read(fixture->path, NULL);
    assert_traces_equal(trace, back);
    trace_free(back);
    trace_free(trace);
    g_free(journal);
}

static char *contents(const char *path)
{
    gsize length = 0;
    g_autofree char *bytes = NULL;
    g_assert_true(g_file_get_contents(path, &bytes, &length, NULL));
    return g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)bytes, length);
}

/* Kills a writer in the middle of a transaction whose first pages are in the file already. */
static void kill_writer(const char *path)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        sqlite3 *database;
        sqlite3_open(path, &database);
        sqlite3_exec(database,
                     "PRAGMA cache_size = 1; BEGIN;"
                     "UPDATE operators SET name = 'half' || hex(zeroblob(5000))",
                     NULL, NULL, NULL);
        raise(SIGKILL);
    }
    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
}

/* Reading rolls a journal back without changing the file: whoever put it there. */
static void test_hot_journal(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    struct trace *trace = random_trace(fixture->random, 60);
    g_autofree char *journal = g_strconcat(fixture->path, "-journal", NULL);
    g_assert_true(trace_write(trace, fixture->path, NULL));
    kill_writer(fixture->path);
    g_autofree char *before = contents(fixture->path), *log = contents(journal);
    GError *error = NULL;
    struct trace *back = trace_read(fixture->path, &error);
    g_assert_no_error(error);
    assert_traces_equal(trace, back);
    g_autofree char *after = contents(fixture->path), *log_after = contents(journal);
    g_assert_cmpstr(before, ==, after);
    g_assert_cmpstr(log, ==, log_after);
    g_unlink(journal);
    trace_free(back);
    trace_free(trace);
}

/* Reading leaves no files beside a database with a log ahead; one with changes in it is refused. */
static void test_log_ahead(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    struct trace *trace = random_trace(fixture->random, 20);
    g_autofree char *log = g_strconcat(fixture->path, "-wal", NULL);
    sqlite3 *database = NULL;
    GError *error = NULL;
    g_assert_true(trace_write(trace, fixture->path, NULL));
    g_assert_cmpint(sqlite3_open(fixture->path, &database), ==, SQLITE_OK);
    sqlite3_exec(database, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    sqlite3_close(database);
    struct trace *back = trace_read(fixture->path, &error);
    g_assert_no_error(error); /* tear_down finds no other files in the folder */
    assert_traces_equal(trace, back);
    g_assert_true(g_file_set_contents(log, "unfinished", -1, NULL));
    g_assert_null(trace_read(fixture->path, &error));
    g_assert_nonnull(strstr(error->message, "another program is still writing it"));
    g_clear_error(&error);
    g_unlink(log);
    trace_free(back);
    trace_free(trace);
}

/* A name that SQLite takes for a URI is a file's name as any other. */
static void test_odd_name(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    struct trace *trace = random_trace(fixture->random, 5);
    g_autofree char *folder = g_get_current_dir();
    GError *error = NULL;
    g_assert_cmpint(g_chdir(fixture->folder), ==, 0);
    g_assert_true(trace_write(trace, "file:x?mode=memory", &error));
    struct trace *back = trace_read("file:x?mode=memory", &error);
    g_assert_no_error(error);
    assert_traces_equal(trace, back);
    g_assert_cmpint(g_unlink("file:x?mode=memory"), ==, 0);
    g_assert_cmpint(g_chdir(folder), ==, 0);
    trace_free(back);
    trace_free(trace);
}

/* A million accesses and as many buffers as operators, as in a model of 175B parameters with many
 * micro-batches. */
static void test_large(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    enum { OPERATORS = 100000, ACCESSES_EACH = 10, TENSORS = 1200 };
    struct trace *trace = g_new0(struct trace, 1);
    trace->batch = trace->sequence = trace->micro_batches = 1;
    trace->list_element_bytes[TRACE_PARAM] = 2;
    trace->tensor_count = TENSORS;
    trace->tensors = g_new0(struct trace_tensor, TENSORS);
    for (uint32_t i = 0; i < TENSORS; i++)
        trace->tensors[i] = (struct trace_tensor){.name = g_strdup_printf("h.%u.weight", i),
                                                  .elements = UINT64_C(150000000)};
    trace->operator_count = trace->buffer_count = OPERATORS;
    trace->access_count = OPERATORS * ACCESSES_EACH;
    trace->operators = g_new0(struct trace_operator, OPERATORS);
    trace->buffers = g_new0(struct trace_buffer, OPERATORS);
    trace->accesses = g_new0(struct trace_access, trace->access_count);
    for (uint32_t m = 0; m < OPERATORS; m++) {
        trace->operators[m] =
            (struct trace_operator){.name = g_strdup_printf("forward h.%u.attn.c_attn", m),
                                    .first_access = m * ACCESSES_EACH,
                                    .access_count = ACCESSES_EACH};
        trace->buffers[m] = (struct trace_buffer){
            .name = g_strdup_printf("h.%u.x", m), .bytes = 1 + m, .first = m, .last = m};
        for (uint32_t i = 0; i < ACCESSES_EACH; i++)
            trace->accesses[m * ACCESSES_EACH + i].tensor = (m + i) % TENSORS;
    }
    trace_sum_buffers(trace);
    g_test_timer_start();
    g_assert_true(trace_write(trace, fixture->path, NULL));
    double written = g_test_timer_elapsed();
    struct trace *back = trace_read(fixture->path, NULL);
    double read = g_test_timer_elapsed() - written;
    assert_traces_equal(trace, back);
    g_test_message("1,000,000 accesses: written in %.2f s, read in %.2f s", written, read);
    trace_free(back);
    trace_free(trace);
}

#define ADD(name, function) g_test_add(name, struct fixture, NULL, set_up, function, tear_down)

/* SQLite refuses long paths without a reason, so the message has it. */
static void test_long_path(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    enum { FOLDERS = 3, LETTERS = 200 };
    char *folders[FOLDERS + 1] = {fixture->folder};
    g_autofree char *name = g_strnfill(LETTERS, 'a');
    g_autoptr(GError) error = NULL;
    for (int i = 1; i <= FOLDERS; i++) {
        folders[i] = g_build_filename(folders[i - 1], name, NULL);
        g_assert_cmpint(g_mkdir(folders[i], 0700), ==, 0);
    }
    g_autofree char *path = g_build_filename(folders[FOLDERS], "run.pstar", NULL);
    struct trace *trace = random_trace(fixture->random, 10);
    g_assert_false(trace_write(trace, path, &error));
    g_assert_true(g_error_matches(error, TRACE_ERROR, TRACE_ERROR_IO));
    g_assert_nonnull(strstr(error->message, "512"));
    trace_free(trace);
    for (int i = FOLDERS; i > 0; i--) {
        g_assert_cmpint(g_rmdir(folders[i]), ==, 0);
        g_free(folders[i]);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/trace-file/round-trip", test_round_trip);
    ADD("/trace-file/invalid-is-not-written", test_invalid_is_not_written);
    ADD("/trace-file/other-files", test_other_files);
    ADD("/trace-file/contents", test_contents);
    ADD("/trace-file/damage", test_damage);
    ADD("/trace-file/unwritable", test_unwritable);
    ADD("/trace-file/full-disk", test_full_disk);
    ADD("/trace-file/stale-journal", test_stale_journal);
    ADD("/trace-file/hot-journal", test_hot_journal);
    ADD("/trace-file/log-ahead", test_log_ahead);
    ADD("/trace-file/odd-name", test_odd_name);
    ADD("/trace-file/long-path", test_long_path);
    ADD("/trace-file/large", test_large);
    return g_test_run();
}
