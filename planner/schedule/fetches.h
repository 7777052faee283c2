/* When each stay's fetch is issued. */
#ifndef PSTAR_PLANNER_SCHEDULE_FETCHES_H
#define PSTAR_PLANNER_SCHEDULE_FETCHES_H

#include "planner/schedule/intervals.h"

/* Sets `enter` of every stay that is fetched: in the order of the uses, each as far ahead of its
 * use as there is room at every moment in between, but
 * - at most options->look_ahead moments;
 * - with a pace, not before the link has done what is before it, since until then it would only
 *   hold room; nor more than the margin before it must begin for all later uses to come in time.
 *   Sets `gone` too, until which a stay holds its room. */
void prefetch_issue(struct intervals *intervals, const struct retention *retention,
                    const struct interval_options *options);

#endif
