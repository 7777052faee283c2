/* Reads strips from files. */
#ifndef PSTAR_REPORT_STRIPS_FILE_H
#define PSTAR_REPORT_STRIPS_FILE_H

#include "report/strips.h"

#include <jansson.h>

/* Of what pstar-sim --timeline wrote: Chrome's trace events. NULL with REPORT_ERROR_INPUT, which
 * names the event, where something is wrong. */
struct strips *strips_of_timeline(const json_t *root, const char *origin, GError **error);

/* One iteration of what the trace at `path` has recorded, the one of median length: kernels and
 * copies where a profiler saw them, else the operators' ranges. *strips is NULL where it has
 * recorded neither. `trace` is its iteration; NULL: it has none. Errors as activity_read. */
bool strips_of_records(const char *path, const struct trace *trace, struct strips **strips,
                       GError **error);

/* Of a trace that has recorded no strips, but knows how long its operators take: one behind the
 * other. NULL: it does not know. */
struct strips *strips_of_operators(const char *path, const struct trace *trace);

#endif
