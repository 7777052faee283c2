/* The trace file, *.pstar: an SQLite database. Its schema is in docs/formats.md. */
#ifndef PSTAR_TRACES_TRACE_FILE_H
#define PSTAR_TRACES_TRACE_FILE_H

#include "traces/trace.h"

#define TRACE_SCHEMA_VERSION 1

/* Reads and checks a trace. Errors (TRACE_ERROR) name the file, the table and the row. The caller
 * frees the result with trace_free. */
struct trace *trace_read(const char *path, GError **error);

/* Whether the traced run ended inside the window, or could not write on; reads no more of the file
 * than that. */
bool trace_is_partial(const char *path, bool *partial, GError **error);

/* Checks more than trace_read does, in more time: the database page by page, that the recorded
 * operator ranges (traces/records.h) are of operators that the trace has, and what the device did
 * (traces/activity/activity_verify.h). */
bool trace_verify(const char *path, GError **error);

/* Writes a whole trace: into a temporary file beside `path`, renamed when complete, so that `path`
 * is either the old file or the whole new one. */
bool trace_write(const struct trace *trace, const char *path, GError **error);

#endif
