#include "sim/fit.h"

#include <gsl/gsl_fit.h>
#include <gsl/gsl_rng.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>

enum { LEAST_POINTS = 3, RESAMPLINGS = 1000 };

struct samples {
    double *bytes, *seconds, *weights; /* [count] */
    uint32_t count;
};

static struct samples samples_new(uint32_t count)
{
    return (struct samples){g_new(double, count), g_new(double, count), g_new(double, count),
                            count};
}

static void samples_clear(struct samples *samples)
{
    g_free(samples->bytes);
    g_free(samples->seconds);
    g_free(samples->weights);
}

static void set(struct samples *samples, uint32_t i, const struct platform_point *point)
{
    samples->bytes[i] = point->amount;
    samples->seconds[i] = point->seconds;
    samples->weights[i] = 1 / (point->seconds * point->seconds);
}

/* A line through the origin where the best one would have a negative latency. */
static void fit_line(const struct samples *s, double *latency, double *slope)
{
    double c00, c01, c11, chi;
    gsl_fit_wlinear(s->bytes, 1, s->weights, 1, s->seconds, 1, s->count, latency, slope, &c00, &c01,
                    &c11, &chi);
    if (!(*latency >= 0) || !(*slope > 0)) {
        *latency = 0;
        gsl_fit_wmul(s->bytes, 1, s->weights, 1, s->seconds, 1, s->count, slope, &c11, &chi);
    }
}

static bool all_equal(const struct samples *s)
{
    for (uint32_t i = 1; i < s->count; i++)
        if (s->bytes[i] != s->bytes[0])
            return false;
    return true;
}

static struct fit_interval interval_of(double *values)
{
    gsl_sort(values, 1, RESAMPLINGS);
    return (struct fit_interval){
        gsl_stats_quantile_from_sorted_data(values, 1, RESAMPLINGS, 0.025),
        gsl_stats_quantile_from_sorted_data(values, 1, RESAMPLINGS, 0.975)};
}

static void bootstrap(const struct platform_curve *curve, struct fit *fit)
{
    gsl_rng *random = gsl_rng_alloc(gsl_rng_taus);
    struct samples drawn = samples_new(curve->count);
    double *latencies = g_new(double, RESAMPLINGS), *rates = g_new(double, RESAMPLINGS);
    for (int r = 0; r < RESAMPLINGS; r++) {
        double slope;
        do
            for (uint32_t i = 0; i < curve->count; i++)
                set(&drawn, i, &curve->points[gsl_rng_uniform_int(random, curve->count)]);
        while (all_equal(&drawn));
        fit_line(&drawn, &latencies[r], &slope);
        rates[r] = 1 / slope;
    }
    fit->latency_interval = interval_of(latencies);
    fit->rate_interval = interval_of(rates);
    g_free(rates);
    g_free(latencies);
    samples_clear(&drawn);
    gsl_rng_free(random);
}

struct fit fit_copies(const struct platform_curve *curve)
{
    struct fit fit = {0};
    double slope;
    if (curve->count < LEAST_POINTS)
        return fit;
    struct samples samples = samples_new(curve->count);
    for (uint32_t i = 0; i < curve->count; i++)
        set(&samples, i, &curve->points[i]);
    fit_line(&samples, &fit.latency, &slope);
    samples_clear(&samples);
    fit.points = curve->count;
    fit.rate = 1 / slope;
    for (uint32_t i = 0; i < curve->count; i++) {
        const struct platform_point *point = &curve->points[i];
        double error = fabs(fit_seconds(&fit, point->amount) / point->seconds - 1);
        fit.mean_error += error / curve->count;
        fit.worst_error = fmax(fit.worst_error, error);
    }
    bootstrap(curve, &fit);
    return fit;
}

double fit_seconds(const struct fit *fit, double bytes)
{
    return fit->latency + bytes / fit->rate;
}
