/* The trace that a plan was made from, read from its file. */
#ifndef PSTAR_PLANNER_ANSWERS_RECORDED_H
#define PSTAR_PLANNER_ANSWERS_RECORDED_H

#include "chunks/plan.h"
#include "sim/costs.h"

struct platform;

/* Reads a trace for a plan. If the plan is one of several ranks, the result is the trace of one of
 * them that its search began with, as pstar-sim derives it. `platform` (may be NULL) and `costs`
 * know how the ranks are spread (certificate_platform). Updates follow backward. The caller frees
 * the result with trace_free. */
struct trace *recorded_read(const struct plan *plan, const char *path,
                            const struct platform *platform, const struct costs *costs,
                            GError **error);

#endif
