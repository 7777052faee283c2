/* The median of a run's steps, and the estimate of the rest. */
#include "engine/train/pace.h"

#include <math.h>

static void test_median(void)
{
    static const double seconds[] = {9, 2, 1, 4, 3};
    static const double medians[] = {9, 2, 1.5, 2, 2.5};
    struct pace pace = pace_new();
    g_assert_true(isnan(pace_median_seconds(&pace)));
    for (size_t i = 0; i < G_N_ELEMENTS(seconds); i++) {
        pace_add_step(&pace, seconds[i], seconds[i] / 10, seconds[i]);
        g_assert_cmpfloat(pace_median_seconds(&pace), ==, medians[i]);
        g_assert_cmpfloat_with_epsilon(pace_median_stall(&pace), medians[i] / 10, 1e-12);
    }
    pace_clear(&pace);
}

static void test_left(void)
{
    struct pace pace = pace_new();
    pace_add_step(&pace, 60, 0, 60);
    for (int i = 0; i < 5; i++)
        pace_add_step(&pace, 2, 0, 3);
    pace_add(&pace, PACE_PASS, 0.5);
    pace_add(&pace, PACE_SAVE, 7);
    struct pace_rest rest = {.steps = 100, .evaluations = 4, .saves = 2, .passes = 20};
    g_assert_cmpfloat_with_epsilon(pace_left(&pace, &rest), 100 * 3 + 4 * 10 + 2 * 7, 1e-9);
    rest.passed = 19; /* of the first of them */
    g_assert_cmpfloat_with_epsilon(pace_left(&pace, &rest), 100 * 3 + 3 * 10 + 0.5 + 2 * 7, 1e-9);
    const struct pace_rest last = {.evaluations = 1, .passes = 20, .passed = 18};
    g_assert_cmpfloat_with_epsilon(pace_left(&pace, &last), 1, 1e-9);
    pace_clear(&pace);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pace/median", test_median);
    g_test_add_func("/pace/left", test_left);
    return g_test_run();
}
