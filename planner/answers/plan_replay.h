/* A plan replayed by itself, with nothing at hand but what it was made for. */
#ifndef PSTAR_PLANNER_ANSWERS_PLAN_REPLAY_H
#define PSTAR_PLANNER_ANSWERS_PLAN_REPLAY_H

#include "sim/replay.h"

/* The steady iteration. `trace` is the one that the plan has passed plan_check against; `timeline`
 * receives what ran when, and may be NULL. */
struct plan_figures plan_replay(const struct plan *plan, const struct trace *trace,
                                const struct costs *costs, struct timeline *timeline);

/* Writes that timeline, as timeline_write does. */
bool plan_replay_write(const struct plan *plan, const struct trace *trace,
                       const struct costs *costs, const char *path, GError **error);

#endif
