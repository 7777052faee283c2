/* A sweep as a table for people, as JSON and as CSV: the same rows, the same names. */
#ifndef PSTAR_SIM_SWEEP_REPORT_H
#define PSTAR_SIM_SWEEP_REPORT_H

#include "sim/sweep.h"

#include <stdio.h>

#define SWEEP_ALL UINT32_MAX

/* Prints the best `top` rows that are done in one block per budget, the best first and marked. One
 * line each names the policies and strategies that have no such row, with the figure of their best,
 * and says how many rows do not fit, and why. With SWEEP_ALL their rows come last, each with the
 * least device memory that would fit. Rows whose policy failed are always printed. */
void sweep_print(const struct sweep *sweep, uint32_t top, FILE *out);

/* Writes the JSON of docs/formats.md, "Sweep JSON". `trace_path` is how the trace was named,
 * `platform_path` how the platform was (may be NULL), `costs` what the sweep was replayed with. */
bool sweep_write_json(const struct sweep *sweep, const struct trace *trace, const char *trace_path,
                      const char *platform_path, const struct costs *costs, const char *path,
                      GError **error);

/* Writes a header line with the names of the JSON, then one line for each row that is done. */
bool sweep_write_csv(const struct sweep *sweep, const char *path, GError **error);

#endif
