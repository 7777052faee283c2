/* Chooses the device that updates each chunk group, and makes the trace for this choice. */
#ifndef PSTAR_PLANNER_SCHEDULE_PLACEMENT_H
#define PSTAR_PLANNER_SCHEDULE_PLACEMENT_H

#include "chunks/plan.h"
#include "models/derive.h"
#include "platforms/platform.h"
#include "traces/trace.h"

/* Shares of a placement are counted in this many parts. */
#define PLACEMENT_PARTS 512u

enum placement_pattern {
    PLACEMENT_TRACED, /* every update where it was traced */
    PLACEMENT_SPREAD, /* the last groups, and others spread as evenly as whole groups allow */
    PLACEMENT_MIXED,  /* the last groups, and others as in the mix of a lower bound */
    PLACEMENT_CHOSEN, /* each group where most of its elements are in the mix */
    PLACEMENT_PATTERNS
};

/* Updates of the last groups may run on the host while the next forward pass begins. How many pay
 * off depends on how long that takes. */
struct placement {
    uint8_t pattern;   /* enum placement_pattern */
    uint16_t parts;    /* of PLACEMENT_PARTS: share of the elements that the host updates; 0 with
                          PLACEMENT_TRACED */
    uint16_t tail;     /* <= parts: the share that belongs to the last groups */
    const double *mix; /* [tensor_count] share of each tensor on the host, with PLACEMENT_MIXED and
                          PLACEMENT_CHOSEN; otherwise NULL. In a mix, all shares are scaled in
                          proportion so that they sum to `parts`. */
    tensor_id first;   /* with which the host begins its updates, as in struct run_choices; that of
                          the trace with PLACEMENT_TRACED */
};

bool placement_same(const struct placement *a, const struct placement *b);

/* Returns whether updates can be placed: the trace has one update operator for each tensor, the
 * platform (may be NULL) or the trace tells how long updates take on either side, and they take no
 * newest parameters from buffers of several ranks. */
bool placement_is_possible(const struct trace *trace, const struct platform *platform);

/* Returns the trace with its updates placed by the groups of the layout (models/derive.h).
 * Placing must be possible. A group whose tensors are not consecutive in the model stays on the
 * device unless everything is on the host. Free the result with trace_free. */
struct trace *placement_trace(const struct placement *placement, const struct trace *trace,
                              const struct layout *layout, const struct platform *platform);

/* Returns the trace with the plan's choices (models/derive.h), but with updates where they were
 * traced. This is a copy if the choices are the trace's own, or if the plan has none or belongs to
 * another model. Fails with TRACE_ERROR_INVALID if nothing can be derived for this model, or if the
 * trace was not synthesised for `platform` (may be NULL). Free the result with trace_free. */
struct trace *derived_for_plan(const struct plan *plan, const struct trace *trace,
                               const struct platform *platform, GError **error);

/* Returns the trace that the plan is for, from the recorded one: derived_for_plan, then
 * model_place_chosen. Fails as they do. Free the result with trace_free. */
struct trace *trace_of_plan(const struct plan *plan, const struct trace *recorded,
                            const struct platform *platform, GError **error);

#endif
