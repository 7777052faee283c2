#include "engine/train/pace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct pace pace_new(void)
{
    return (struct pace){.seconds = g_array_new(FALSE, FALSE, sizeof(double)),
                         .stalls = g_array_new(FALSE, FALSE, sizeof(double))};
}

void pace_clear(struct pace *pace)
{
    g_clear_pointer(&pace->seconds, g_array_unref);
    g_clear_pointer(&pace->stalls, g_array_unref);
}

void pace_add(struct pace *pace, enum pace_work work, double elapsed)
{
    double *mean = &pace->mean[work];
    *mean = *mean > 0 ? 0.9 * *mean + 0.1 * elapsed : elapsed;
}

void pace_add_step(struct pace *pace, double seconds, double stall, double elapsed)
{
    if (pace->seconds->len == 1)
        pace->mean[PACE_STEP] = 0; /* the first step says little about the others */
    g_array_append_val(pace->seconds, seconds);
    g_array_append_val(pace->stalls, stall);
    pace_add(pace, PACE_STEP, elapsed);
}

double pace_left(const struct pace *pace, const struct pace_rest *rest)
{
    uint64_t passes = rest->evaluations * rest->passes - rest->passed;
    return (double)rest->steps * pace->mean[PACE_STEP] + (double)passes * pace->mean[PACE_PASS] +
           (double)rest->saves * pace->mean[PACE_SAVE];
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static double median_after_first(const GArray *values)
{
    guint first = values->len > 1 ? 1 : 0, count = values->len - first;
    if (count == 0)
        return NAN;
    g_autofree double *sorted = g_new(double, count);
    memcpy(sorted, &g_array_index(values, double, first), count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

double pace_median_seconds(const struct pace *pace)
{
    return median_after_first(pace->seconds);
}

double pace_median_stall(const struct pace *pace)
{
    return median_after_first(pace->stalls);
}
