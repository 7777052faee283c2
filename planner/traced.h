/* From the trace of a recorded run to the one of the run that a plan is for. */
#ifndef PSTAR_PLANNER_TRACED_H
#define PSTAR_PLANNER_TRACED_H

#include "chunks/plan.h"

/* The trace with the layers computed again that the plan has (models/derive.h), updates where they
 * were traced: a copy where these are the trace's own, or the plan says nothing of them or is of
 * another model. Fails (TRACE_ERROR_INVALID) where the trace is not of a model that other layers
 * can be derived for. The caller frees the result with trace_free. */
struct trace *traced_for_plan(const struct plan *plan, const struct trace *trace, GError **error);

#endif
