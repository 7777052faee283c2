/* Runs pstar-collect on programs that do unusual things. The programs go on unchanged, to the byte
 * and the exit status, and the trace is whole, marked partial, or missing with a reason. */
#include "tests/collect/process.h"
#include "traces/records.h"
#include "traces/trace_file.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/wait.h>

enum { STEPS = 40, OWN_FILES = 8, ENDS = 20, RUNS = 10 };

static void assert_partial(const struct fixture *fixture, bool expected)
{
    bool partial = !expected;
    GError *error = NULL;
    g_assert_true(trace_verify(fixture->path, &error));
    g_assert_true(trace_is_partial(fixture->path, &partial, &error));
    g_assert_no_error(error);
    g_assert_cmpint(partial, ==, expected);
}

static uint32_t count_ranges(const struct fixture *fixture, const char *text)
{
    struct records *records = records_read(fixture->path, NULL);
    uint32_t count = 0;
    for (uint32_t i = 0; i < records->event_count; i++)
        count += strcmp(records_text(records, records->events[i].text), text) == 0;
    records_free(records);
    return count;
}

/* The program closes the trace's descriptor; files that it writes later contain only its own data.
 */
static void test_closes(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    /* SQLite's memory is not freed, because that would close a file of the program. */
    g_setenv("ASAN_OPTIONS", "detect_leaks=0", TRUE);
    collect(fixture, "--iterations 0:%d -- %s closes", STEPS, TRACED_UNRULY);
    g_unsetenv("ASAN_OPTIONS");
    assert_exit(fixture, 1);
    g_assert_cmpstr(fixture->output, ==, "done\n");
    assert_says(fixture, "the program has closed the file: the program goes on untraced");
    assert_partial(fixture, true);
    g_assert_cmpuint(count_ranges(fixture, "within"), ==, STEPS / 2);
    for (int i = 0; i < OWN_FILES; i++) {
        g_autofree char *name = g_strdup_printf("%s/own-%d", fixture->folder, i);
        g_autofree char *text = NULL;
        g_assert_true(g_file_get_contents(name, &text, NULL, NULL));
        g_assert_cmpstr(text, ==, "mine");
        g_unlink(name);
    }
}

/* Removes files that were unfinished when the program ended. */
static void remove_unfinished(const struct fixture *fixture)
{
    g_autoptr(GDir) folder = g_dir_open(fixture->folder, 0, NULL);
    const char *name;
    while ((name = g_dir_read_name(folder))) {
        g_autofree char *path = g_build_filename(fixture->folder, name, NULL);
        g_unlink(path);
    }
}

/* The signal handler may run anywhere, also within the collector. */
static void test_handler(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    /* The leak check would wait for an allocation that the handler has interrupted. */
    g_setenv("ASAN_OPTIONS", "detect_leaks=0", TRUE);
    for (int i = 0; i < ENDS; i++) {
        collect(fixture, "--iterations 0:100000000 -- %s handler", TRACED_UNRULY);
        assert_exit(fixture, 3);
        if (g_file_test(fixture->path, G_FILE_TEST_EXISTS))
            assert_partial(fixture, true);
        remove_unfinished(fixture);
    }
    g_unsetenv("ASAN_OPTIONS");
}

static void test_goes_on(struct fixture *fixture, gconstpointer how)
{
    collect(fixture, "--iterations 0:%d -- %s %s", STEPS, TRACED_UNRULY, (const char *)how);
    assert_exit(fixture, 0);
    g_assert_cmpstr(fixture->output, ==, "done\n");
    g_assert_cmpstr(fixture->errors, ==, "");
    assert_partial(fixture, false);
    g_assert_cmpuint(count_ranges(fixture, "within"), ==, STEPS);
}

/* Nobody reads the reason; the program must not get SIGPIPE for it. */
static void test_no_reader(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "--iterations 0:%d -- sh -c 'ulimit -f 8; %s broken; echo $?'", STEPS,
            TRACED_UNRULY);
    g_assert_cmpstr(fixture->output, ==, "done\n0\n");
}

/* Two processes begin at the same time: one writes the file, the other says why it does not. */
static void test_at_once(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    for (int i = 0; i < RUNS; i++) {
        collect(fixture, "--iterations 0:%d -- sh -c '%s & %s & %s & wait'", STEPS, TRACED_UNRULY,
                TRACED_UNRULY, TRACED_UNRULY);
        assert_exit(fixture, 0);
        g_assert_cmpstr(fixture->output, ==, "done\ndone\ndone\n");
        g_assert_cmpint(count_lines(fixture->errors), ==, 2);
        assert_says(fixture, "another process of this run has written this file");
        assert_partial(fixture, false);
        g_assert_cmpuint(count_ranges(fixture, "within"), ==, STEPS);
    }
}

#ifdef TRACED_STATIC
/* Libraries loaded by such a program have no thread-local storage. */
static void test_static(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "--iterations 0:%d -- sh -c '%s; echo $?'", STEPS, TRACED_STATIC);
    g_assert_cmpstr(fixture->output, ==, "done\n0\n");
    assert_says(fixture, "linked statically");
    g_assert_false(g_file_test(fixture->path, G_FILE_TEST_EXISTS));
}
#endif

#define ADD(name, function, how) g_test_add(name, struct fixture, how, set_up, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/unruly/closes", test_closes, NULL);
    ADD("/unruly/handler", test_handler, NULL);
    ADD("/unruly/errno", test_goes_on, "errno");
    ADD("/unruly/cancels", test_goes_on, "cancels");
    ADD("/unruly/no-reader", test_no_reader, NULL);
    ADD("/unruly/at-once", test_at_once, NULL);
#ifdef TRACED_STATIC
    ADD("/unruly/static", test_static, NULL);
#endif
    return g_test_run();
}
