/* Replays a plan under the simulator's clock. */
#ifndef PSTAR_SIM_REPLAY_H
#define PSTAR_SIM_REPLAY_H

#include "chunks/plan.h"
#include "sim/costs.h"
#include "sim/timeline.h"

/* A trace seen through a layout, shared by its replays and dry runs. */
struct replay_view {
    const struct trace *trace;
    const struct accesses *accesses;
    const struct costs *costs;
};

struct replay_figures {
    struct plan_figures first; /* of the first iteration after the initial residency was loaded */
    struct plan_figures
        steady; /* of the last iteration, when times have settled: the next would take the same */
};

/* Drives the residency manager through several iterations, and asserts that all iterations move the
 * same bytes. `plan` comes from a dry run of the view's trace, or has passed plan_check against it;
 * the accesses belong to the plan's layout. */
struct replay_figures replay(const struct plan *plan, const struct replay_view *view);

/* Replays as replay does. `timeline`, which may be NULL, receives what ran when, and shows the last
 * iteration. */
struct replay_figures replay_with(const struct plan *plan, const struct replay_view *view,
                                  struct timeline *timeline);

/* Replays as replay does. `issue_ns` [moment_count] receives when the device had done everything
 * before each moment's operator, in the last iteration. */
struct replay_figures replay_times(const struct plan *plan, const struct replay_view *view,
                                   uint64_t *issue_ns);

/* Returns whether the trace describes an iteration; a recording of a program without annotations
 * does not. The error (PLAN_ERROR_INVALID) begins with `origin`, a file's name. */
bool replay_check_trace(const struct trace *trace, const char *origin, GError **error);

/* Returns whether the trace has durations of operators. Without durations, times contain only
 * copies. */
bool replay_is_timed(const struct trace *trace);

#endif
