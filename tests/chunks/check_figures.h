/* Law 2 in a test: what was counted is what the plan says. */
#ifndef PSTAR_TESTS_CHECK_FIGURES_H
#define PSTAR_TESTS_CHECK_FIGURES_H

#include "chunks/plan.h"

/* Every count and peak; times are predicted, not known. */
static inline void check_figures(const struct plan_figures *seen,
                                 const struct plan_figures *predicted)
{
    g_assert_cmpuint(seen->h2d_bytes, ==, predicted->h2d_bytes);
    g_assert_cmpuint(seen->d2h_bytes, ==, predicted->d2h_bytes);
    g_assert_cmpuint(seen->h2d_copies, ==, predicted->h2d_copies);
    g_assert_cmpuint(seen->d2h_copies, ==, predicted->d2h_copies);
    g_assert_cmpuint(seen->evictions, ==, predicted->evictions);
    g_assert_cmpuint(seen->moves, ==, predicted->moves);
    g_assert_cmpuint(seen->moved_bytes, ==, predicted->moved_bytes);
    g_assert_cmpuint(seen->peak_device_bytes, ==, predicted->peak_device_bytes);
    g_assert_cmpuint(seen->peak_live_device_bytes, ==, predicted->peak_live_device_bytes);
    g_assert_cmpuint(seen->peak_host_bytes, ==, predicted->peak_host_bytes);
}

#endif
