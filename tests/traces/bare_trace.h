/* Traces to be filled in by hand. */
#ifndef PSTAR_TESTS_TRACES_BARE_TRACE_H
#define PSTAR_TESTS_TRACES_BARE_TRACE_H

#include "traces/trace.h"

/* Returns a trace of one tensor, with so many empty operators, an access for each, and room for as
 * many buffers. The caller frees it with trace_free. */
struct trace *bare_trace(uint32_t operators);

#endif
