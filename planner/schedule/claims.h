/* The room that coming fetches will need. */
#ifndef PSTAR_PLANNER_SCHEDULE_CLAIMS_H
#define PSTAR_PLANNER_SCHEDULE_CLAIMS_H

#include "policies/headroom.h"

#include <glib.h>
#include <stdbool.h>

/* A fetch needs room from when it can be issued until its use. Both are counted in moments from
 * now, and lie within one iteration: 0 <= from < until. */
struct room_claim {
    int64_t from, until;
    int64_t bytes;
};

/* Returns whether each moment of `claim` has room for it, and `spare` bytes besides, beside the
 * others that claim room then. `others` is a GArray of struct room_claim; moments count from `now`
 * on. */
bool claims_leave_room(const GArray *others, const struct room_claim *claim,
                       const struct headroom *headroom, moment_id now, uint32_t moment_count,
                       int64_t spare);

#endif
