/* The meta table of a trace file. */
#ifndef PSTAR_TRACES_TRACE_LOAD_META_H
#define PSTAR_TRACES_TRACE_LOAD_META_H

#include "traces/database.h"
#include "traces/trace.h"

/* Fills the meta of `trace`; on error (missing, of another type, out of range) a part of it. */
bool trace_load_meta(const struct database *database, struct trace *trace, GError **error);

#endif
