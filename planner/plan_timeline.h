/* When everything of a plan runs, as the simulator predicts it. */
#ifndef PSTAR_PLANNER_PLAN_TIMELINE_H
#define PSTAR_PLANNER_PLAN_TIMELINE_H

#include "chunks/plan.h"
#include "sim/costs.h"

/* Writes the timeline of sim/timeline.h. `trace` is the one that the plan has passed plan_check
 * against. */
bool plan_timeline_write(const struct plan *plan, const struct trace *trace,
                         const struct costs *costs, const char *path, GError **error);

#endif
