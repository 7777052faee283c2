#include "engine/probe/probe_measure.h"

#include <stdlib.h>
#include <time.h>

enum { LEAST_RUNS = 5, MOST_RUNS = 200 };
#define LEAST_SECONDS 0.1

double probe_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double probe_median(double *values, uint32_t count)
{
    g_assert(count > 0);
    qsort(values, count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double probe_seconds(probe_work *work, void *data)
{
    double taken[MOST_RUNS], begin;
    uint32_t runs = 0;
    work(data);
    begin = probe_now();
    do {
        double start = probe_now();
        work(data);
        taken[runs++] = probe_now() - start;
    } while (runs < LEAST_RUNS || (runs < MOST_RUNS && probe_now() - begin < LEAST_SECONDS));
    return probe_median(taken, runs);
}

void probe_add(struct platform_curve *curve, double amount, double seconds)
{
    g_assert(curve->count == 0 || curve->points[curve->count - 1].amount < amount);
    curve->points = g_renew(struct platform_point, curve->points, curve->count + 1);
    curve->points[curve->count++] = (struct platform_point){amount, seconds};
}

void probe_source(struct platform_curve *curve, char *source)
{
    g_free(curve->source);
    curve->source = source;
}
