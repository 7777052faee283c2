/* What is known of stretches of moments, against walks over them. */
#include "planner/schedule/peaks.h"
#include "planner/schedule/slack.h"
#include "tests/chunks/random_iteration.h"

enum { CASES = 200, STEPS = 60, MOMENTS_MOST = 90 };

static uint64_t walk_peak(const uint64_t *amount, uint32_t moments, uint32_t begin, uint32_t length)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < length; i++)
        most = MAX(most, amount[(begin + i) % moments]);
    return most;
}

static void test_peaks(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());

    for (int i = 0; i < CASES; i++) {
        uint32_t moments = (uint32_t)g_rand_int_range(random, 1, MOMENTS_MOST);
        g_autofree uint64_t *amount = g_new(uint64_t, moments);
        for (uint32_t m = 0; m < moments; m++)
            amount[m] = g_rand_int(random);
        struct peaks *peaks = peaks_new(amount, moments);
        for (uint32_t begin = 0; begin < moments; begin++)
            for (uint32_t length = 0; length <= moments + 1; length++)
                g_assert_cmpuint(peaks_over(peaks, begin, length), ==,
                                 walk_peak(amount, moments, begin, length));
        peaks_free(peaks);
    }
}

/* The first moment of the stretch with less than `bytes`, or its end. */
static uint32_t walk_headroom(const int64_t *left, uint32_t begin, uint32_t end, int64_t bytes)
{
    while (begin < end && left[begin] >= bytes)
        begin++;
    return begin;
}

static void check_headroom(const struct headroom *headroom, const int64_t *left, uint32_t moments,
                           GRand *random)
{
    for (uint32_t m = 0; m < moments; m++)
        g_assert_cmpint(headroom_at(headroom, m), ==, left[m]);
    for (int i = 0; i < STEPS; i++) {
        uint32_t begin = (uint32_t)g_rand_int_range(random, 0, (gint32)moments);
        uint32_t end = (uint32_t)g_rand_int_range(random, (gint32)begin, (gint32)moments + 1);
        int64_t bytes = g_rand_int_range(random, -500, 500);
        g_assert_cmpuint(headroom_first_below(headroom, begin, end, bytes), ==,
                         walk_headroom(left, begin, end, bytes));
    }
}

static void test_headroom(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());

    for (int i = 0; i < CASES; i++) {
        uint32_t moments = (uint32_t)g_rand_int_range(random, 1, MOMENTS_MOST);
        g_autofree int64_t *left = g_new(int64_t, moments), *room = g_new(int64_t, moments);
        for (uint32_t m = 0; m < moments; m++)
            room[m] = left[m] = g_rand_int_range(random, -100, 300);
        struct headroom *headroom = headroom_new(room, moments);
        for (int step = 0; step < STEPS; step++) {
            uint32_t begin = (uint32_t)g_rand_int_range(random, 0, (gint32)moments);
            uint32_t end = (uint32_t)g_rand_int_range(random, (gint32)begin, (gint32)moments + 1);
            int64_t bytes = g_rand_int_range(random, -100, 100);
            headroom_take(headroom, begin, end, bytes);
            for (uint32_t m = begin; m < end; m++)
                left[m] -= bytes;
            check_headroom(headroom, left, moments, random);
        }
        headroom_reset(headroom, room);
        check_headroom(headroom, room, moments, random);
        headroom_free(headroom);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/planner/stretches/peaks", test_peaks);
    g_test_add_func("/planner/stretches/slack", test_headroom);
    return g_test_run();
}
