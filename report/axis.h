/* Units of axes: one that keeps the figures short. */
#ifndef PSTAR_REPORT_AXIS_H
#define PSTAR_REPORT_AXIS_H

#include <glib.h>

struct axis_unit {
    const char *name; /* "GiB", "ms" */
    double size;      /* in bytes, in seconds */
};

/* For values up to `greatest`, in bytes and in seconds. */
struct axis_unit axis_bytes(double greatest);
struct axis_unit axis_seconds(double greatest);

/* Appends numbers to gnuplot data or scripts with all their digits and a point in any locale; NAN
 * as "NaN", which gnuplot leaves out. */
void axis_append(GString *text, double value);

/* Appends "NAME = VALUE" as a line; a real number even where it is whole, because gnuplot divides
 * integers as C does. */
void axis_append_variable(GString *script, const char *name, double value);

/* Appends "set xtics (...)" with the chunk sizes (uint64_t, ascending) as labels, so many of them
 * at most; the last is always one. */
void axis_append_size_tics(GString *script, const GArray *sizes, guint most);

#endif
