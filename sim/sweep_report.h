/* A sweep as a table for people, as JSON and as CSV: the same rows, the same names. */
#ifndef PSTAR_SIM_SWEEP_REPORT_H
#define PSTAR_SIM_SWEEP_REPORT_H

#include "sim/sweep.h"

#include <stdio.h>

/* Prints the rows that are done in one block per budget, the best first and marked. Rows that do
 * not fit come last, with the least device memory that would fit. */
void sweep_print(const struct sweep *sweep, FILE *out);

/* Writes the JSON of docs/formats.md, "Sweep JSON". `trace_path` is how the trace was named,
 * `costs` what the sweep was replayed with. */
bool sweep_write_json(const struct sweep *sweep, const struct trace *trace, const char *trace_path,
                      const struct costs *costs, const char *path, GError **error);

/* Writes a header line with the names of the JSON, then one line for each row that is done. */
bool sweep_write_csv(const struct sweep *sweep, const char *path, GError **error);

#endif
