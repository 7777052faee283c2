/* Fits of copies: exact where the points are, honest where they are not. */
#include "sim/costs.h"

#include <math.h>

static struct fit fit_of(struct platform_point *points, uint32_t count)
{
    const struct platform_curve curve = {points, count, NULL};
    return fit_copies(&curve);
}

static void test_exact_line(void)
{
    struct platform_point points[5];
    for (int i = 0; i < 5; i++) {
        points[i].amount = 65536.0 * (1 << (2 * i));
        points[i].seconds = 20e-6 + points[i].amount / 5e9;
    }
    struct fit fit = fit_of(points, 5);
    g_assert_cmpuint(fit.points, ==, 5);
    g_assert_cmpfloat_with_epsilon(fit.latency, 20e-6, 1e-12);
    g_assert_cmpfloat_with_epsilon(fit.rate, 5e9, 1);
    g_assert_cmpfloat(fit.worst_error, <, 1e-9);
    g_assert_cmpfloat(fit.rate_interval.high - fit.rate_interval.low, <, 10);
    g_assert_cmpfloat_with_epsilon(fit_seconds(&fit, 1e9), 20e-6 + 0.2, 1e-9);
}

/* Points 10 % off, above and below in turn: the line lies between, and the interval says so. */
static void test_scattered(void)
{
    struct platform_point points[8];
    for (int i = 0; i < 8; i++) {
        points[i].amount = 1e6 * (i + 1);
        points[i].seconds = points[i].amount / 1e9 * (i % 2 ? 1.1 : 0.9);
    }
    struct fit fit = fit_of(points, 8);
    g_assert_cmpfloat(fit.mean_error, >, 0.05);
    g_assert_cmpfloat(fit.worst_error, <, 0.2);
    g_assert_cmpfloat(fit.rate_interval.low, <, 1e9);
    g_assert_cmpfloat(fit.rate_interval.high, >, 1e9);
    struct fit again = fit_of(points, 8); /* one seed: the same interval */
    g_assert_cmpfloat(again.rate_interval.low, ==, fit.rate_interval.low);
}

static void test_latency_is_not_negative(void)
{
    struct platform_point points[] = {{1e6, 0.5e-3}, {2e6, 1.5e-3}, {4e6, 3.5e-3}};
    struct fit fit = fit_of(points, 3);
    g_assert_cmpfloat(fit.latency, ==, 0);
    g_assert_cmpfloat(fit.rate, >, 0);
    g_assert_cmpfloat(fit.worst_error, >, 0.1);
}

static void test_too_few(void)
{
    struct platform_point points[] = {{1e6, 1e-3}, {2e6, 2e-3}};
    g_assert_cmpuint(fit_of(points, 2).points, ==, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/fit/exact_line", test_exact_line);
    g_test_add_func("/fit/scattered", test_scattered);
    g_test_add_func("/fit/latency_is_not_negative", test_latency_is_not_negative);
    g_test_add_func("/fit/too_few", test_too_few);
    return g_test_run();
}
