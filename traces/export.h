/* Traces for other tools. `trace` is NULL where the file holds no iteration. */
#ifndef PSTAR_TRACES_EXPORT_H
#define PSTAR_TRACES_EXPORT_H

#include "traces/records.h"
#include "traces/trace.h"

#include <stdio.h>

/* JSON lines: one object a line, of the kinds that docs/formats.md lists. Errors of writing are the
 * stream's, for the caller to ask. */
void export_json_lines(const struct trace *trace, const struct records *records, FILE *out);

/* Chrome trace events, which Perfetto and chrome://tracing open: the iteration with its operators
 * one after the other, a row a phase, and the non-model bytes; and beside it, each thread's
 * recorded ranges, as they were. */
void export_chrome(const struct trace *trace, const struct records *records, FILE *out);

#endif
