/* The trace that a plan is executed over: the one it was made from, as its choices change it. */
#ifndef PSTAR_REPORT_PLAN_TRACE_H
#define PSTAR_REPORT_PLAN_TRACE_H

#include "chunks/plan.h"

/* `trace` with the layers computed again, and the updates on the host, that the plan chooses. NULL:
 * it cannot be had from this trace, or the result is not what the plan was made for. The caller
 * frees it with trace_free. */
struct trace *plan_trace_derive(const struct plan *plan, const struct trace *trace);

#endif
