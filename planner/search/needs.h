/* What a trace needs to be trained at all. */
#ifndef PSTAR_PLANNER_SEARCH_NEEDS_H
#define PSTAR_PLANNER_SEARCH_NEEDS_H

#include "planner/search/search.h"

/* The least device memory, of the arena, with which search_plan finds a plan within the host budget
 * of `options`: that of one chunk a tensor, which needs no more than any other layout, with the
 * updates as traced or, where they can be placed, all on the host. UINT64_MAX where the host lacks
 * memory, whatever the device has; the error then says how much. */
uint64_t requirement_device_bytes(const struct trace *trace, const struct search_options *options,
                                  GError **error);

/* Whether the budgets of `options` suffice; otherwise PLAN_ERROR_DOES_NOT_FIT says what lacks. */
bool requirement_is_met(const struct trace *trace, const struct search_options *options,
                        GError **error);

#endif
