/* A trace's iteration, into a database that is being made. */
#ifndef PSTAR_TRACES_TRACE_STORE_H
#define PSTAR_TRACES_TRACE_STORE_H

#include "traces/database.h"
#include "traces/trace.h"

/* Creates and fills all tables but the records of a run. `trace` has passed trace_check. */
bool trace_store(const struct database *database, const struct trace *trace, GError **error);

/* The meta table and what `trace` has for it; a trace without an iteration has this table alone. */
bool trace_store_meta(const struct database *database, const struct trace *trace, GError **error);

#endif
