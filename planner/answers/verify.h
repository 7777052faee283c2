/* Whether a plan does what it says: possible for the trace, and moving what it predicts. */
#ifndef PSTAR_PLANNER_ANSWERS_VERIFY_H
#define PSTAR_PLANNER_ANSWERS_VERIFY_H

#include "chunks/plan.h"
#include "sim/costs.h"
#include "sim/replay.h"

/* plan_check, then a replay whose every count and peak must equal the plan's. *figures (may be
 * NULL) are the replay's, with times for `costs`. Errors: PLAN_ERROR; a wrong figure is named with
 * both values. */
bool verify_plan(const struct plan *plan, const struct trace *trace, const struct costs *costs,
                 struct plan_figures *figures, GError **error);

/* The plan's certificate, against the files that plan and trace were read from: every byte of both,
 * the bounds, and the time that the plan predicts, under the costs that the certificate names.
 * `plan` has passed verify_plan. */
bool verify_certificate(const struct plan *plan, const char *plan_path, const struct trace *trace,
                        const char *trace_path, GError **error);

/* A plan replayed by itself, with nothing at hand but what it was made for. */

/* The steady iteration. `trace` is the one that the plan has passed plan_check against; `timeline`
 * receives what ran when, and may be NULL. */
struct plan_figures plan_replay(const struct plan *plan, const struct trace *trace,
                                const struct costs *costs, struct timeline *timeline);

/* Writes that timeline, as timeline_write does. */
bool plan_replay_write(const struct plan *plan, const struct trace *trace,
                       const struct costs *costs, const char *path, GError **error);

/* The alternatives of a plan's certificate against its trace, as it was recorded: their bounds,
 * and that what was left out for its bound or its need could be. PLAN_ERROR_INVALID names what
 * differs. `platform` may be NULL. */
bool verify_alternatives(const struct plan *plan, const struct trace *trace,
                         const struct costs *costs, const struct platform *platform,
                         GError **error);

#endif
