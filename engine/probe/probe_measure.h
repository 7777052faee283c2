/* What every measurement of the probe does alike: repeat, take the median, note the point. */
#ifndef PSTAR_ENGINE_PROBE_PROBE_MEASURE_H
#define PSTAR_ENGINE_PROBE_PROBE_MEASURE_H

#include "platforms/platform.h"

/* Seconds of a clock that only goes forward. */
double probe_now(void);

typedef void probe_work(void *data);

/* The median of repeated runs after one that is not counted: at least 5, and until 0.1 s are
 * spent. */
double probe_seconds(probe_work *work, void *data);

double probe_median(double *values, uint32_t count); /* sorts them */

/* Appends a point; amounts ascend. */
void probe_add(struct platform_curve *curve, double amount, double seconds);
/* `curve` says how its points were had; takes `source`. */
void probe_source(struct platform_curve *curve, char *source);

#endif
