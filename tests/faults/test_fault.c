/* The switchboard: which events go wrong, and which texts it refuses. */
#include "base/fault.h"

static void expect_events(enum fault fault, const char *pattern)
{
    for (const char *at = pattern; *at; at++)
        g_assert_cmpint(fault_strikes(fault), ==, *at == 'x');
}

static void test_events(void)
{
    GError *error = NULL;
    g_assert_true(fault_set("copy:3,gradient:2+,heap:7,write:1+", &error));
    g_assert_no_error(error);
    expect_events(FAULT_COPY, "..x...");
    expect_events(FAULT_GRADIENT, ".xxxx");
    expect_events(FAULT_DEVICE_LOST, "....");
    g_assert_true(fault_set("copy:1", &error)); /* counts begin again */
    expect_events(FAULT_COPY, "x..");
    expect_events(FAULT_GRADIENT, "...");
    g_assert_true(fault_set(NULL, &error));
    expect_events(FAULT_COPY, "...");
}

static void test_refused(void)
{
    static const char *const texts[] = {"copy",    "copy:",
                                        "copy:0",  "copy:x",
                                        "copy:1x", "copy:1++",
                                        "none:1",  ",",
                                        "copy:1,", "copy:-1",
                                        "copy: 1", "COPY:1+",
                                        ":1",      "copy:99999999999999999999"};
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        GError *error = NULL;
        g_assert_false(fault_set(texts[i], &error));
        g_assert_error(error, FAULT_ERROR, FAULT_ERROR_SYNTAX);
        g_clear_error(&error);
        expect_events(FAULT_COPY, "...");
    }
}

enum { THREADS = 4, EVENTS = 10000 };

static void *count_strikes(void *data)
{
    int struck = 0;
    (void)data;
    for (int i = 0; i < EVENTS; i++)
        struck += fault_strikes(FAULT_COPY);
    return GINT_TO_POINTER(struck);
}

/* Whichever thread counts it, an event goes wrong once. */
static void test_threads(void)
{
    GThread *threads[THREADS];
    int struck = 0;
    g_assert_true(fault_set("copy:20000", NULL));
    for (int i = 0; i < THREADS; i++)
        threads[i] = g_thread_new("count", count_strikes, NULL);
    for (int i = 0; i < THREADS; i++)
        struck += GPOINTER_TO_INT(g_thread_join(threads[i]));
    g_assert_cmpint(struck, ==, 1);
    g_assert_true(fault_set(NULL, NULL));
}

/* Must be the first test: the first event reads the variable. */
static void test_environment(void)
{
    g_setenv(FAULT_VARIABLE, "slow-copy:2", TRUE);
    expect_events(FAULT_SLOW_COPY, ".x.");
    g_setenv(FAULT_VARIABLE, "slow-copy:1", TRUE);
    g_assert_true(fault_set_from_environment(NULL));
    expect_events(FAULT_SLOW_COPY, "x..");
    g_unsetenv(FAULT_VARIABLE);
    g_assert_true(fault_set_from_environment(NULL));
    expect_events(FAULT_SLOW_COPY, "...");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/fault/environment", test_environment);
    g_test_add_func("/fault/events", test_events);
    g_test_add_func("/fault/refused", test_refused);
    g_test_add_func("/fault/threads", test_threads);
    return g_test_run();
}
