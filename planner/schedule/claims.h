/* The room that coming fetches will need. */
#ifndef PSTAR_PLANNER_SCHEDULE_CLAIMS_H
#define PSTAR_PLANNER_SCHEDULE_CLAIMS_H

#include "policies/headroom.h"

#include <glib.h>

/* A fetch needs room from when it can be issued until its use. Both are counted in moments from
 * now, and lie within one iteration: 0 <= from < until. */
struct room_claim {
    int64_t from, until;
    int64_t bytes;
};

/* Returns the least room that others leave between `from` and `until`, in moments from `now` on.
 * `claims` is a GArray of struct room_claim. */
int64_t claims_leave(const GArray *claims, const struct headroom *headroom, moment_id now,
                     uint32_t moment_count, int64_t from, int64_t until);

#endif
