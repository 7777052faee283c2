/* The learning rate at the places that define it. */
#include "engine/train/schedule.h"

#include <glib.h>
#include <math.h>

static void expect_rate(const struct schedule *schedule, uint64_t step, double rate)
{
    g_assert_cmpfloat_with_epsilon(schedule_learning_rate(schedule, step), rate, 1e-15);
}

static void test_warm_up_then_cosine(void)
{
    const struct schedule schedule = {.peak = 8e-4, .floor = 2e-4, .warm_up = 4, .steps = 12};
    expect_rate(&schedule, 0, 2e-4);
    expect_rate(&schedule, 1, 4e-4);
    expect_rate(&schedule, 3, 8e-4);
    expect_rate(&schedule, 4, 8e-4);
    expect_rate(&schedule, 6, 2e-4 + 6e-4 * (0.5 + 0.5 * sqrt(0.5)));
    expect_rate(&schedule, 8, 5e-4);
    expect_rate(&schedule, 12, 2e-4);
    expect_rate(&schedule, 1000000, 2e-4);
}

static void test_falls_steadily(void)
{
    const struct schedule schedule = {.peak = 1e-3, .floor = 0, .warm_up = 0, .steps = 1000};
    expect_rate(&schedule, 0, 1e-3);
    for (uint64_t step = 0; step < 1000; step++) {
        g_assert_cmpfloat(schedule_learning_rate(&schedule, step + 1), <,
                          schedule_learning_rate(&schedule, step));
    }
}

static void test_warm_up_alone(void)
{
    const struct schedule schedule = {.peak = 1e-3, .floor = 1e-3, .warm_up = 10, .steps = 10};
    expect_rate(&schedule, 9, 1e-3);
    expect_rate(&schedule, 10, 1e-3);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/schedule/warm-up-then-cosine", test_warm_up_then_cosine);
    g_test_add_func("/schedule/falls-steadily", test_falls_steadily);
    g_test_add_func("/schedule/warm-up-alone", test_warm_up_alone);
    return g_test_run();
}
