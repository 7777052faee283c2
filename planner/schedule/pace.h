/* When the moments of an iteration come: what a replay of one plan tells those who plan the next.
 * Moments are the operators', so that a pace serves other layouts too. */
#ifndef PSTAR_PLANNER_SCHEDULE_PACE_H
#define PSTAR_PLANNER_SCHEDULE_PACE_H

#include "traces/trace.h"

struct pace {
    uint64_t *issue_ns; /* [moment_count] ascending from 0: when actions before it can begin */
    uint32_t *updates;  /* [moment_count] the tensor that the moment's operator updates on the
                           device; NO_INDEX where it does not */
    uint32_t moment_count;
    uint64_t period_ns; /* of an iteration; at least 1 */
};

/* Takes `issue_ns`, as replay_paced fills it. */
struct pace *pace_new(uint64_t *issue_ns, const struct trace *trace, double seconds);
/* For a trace of the same operators with its updates placed otherwise, and therefore in another
 * order: each update on the device comes when it came before, or, if it was on the host, with the
 * one before it. */
struct pace *pace_for(const struct pace *pace, const struct trace *trace);
struct pace *pace_copy(const struct pace *pace);
void pace_free(struct pace *pace);

/* The time of a moment; those below 0 are of iterations before, and so on: at least
 * -PACE_CYCLES * moment_count. */
#define PACE_CYCLES 4
int64_t pace_ns(const struct pace *pace, int32_t moment);

/* The last moment that comes at that time or before it; `ns` is at least -PACE_CYCLES periods. */
int32_t pace_moment(const struct pace *pace, int64_t ns);

#endif
