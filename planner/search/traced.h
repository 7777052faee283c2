/* From the trace of a recorded run to the one of the run that a plan is for. */
#ifndef PSTAR_PLANNER_SEARCH_TRACED_H
#define PSTAR_PLANNER_SEARCH_TRACED_H

#include "chunks/plan.h"
#include "models/derive.h"

/* The trace with the plan's layers computed again and offloaded, its embedding where the plan has
 * it, backward once or twice as it has that, and its micro-batches (models/derive.h), updates where
 * they were traced: a copy where these are the trace's own, or the plan says nothing of them or is
 * of another model. Fails (TRACE_ERROR_INVALID) where the trace is not of a model that others can
 * be derived for, or was not synthesised for `platform` (may be NULL). The caller frees the result
 * with trace_free. */
struct trace *derived_for_plan(const struct plan *plan, const struct trace *trace,
                               const struct platform *platform, GError **error);

#endif
