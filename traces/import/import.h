/* Imports recordings of other tools as traces. */
#ifndef PSTAR_TRACES_IMPORT_IMPORT_H
#define PSTAR_TRACES_IMPORT_IMPORT_H

#include "traces/records.h"

/* Reads the file `from` and writes the trace `to`, replacing an existing file. Appends to `unknown`
 * (char *) what the file does not tell; the trace holds the same lines. Without an iteration the
 * trace holds only records. Fails with TRACE_ERROR and writes nothing then. */
typedef bool importer(const char *from, const char *to, GPtrArray *unknown, GError **error);

/* Imports JSON of PyTorch's profiler (Kineto), gzipped or not. */
importer import_kineto;

/* Imports a Chakra execution trace in JSON, as PyTorch's observer writes it, gzipped or not. */
importer import_chakra;

/* Imports a Chakra execution trace with the times and the device activity of `times`, the
 * profiler's JSON of the same run. */
bool import_chakra_timed(const char *from, const char *times, const char *to, GPtrArray *unknown,
                         GError **error);

/* Imports an SQLite export of Nsight Systems. */
importer import_nsys;

/* Writes an imported trace: an iteration (may be NULL) and records. */
bool import_write(const char *from, const char *to, const struct trace *trace,
                  const struct records *records, const GPtrArray *unknown, GError **error);

/* Returns the name of a file beside `to` that is not there yet, for what becomes `to`. Free it with
 * g_free. */
char *import_temporary(const char *to);

/* Completes the imported trace at `path`, verifies it (traces/trace_file.h) and moves it to `to`.
 */
bool import_publish(const char *from, const char *path, const char *to, const GPtrArray *unknown,
                    GError **error);

/* Takes `fault`, an error in the trace at `path`, and reports it as an error of the imported file
 * `from`, or of the output `to` if the trace could not be written. */
void import_blame(const char *from, const char *path, const char *to, GError *fault,
                  GError **error);

#endif
