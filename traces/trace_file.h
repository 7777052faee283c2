/* The trace file, *.pstar, is an SQLite database. docs/formats.md describes its schema. */
#ifndef PSTAR_TRACES_TRACE_FILE_H
#define PSTAR_TRACES_TRACE_FILE_H

#include "traces/trace.h"

/* A file has the lowest version that can express its trace, so that older programs read most files:
 * TRACE_SCHEMA_PARTIAL if lists lack tensors, TRACE_SCHEMA_CUT with state blocks, or
 * TRACE_SCHEMA_PLAIN. Files of version 1, which know one rank, are read, too. */
enum {
    TRACE_SCHEMA_PLAIN = 2,
    TRACE_SCHEMA_CUT,
    TRACE_SCHEMA_PARTIAL,
    TRACE_SCHEMA_VERSION = TRACE_SCHEMA_PARTIAL
};

/* Reads and checks a trace. Errors (TRACE_ERROR) name the file, the table and the row. Free with
 * trace_free. */
struct trace *trace_read(const char *path, GError **error);

/* Reads a trace for replaying or planning. Refuses a stage of a pipeline (TRACE_ERROR_INVALID),
 * which would have to be replayed together with the others. */
struct trace *trace_read_whole(const char *path, GError **error);

/* Sets *partial if the traced run ended within the window or could not write on. Reads nothing else
 * of the file. */
bool trace_is_partial(const char *path, bool *partial, GError **error);

/* Checks more than trace_read does, and takes longer: every page of the database, that the recorded
 * operator ranges (traces/records.h) belong to operators of the trace, and the device activity
 * (activity_verify in traces/activity/activity_file.h). */
bool trace_verify(const char *path, GError **error);

/* Writes a trace to a temporary file beside `path` and renames it when it is complete. So `path` is
 * either the old file or the whole new one. */
bool trace_write(const struct trace *trace, const char *path, GError **error);

#endif
