/* When the moments of an iteration begin, measured by replaying one plan and used to schedule the
 * next. Moments belong to operators, so the times hold for other layouts too. */
#ifndef PSTAR_PLANNER_SCHEDULE_MOMENT_TIMES_H
#define PSTAR_PLANNER_SCHEDULE_MOMENT_TIMES_H

#include "traces/trace.h"

struct moment_times {
    uint64_t
        *issue_ns; /* [moment_count] ascending from 0: when actions before the moment can begin */
    uint32_t *updates; /* [moment_count] the tensor that the moment's operator updates on the
                          device, or NO_INDEX */
    uint32_t moment_count;
    uint64_t period_ns; /* duration of an iteration; at least 1 */
};

/* Takes ownership of `issue_ns`, which replay_times filled. */
struct moment_times *moment_times_new(uint64_t *issue_ns, const struct trace *trace,
                                      double seconds);
/* Adapts the times to a trace of the same operators whose updates are placed otherwise, and so come
 * in another order. An update keeps its time if it was on the device; otherwise it gets the time of
 * the update before it. */
struct moment_times *moment_times_for(const struct moment_times *times, const struct trace *trace);
struct moment_times *moment_times_copy(const struct moment_times *times);
void moment_times_free(struct moment_times *times);

/* Returns the time of a moment, which may lie up to MOMENT_TIMES_CYCLES iterations in the past. */
#define MOMENT_TIMES_CYCLES 4
int64_t moment_times_ns(const struct moment_times *times, int32_t moment);

/* Returns the last moment that begins at `ns` or before; `ns` >= -MOMENT_TIMES_CYCLES periods. */
int32_t moment_times_find(const struct moment_times *times, int64_t ns);

#endif
