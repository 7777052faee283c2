/* The phases of an iteration, shaded behind a figure whose x axis is time. */
#ifndef PSTAR_REPORT_PHASE_BANDS_H
#define PSTAR_REPORT_PHASE_BANDS_H

#include "report/strips.h"

/* Appends gnuplot's objects and labels for the phases (struct strip_phase); the script has set
 * `second`, the axis' unit. Names stand at the top of the graph, in phases that are wide enough,
 * and in the last one. */
void phase_bands_append(GString *drawing, const GArray *phases, double duration);

#endif
