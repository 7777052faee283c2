/* When the moments of an iteration come: what a replay of one plan tells those who plan the next.
 * Moments are the operators', so that a pace serves other layouts too. */
#ifndef PSTAR_PLANNER_SCHEDULE_MOMENT_TIMES_H
#define PSTAR_PLANNER_SCHEDULE_MOMENT_TIMES_H

#include "traces/trace.h"

struct moment_times {
    uint64_t *issue_ns; /* [moment_count] ascending from 0: when actions before it can begin */
    uint32_t *updates;  /* [moment_count] the tensor that the moment's operator updates on the
                           device; NO_INDEX where it does not */
    uint32_t moment_count;
    uint64_t period_ns; /* of an iteration; at least 1 */
};

/* Takes `issue_ns`, as replay_paced fills it. */
struct moment_times *moment_times_new(uint64_t *issue_ns, const struct trace *trace,
                                      double seconds);
/* For a trace of the same operators with its updates placed otherwise, and therefore in another
 * order: each update on the device comes when it came before, or, if it was on the host, with the
 * one before it. */
struct moment_times *moment_times_for(const struct moment_times *times, const struct trace *trace);
struct moment_times *moment_times_copy(const struct moment_times *times);
void moment_times_free(struct moment_times *times);

/* The time of a moment; those below 0 are of iterations before, and so on: at least
 * -PACE_CYCLES * moment_count. */
#define MOMENT_TIMES_CYCLES 4
int64_t moment_times_ns(const struct moment_times *times, int32_t moment);

/* The last moment that comes at that time or before it; `ns` is at least -PACE_CYCLES periods. */
int32_t moment_times_find(const struct moment_times *times, int64_t ns);

#endif
