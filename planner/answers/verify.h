/* Checks plans: that they can be executed, and that their figures and certificates are true. */
#ifndef PSTAR_PLANNER_ANSWERS_VERIFY_H
#define PSTAR_PLANNER_ANSWERS_VERIFY_H

#include "chunks/plan.h"
#include "sim/costs.h"
#include "sim/replay.h"

/* Runs plan_check, then a replay, whose counts and peaks must all equal the plan's. *figures (may
 * be NULL) receives the figures of the replay, with times for `costs`. Fails with PLAN_ERROR; the
 * message has both values of the first figure that differs. */
bool verify_plan(const struct plan *plan, const struct trace *trace, const struct costs *costs,
                 struct plan_figures *figures, GError **error);

/* Checks the plan's certificate against the files of plan and trace: every byte of both, the
 * bounds, and the predicted time under the costs that the certificate names. `plan` has passed
 * verify_plan. */
bool verify_certificate(const struct plan *plan, const char *plan_path, const char *trace_path,
                        GError **error);

/* Checks a plan that was just found as verify_plan and verify_certificate will check its file. The
 * certificate may be missing. `platform` (may be NULL) and `costs` are those of the search. If the
 * plan does not verify, the message says that this is a fault of pstar. */
bool verify_found(const struct plan *plan, const struct trace *recorded,
                  const struct platform *platform, const struct costs *costs, GError **error);

/* Returns the figures of the steady iteration. The plan has passed plan_check against `trace`.
 * `timeline` (may be NULL) receives what ran when. */
struct plan_figures plan_replay(const struct plan *plan, const struct trace *trace,
                                const struct costs *costs, struct timeline *timeline);

/* Writes the timeline of a replay, as timeline_write does. */
bool plan_replay_write(const struct plan *plan, const struct trace *trace,
                       const struct costs *costs, const char *path, GError **error);

/* Checks the alternatives in a plan's certificate against the recorded trace: their bounds, whether
 * each could be left out for its bound or its memory need, and that none is better. Fails with
 * PLAN_ERROR_INVALID, which names what differs. `platform` may be NULL. */
bool verify_alternatives(const struct plan *plan, const struct trace *trace,
                         const struct platform *platform, GError **error);

#endif
