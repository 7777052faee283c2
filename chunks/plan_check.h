/* The parts of plan_check. Each refuses with PLAN_ERROR_INVALID and the reason. */
#ifndef PSTAR_CHUNKS_PLAN_CHECK_H
#define PSTAR_CHUNKS_PLAN_CHECK_H

#include "chunks/plan.h"

/* Every tensor whole within one chunk of each of its lists, none over another. */
bool plan_check_layout(const struct plan *plan, const struct trace *trace, GError **error);

/* Host slots and the initial residency apart from each other; then the actions of two iterations:
 * states, addresses, the arena's bounds, an end like the start. The layout must have passed. */
bool plan_check_schedule(const struct plan *plan, const struct trace *trace, GError **error);

/* Sets PLAN_ERROR_INVALID with "plan: " and the reason; returns false. */
bool plan_refuse(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);

#endif
