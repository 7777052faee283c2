/* When fetches are issued, by moments or by the times of an earlier replay. */
#ifndef PSTAR_PLANNER_SCHEDULE_PREFETCH_H
#define PSTAR_PLANNER_SCHEDULE_PREFETCH_H

#include "planner/schedule/intervals.h"

/* Sets `enter` of every interval that is fetched. In the order of the uses, each fetch is issued as
 * early as there is room until the use, but at most options->look_ahead moments ahead. With moment
 * times it is not issued before the link has finished the earlier fetches, nor more than the margin
 * before its latest start: until then it would only take room. With moment times, also sets
 * `vacated` of every interval that is written back. */
void prefetch(struct intervals *intervals, const struct retention *retention,
              const struct interval_options *options);

/* Makes decisions that were taken one by one, as by dispatch(), fit together: departures that wait
 * too long come at once, and fetches without room, or before the chunk has left, come later. Sets
 * `vacated` and `arrived` by the moment times; `h2d_ns` and `d2h_ns` [chunk_count] are durations of
 * copies. */
void prefetch_fit(struct intervals *intervals, const struct retention *retention,
                  const struct moment_times *times, const uint64_t *h2d_ns, const uint64_t *d2h_ns);

#endif
