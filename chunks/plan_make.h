/* The parts of making a plan that do not depend on who decides what moves. */
#ifndef PSTAR_CHUNKS_PLAN_MAKE_H
#define PSTAR_CHUNKS_PLAN_MAKE_H

#include "chunks/homes.h"
#include "chunks/plan.h"

/* What the plan is for, its layout (copied) and its homes; no schedule yet, and no maker. The
 * accesses are the trace's, through the layout. */
struct plan *plan_describe(const struct trace *trace, const struct layout *layout,
                           const struct accesses *accesses, const struct homes *homes,
                           uint64_t device_budget, uint64_t host_budget);

/* Sets the predicted traffic and the host's peak from the schedule; the device's peaks stay. */
void plan_count_traffic(struct plan *plan, const struct trace *trace);

#endif
