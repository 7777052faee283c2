/* Where the optimizer of each chunk group runs: part of what the search chooses. */
#ifndef PSTAR_PLANNER_SCHEDULE_PLACEMENT_H
#define PSTAR_PLANNER_SCHEDULE_PLACEMENT_H

#include "chunks/plan.h"
#include "models/derive.h"
#include "platforms/platform.h"
#include "traces/trace.h"

/* Parts that a placement's share is counted in. */
#define PLACEMENT_PARTS 512u

enum placement_pattern {
    PLACEMENT_TRACED, /* every update where the trace has it */
    PLACEMENT_SPREAD, /* the last groups, and others as evenly as whole groups allow */
    PLACEMENT_MIXED,  /* the last groups, and of others as a bound's mix has them */
    PLACEMENT_PATTERNS
};

/* The host may finish what comes last in the model while the next forward begins: how much of it is
 * worth while depends on how long that takes. */
struct placement {
    uint8_t pattern; /* enum placement_pattern */
    uint16_t parts;  /* of PLACEMENT_PARTS: the share of the elements that the host updates; 0 with
                        PLACEMENT_TRACED */
    uint16_t tail;   /* <= parts: of them, those of the last groups */
    const double *mix; /* [tensor_count] with PLACEMENT_MIXED, else NULL: share of each on the host;
                          what `parts` are above or below their sum, each is in proportion */
};

bool placement_same(const struct placement *a, const struct placement *b);

/* Whether updates can be placed at all: the trace has an operator for each tensor's, and it is
 * known how long one takes on either side, from the platform (may be NULL) or the trace's own. */
bool placement_is_possible(const struct trace *trace, const struct platform *platform);

/* The trace with its updates placed by the groups of its layout (models/place_updates.h), which
 * must be possible. Groups whose tensors do not follow each other in the model stay on the device
 * unless everything is on the host. The caller frees it with trace_free. */
struct trace *placement_trace(const struct placement *placement, const struct trace *trace,
                              const struct layout *layout, const struct platform *platform);

/* The trace with its updates where the plan has them; a copy where the plan says nothing of them,
 * or is for another trace. Fails as model_place_updates does. The caller frees it with trace_free.
 */
struct trace *placement_of_plan(const struct plan *plan, const struct trace *trace,
                                const struct platform *platform, GError **error);

/* From the trace of a recorded run to the one of the run that a plan is for. */

/* The trace with the plan's layers computed again and offloaded, its embedding where the plan has
 * it, backward once or twice as it has that, and its micro-batches (models/derive.h), updates where
 * they were traced: a copy where these are the trace's own, or the plan says nothing of them or is
 * of another model. Fails (TRACE_ERROR_INVALID) where the trace is not of a model that others can
 * be derived for, or was not synthesised for `platform` (may be NULL). The caller frees the result
 * with trace_free. */
struct trace *derived_for_plan(const struct plan *plan, const struct trace *trace,
                               const struct platform *platform, GError **error);

#endif
