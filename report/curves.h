/* Levels and rates over a recorded step: what was allocated, and what counters said. */
#ifndef PSTAR_REPORT_CURVES_H
#define PSTAR_REPORT_CURVES_H

#include "traces/records.h"

#include <stdbool.h>

enum curve {
    CURVE_ALLOCATED,   /* device memory, by the program's allocations within the recording */
    CURVE_DEVICE_USED, /* the same by NVML: of all processes */
    CURVE_PINNED,      /* host memory */
    CURVE_MANAGED,
    CURVE_RESIDENT, /* of the process */
    CURVE_H2D,      /* over PCIe by NVML, bytes a second since the sample before */
    CURVE_D2H,
    CURVES
};

struct curve_point {
    double time; /* seconds from the step's begin */
    double value;
};

/* Appends the points of [begin_ns, end_ns) to curves [CURVES] (struct curve_point), and before them
 * the last one of before, at 0. Device 0 stands for all; what nobody recorded stays empty. */
void curves_find(const struct records *records, const struct activity *activity, uint64_t begin_ns,
                 uint64_t end_ns, GArray *const *curves);

/* The greatest value; 0: the curve is empty. */
double curve_most(const GArray *curve);

/* Appends gnuplot data, a block: seconds and the greatest value of each of `columns` equal parts of
 * the step, as steps. */
void curve_append_data(GString *data, const GArray *curve, double seconds, guint columns);

#endif
