/* A sweep as a table for people, as JSON and as CSV: the same rows, the same names. */
#ifndef PSTAR_SIM_SWEEP_REPORT_H
#define PSTAR_SIM_SWEEP_REPORT_H

#include "sim/sweep.h"

#include <stdio.h>

/* The rows that are done, a block a budget, best first and marked. What does not fit comes last,
 * with the least device memory that would. */
void sweep_print(const struct sweep *sweep, FILE *out);

/* docs/formats.md, "Sweep JSON". `trace_path` is how the trace was named, `costs` what the sweep
 * was replayed with. */
bool sweep_write_json(const struct sweep *sweep, const struct trace *trace, const char *trace_path,
                      const struct costs *costs, const char *path, GError **error);

/* A header line of the JSON's names, then a line a row that is done. */
bool sweep_write_csv(const struct sweep *sweep, const char *path, GError **error);

#endif
