#include "planner/pace.h"

#include <glib.h>
#include <math.h>

struct pace *pace_new(uint64_t *issue_ns, uint32_t moment_count, double seconds)
{
    struct pace *pace = g_new(struct pace, 1);
    uint64_t begin = issue_ns[0];

    *pace = (struct pace){issue_ns, moment_count, (uint64_t)fmax(1, seconds * 1e9)};
    /* Where times have not settled, the last moments may come later than the period has it. */
    for (uint32_t m = 0; m < moment_count; m++)
        issue_ns[m] = MIN(issue_ns[m] - begin, pace->period_ns);
    return pace;
}

struct pace *pace_copy(const struct pace *pace)
{
    struct pace *copy = g_memdup2(pace, sizeof *pace);
    copy->issue_ns = g_memdup2(pace->issue_ns, pace->moment_count * sizeof *pace->issue_ns);
    return copy;
}

void pace_free(struct pace *pace)
{
    if (pace)
        g_free(pace->issue_ns);
    g_free(pace);
}

int64_t pace_ns(const struct pace *pace, int32_t moment)
{
    int32_t n = (int32_t)pace->moment_count;
    int32_t cycle = (moment + PACE_CYCLES * n) / n - PACE_CYCLES;

    return (int64_t)pace->issue_ns[moment - cycle * n] + cycle * (int64_t)pace->period_ns;
}

int32_t pace_moment(const struct pace *pace, int64_t ns)
{
    int64_t period = (int64_t)pace->period_ns;
    int64_t cycle = (ns + PACE_CYCLES * period) / period - PACE_CYCLES;
    uint32_t low = 0, high = pace->moment_count;

    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if ((int64_t)pace->issue_ns[middle] <= ns - cycle * period)
            low = middle;
        else
            high = middle;
    }
    return (int32_t)(low + cycle * pace->moment_count);
}
