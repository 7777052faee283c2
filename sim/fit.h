/* Fits of measured copies: seconds = latency + bytes / rate. */
#ifndef PSTAR_SIM_FIT_H
#define PSTAR_SIM_FIT_H

#include "platforms/platform.h"

struct fit_interval {
    double low, high; /* 95 % of the resampled fits lie between */
};

struct fit {
    uint32_t points; /* 0: too few for a fit */
    double latency;  /* seconds, at least 0 */
    double rate;     /* bytes a second */
    struct fit_interval latency_interval, rate_interval;
    double mean_error, worst_error; /* relative, over the points */
};

/* Weighted least squares: the squares of relative errors, so that small copies count as much as
 * large ones. The intervals are of a bootstrap of 1,000 resamplings of the points, with a fixed
 * seed. Fewer than three points have no fit. */
struct fit fit_copies(const struct platform_curve *curve);

double fit_seconds(const struct fit *fit, double bytes);

#endif
