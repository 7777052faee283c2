/* Exports traces for other tools. `trace` is NULL if the file holds no iteration. */
#ifndef PSTAR_TRACES_EXPORT_H
#define PSTAR_TRACES_EXPORT_H

#include "traces/records.h"
#include "traces/trace.h"

#include <stdio.h>

/* Writes JSON lines, one object per line, of the kinds that docs/formats.md lists. The caller
 * checks the stream for errors. */
void export_json_lines(const struct trace *trace, const struct records *records, FILE *out);

/* Writes Chrome trace events, which Perfetto and chrome://tracing open. They show the iteration
 * with its operators in sequence, one row per phase, and the non-model bytes; beside it, the
 * recorded ranges of each thread as they were. */
void export_chrome(const struct trace *trace, const struct records *records, FILE *out);

#endif
