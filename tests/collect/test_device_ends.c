/* What is left of a recording of a CUDA device (device_fixture.h) when the program or the profiler
 * ends early, or something is missing. */
#include "tests/collect/device_fixture.h"
#include "tests/collect/trained.h"
#include "traces/trace_file.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Kernels are kept although the profiler forgets its records at the exit: the collector closes
 * before. */
static void test_forgetful(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "--iterations all -- %s none 3", TRACED_TRAINED);
    assert_exit(fixture, 0);
    struct traced traced = read_traced(fixture);
    g_assert_cmpuint(traced.activity->kernel_count, ==, 3 * TRAINED_KERNELS + TRAINED_LAYERS);
    free_traced(&traced);

    collect(fixture, "--iterations 1:9 -- %s ranges 3 exit 2", TRACED_TRAINED);
    assert_exit(fixture, 9);
    traced = read_traced(fixture);
    g_assert_cmpuint(traced.activity->kernel_count, >, TRAINED_KERNELS);
    free_traced(&traced);
}

/* Returns how many kernels the file has, while the program may write it. */
static gint64 kernels_so_far(const char *path)
{
    sqlite3 *database;
    sqlite3_stmt *row;
    gint64 count = 0;
    if (sqlite3_open_v2(path, &database, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(database, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL", -1, &row,
                           NULL) == SQLITE_OK) {
        if (sqlite3_step(row) == SQLITE_ROW)
            count = sqlite3_column_int64(row, 0);
        sqlite3_finalize(row);
    }
    sqlite3_close(database);
    return count;
}

/* Tells the program to kill itself when the file has all kernels that it had launched. */
static void *kill_when_flushed(void *data)
{
    const struct fixture *fixture = data;
    g_autofree char *file = g_build_filename(fixture->folder, TRAINED_KILL_FILE, NULL);
    while (kernels_so_far(fixture->path) < 2 * TRAINED_KERNELS + TRAINED_LAYERS)
        g_usleep(10000);
    g_file_set_contents(file, "", 0, NULL);
    return NULL;
}

/* A recording of the whole run is written each second, so a killed program leaves it. */
static void test_flushed(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    GThread *thread = g_thread_new("kill", kill_when_flushed, fixture);
    collect(fixture, "--iterations all -- %s none 4 told 2", TRACED_TRAINED);
    g_assert_true(WIFSIGNALED(fixture->status) && WTERMSIG(fixture->status) == SIGKILL);
    g_thread_join(thread);
    struct traced traced = read_traced(fixture);
    g_assert_cmpuint(traced.activity->kernel_count, >=, 2 * TRAINED_KERNELS + TRAINED_LAYERS);
    free_traced(&traced);
    g_autofree char *file = g_build_filename(fixture->folder, TRAINED_KILL_FILE, NULL);
    g_unlink(file);
}

/* The window's last kernel still runs when its last range ends; the collector waits for it. */
static void test_kernel_at_end(struct fixture *fixture, gconstpointer data)
{
    bool told = data == NULL;
    collect(fixture, "-- %s ranges 3 long 1", TRACED_TRAINED);
    assert_exit(fixture, 0);
    struct traced traced = read_traced(fixture);
    g_assert_cmpuint(traced.activity->kernel_count, ==, TRAINED_KERNELS + 1);
    g_assert_cmpuint(count_kernels(&traced, "long_kernel"), ==, 1);
    g_assert_cmpuint(traced.activity->unfinished, ==, 0);
    g_assert_cmpint(traced.activity->sync_count > 0, ==, told);
    free_traced(&traced);
}

/* The program ends while a kernel runs. */
static void test_kernel_at_exit(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "--iterations 1:9 -- %s ranges 3 long 2", TRACED_TRAINED);
    assert_exit(fixture, 1);
    assert_says(fixture, "is partial");
    struct traced traced = read_traced(fixture);
    g_assert_cmpuint(traced.activity->kernel_count, ==, 2 * TRAINED_KERNELS);
    g_assert_cmpuint(traced.activity->unfinished, ==, 1);
    free_traced(&traced);
    assert_checked(fixture, "1 records of what had not ended");
}

/* The complete iterations are there. */
static void test_ends(struct fixture *fixture, gconstpointer data)
{
    static const struct {
        const char *action;
        int signal, status;
    } ends[] = {{"kill", SIGKILL, 0},
                {"term", SIGTERM, 0},
                {"_exit", 0, 8},
                {"exit", 0, 9},
                {"leave", 0, 1}};
    (void)data;
    for (size_t i = 0; i < G_N_ELEMENTS(ends); i++) {
        collect(fixture, "--iterations 1:5 -- %s ranges 6 %s 3", TRACED_TRAINED, ends[i].action);
        if (ends[i].signal != 0)
            g_assert_true(WIFSIGNALED(fixture->status) &&
                          WTERMSIG(fixture->status) == ends[i].signal);
        else
            assert_exit(fixture, ends[i].status);
        bool partial = false;
        g_assert_true(trace_is_partial(fixture->path, &partial, NULL));
        g_assert_true(partial);
        struct traced traced = read_traced(fixture);
        g_assert_cmpuint(count_kernels(&traced, "adamw"), ==, 2 * TRAINED_LAYERS);
        g_assert_cmpuint(traced.activity->kernel_count, >=, 2 * TRAINED_KERNELS);
        free_traced(&traced);
        assert_checked(fixture, "the end: the traced run ended within the recorded window");
    }
}

static void test_fork(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    /* The collector's thread does not exist in the child, so its memory looks leaked. */
    g_setenv("ASAN_OPTIONS", "detect_leaks=0", TRUE);
    collect(fixture, "-- %s ranges 4 fork 1", TRACED_TRAINED);
    g_unsetenv("ASAN_OPTIONS");
    assert_exit(fixture, 0);
    g_assert_cmpstr(fixture->errors, ==, "");
    struct traced traced = read_traced(fixture);
    g_assert_cmpuint(traced.activity->kernel_count, ==, TRAINED_KERNELS);
    g_assert_cmpuint(count_kernels(&traced, "of_the_child"), ==, 0);
    free_traced(&traced);
    assert_checked(fixture, "kernels");
}

static void test_dropped(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "-- %s ranges 4", TRACED_TRAINED);
    assert_exit(fixture, 0);
    struct traced traced = read_traced(fixture);
    g_assert_cmpuint(traced.activity->kernel_count, <, TRAINED_KERNELS);
    g_assert_cmpuint(traced.activity->dropped, >, 0);
    free_traced(&traced);
    assert_checked(fixture, "records of what the device did: the profiler had no room");
}

/* The program goes on unchanged. The reason is printed once, and the trace has it together with the
 * ranges. */
static void test_refused(struct fixture *fixture, gconstpointer data)
{
    static const struct {
        const char *fake, *says;
    } cases[] = {
        {"busy", "CUPTI for the other tool uses CUPTI in this program, and only one tool"},
        {"no-version", "(CUPTI error 999)"},
        {"odd-records", "libcupti's records of kernels have 512 bytes"},
        {"cannot-copy", "cuptiActivityEnable: FAKE_ERROR_"},
    };
    (void)data;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_setenv("FAKE", cases[i].fake, TRUE);
        collect(fixture, "-- %s ranges 4", TRACED_TRAINED);
        assert_exit(fixture, 0);
        g_assert_cmpstr(fixture->output, ==, "trained\n");
        g_assert_cmpint(count_lines(fixture->errors), ==, 1);
        assert_says(fixture, "what the device does is not recorded: ");
        assert_says(fixture, cases[i].says);
        struct traced traced = read_traced(fixture);
        g_assert_cmpuint(traced.activity->kernel_count, ==, 0);
        g_assert_cmpuint(traced.records->event_count, >, 3);
        free_traced(&traced);
        assert_checked(fixture, cases[i].says);
    }
}

/* Limits file sizes, as a full disk would: writes fail, and would kill a program that makes them
 * itself. */
static void limit_files(void *unused)
{
    const struct rlimit limit = {160 << 10, 160 << 10};
    (void)unused;
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_DFL);
}

static void test_disk_is_full(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    fixture->before_exec = limit_files;
    collect(fixture, "--iterations 0:50 -- %s ranges 50", TRACED_TRAINED);
    assert_exit(fixture, 1);
    g_assert_cmpstr(fixture->output, ==, "trained\n");
    assert_says(fixture, "the program goes on untraced");
    bool partial = false;
    g_assert_true(trace_is_partial(fixture->path, &partial, NULL));
    g_assert_true(partial);
    fixture->before_exec = NULL;
    assert_checked(fixture, "the end");
}

static void test_no_library(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    g_autofree char *only_driver = g_build_filename(fixture->folder, "libcuda.so.1", NULL);
    g_assert_cmpint(symlink(FAKES "/libcuda.so.1", only_driver), ==, 0);
    g_setenv("LD_LIBRARY_PATH", fixture->folder, TRUE);
    /* A real CUPTI is found if the toolkit is there; it does nothing without a real driver. */
    collect(fixture, "-- %s ranges 4", TRACED_TRAINED);
    assert_exit(fixture, 0);
    g_assert_cmpstr(fixture->output, ==, "trained\n");
    assert_says(fixture, "what the device does is not recorded: ");
    g_assert_cmpint(count_lines(fixture->errors), ==, 1);
    g_unlink(only_driver);
}

#define ADD(name, function, fake) \
    g_test_add(name, struct fixture, fake, set_up_fakes, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/device/forgetful", test_forgetful, "forgetful");
    ADD("/device/flushed", test_flushed, NULL);
    ADD("/device/kernel-at-end", test_kernel_at_end, NULL);
    ADD("/device/kernel-at-end/not-told", test_kernel_at_end, "no-sync");
    ADD("/device/kernel-at-exit", test_kernel_at_exit, NULL);
    ADD("/device/ends", test_ends, NULL);
    ADD("/device/fork", test_fork, NULL);
    ADD("/device/dropped", test_dropped, "drop");
    ADD("/device/refused", test_refused, NULL);
    ADD("/device/disk-is-full", test_disk_is_full, NULL);
    ADD("/device/no-library", test_no_library, NULL);
    return g_test_run();
}
