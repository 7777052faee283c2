/* What other tools have recorded, as traces. */
#ifndef PSTAR_TRACES_IMPORT_IMPORT_H
#define PSTAR_TRACES_IMPORT_IMPORT_H

#include "traces/records.h"

/* Each reads the file `from` and writes the trace `to`, in place of what was there. Adds to
 * `unknown` (char *) what the trace cannot tell because the file does not; the trace says the same.
 * Without an iteration the trace holds what was recorded alone. Fails with TRACE_ERROR, and writes
 * nothing then. */
typedef bool importer(const char *from, const char *to, GPtrArray *unknown, GError **error);

/* JSON of PyTorch's profiler (Kineto), gzipped or not. */
importer import_kineto;

/* A Chakra execution trace in JSON, as PyTorch's observer writes it, gzipped or not. */
importer import_chakra;

/* The same, with the times and what the device did from `times`, the profiler's JSON of the same
 * run. */
bool import_chakra_timed(const char *from, const char *times, const char *to, GPtrArray *unknown,
                         GError **error);

/* An SQLite export of Nsight Systems. */
importer import_nsys;

/* Writes the trace of an import: an iteration (or NULL) and what was recorded. */
bool import_write(const char *from, const char *to, const struct trace *trace,
                  const struct records *records, const GPtrArray *unknown, GError **error);

/* Completes the trace of the import of `from` that was written to `path`, verifies it
 * (traces/trace_file.h), and moves it to `to`. */
bool import_publish(const char *from, const char *path, const char *to, const GPtrArray *unknown,
                    GError **error);

/* Takes `fault`, and says it of the import's source: what is wrong in the trace at `path` is wrong
 * there. But where that could not be read or written. */
void import_blame(const char *from, const char *path, GError *fault, GError **error);

#endif
