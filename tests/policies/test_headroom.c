/* Headroom against a plain array, over random cyclic ranges. */
#include "policies/headroom.h"
#include "tests/policies/requests.h"

#include <glib.h>

enum { CASES = 200, STEPS = 60, MOMENTS_MOST = 90 };

/* Iterations that are long enough for groups of blocks. */
enum { LONG_CASES = 3, LONG_LEAST = 2049, LONG_MOST = 9000 };

struct range {
    uint32_t first, length;
};

static struct range random_range(GRand *random, uint32_t moments)
{
    return (struct range){(uint32_t)g_rand_int_range(random, 0, (gint32)moments),
                          (uint32_t)g_rand_int_range(random, 0, (gint32)moments + 1)};
}

static uint32_t first_below(const int64_t *left, uint32_t moments, struct range range,
                            int64_t bytes)
{
    for (uint32_t i = 0; i < range.length; i++)
        if (left[(range.first + i) % moments] < bytes)
            return (range.first + i) % moments;
    return NO_INDEX;
}

static int64_t least(const int64_t *left, uint32_t moments, struct range range)
{
    int64_t lowest = INT64_MAX;
    for (uint32_t i = 0; i < range.length; i++)
        lowest = MIN(lowest, left[(range.first + i) % moments]);
    return lowest;
}

static void check(const struct headroom *headroom, const int64_t *left, uint32_t moments,
                  GRand *random)
{
    for (uint32_t m = 0; m < moments; m++)
        g_assert_cmpint(headroom_at(headroom, m), ==, left[m]);
    for (int i = 0; i < STEPS; i++) {
        const struct range range = random_range(random, moments);
        int64_t bytes = g_rand_int_range(random, -500, 500);
        g_assert_cmpuint(headroom_first_below(headroom, range.first, range.length, bytes), ==,
                         first_below(left, moments, range, bytes));
        g_assert_cmpint(headroom_least(headroom, range.first, range.length), ==,
                        least(left, moments, range));
    }
}

static void check_updates(int cases, gint32 least_moments, gint32 most_moments)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(requests_seed());
    for (int i = 0; i < cases; i++) {
        uint32_t moments = (uint32_t)g_rand_int_range(random, least_moments, most_moments);
        g_autofree int64_t *left = g_new(int64_t, moments), *bytes = g_new(int64_t, moments);
        for (uint32_t m = 0; m < moments; m++)
            bytes[m] = left[m] = g_rand_int_range(random, -100, 300);
        struct headroom *headroom = headroom_new(bytes, moments);
        for (int step = 0; step < STEPS; step++) {
            const struct range range = random_range(random, moments);
            int64_t taken = g_rand_int_range(random, -100, 100);
            headroom_take(headroom, range.first, range.length, taken);
            for (uint32_t m = 0; m < range.length; m++)
                left[(range.first + m) % moments] -= taken;
            check(headroom, left, moments, random);
        }
        headroom_reset(headroom, bytes);
        check(headroom, bytes, moments, random);
        headroom_free(headroom);
    }
}

static void test_updates(void)
{
    check_updates(CASES, 1, MOMENTS_MOST);
}

static void test_long_iterations(void)
{
    check_updates(LONG_CASES, LONG_LEAST, LONG_MOST);
}

/* Every range of every size, wrapped or not, on unchanging values. */
static void test_ranges(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(requests_seed());
    for (int i = 0; i < CASES; i++) {
        uint32_t moments = (uint32_t)g_rand_int_range(random, 1, MOMENTS_MOST);
        g_autofree int64_t *bytes = g_new(int64_t, moments);
        for (uint32_t m = 0; m < moments; m++)
            bytes[m] = g_rand_int(random);
        struct headroom *headroom = headroom_new(bytes, moments);
        for (uint32_t first = 0; first < moments; first++)
            for (uint32_t length = 0; length <= moments; length++)
                g_assert_cmpint(headroom_least(headroom, first, length), ==,
                                least(bytes, moments, (struct range){first, length}));
        headroom_free(headroom);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/policies/headroom/updates", test_updates);
    g_test_add_func("/policies/headroom/long-iterations", test_long_iterations);
    g_test_add_func("/policies/headroom/ranges", test_ranges);
    return g_test_run();
}
