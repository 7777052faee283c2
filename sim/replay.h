/* Replays a plan under the simulator's clock. */
#ifndef PSTAR_SIM_REPLAY_H
#define PSTAR_SIM_REPLAY_H

#include "chunks/plan.h"
#include "sim/costs.h"
#include "sim/timeline.h"

/* A trace seen through a layout, as replays and dry runs of it share it. */
struct replay_view {
    const struct trace *trace;
    const struct accesses *accesses;
    const struct costs *costs;
};

struct replay_figures {
    struct plan_figures first;  /* of the first iteration after the initial residency was loaded */
    struct plan_figures steady; /* of the last, when times have settled: an iteration that would
                                   be followed by its like */
};

/* Drives the residency manager through several iterations. Every iteration moves the same: that is
 * asserted. `plan` comes from a dry run of, or has passed plan_check against, the view's trace;
 * the accesses are those of the plan's layout. */
struct replay_figures replay(const struct plan *plan, const struct replay_view *view);

/* The same; `timeline` receives what ran when, and shows the last iteration. */
struct replay_figures replay_with(const struct plan *plan, const struct replay_view *view,
                                  struct timeline *timeline);

/* The same; `issue_ns` [moment_count] receives when the device had done all that is before each
 * moment's operator, in the last iteration. */
struct replay_figures replay_times(const struct plan *plan, const struct replay_view *view,
                                   uint64_t *issue_ns);

/* Whether the trace describes an iteration at all: one recorded from a program that annotates none
 * does not. The error (PLAN_ERROR_INVALID) begins with `origin`, a file's name. */
bool replay_check_trace(const struct trace *trace, const char *origin, GError **error);

/* Whether the trace knows how long its operators take; if not, times are those of copies alone. */
bool replay_is_timed(const struct trace *trace);

#endif
