#include "planner/schedule/claims.h"

/* Returns the bytes that are claimed at a moment. Lowers *next to the first moment behind it at
 * which others are. */
static int64_t claimed(const GArray *claims, int64_t moment, int64_t *next)
{
    int64_t bytes = 0;
    for (guint i = 0; i < claims->len; i++) {
        const struct room_claim *claim = &g_array_index(claims, struct room_claim, i);
        if (claim->from > moment) {
            *next = MIN(*next, claim->from);
        } else if (claim->until > moment) {
            *next = MIN(*next, claim->until);
            bytes += claim->bytes;
        }
    }
    return bytes;
}

bool claims_leave_room(const GArray *others, const struct room_claim *claim,
                       const struct headroom *headroom, moment_id now, uint32_t moment_count,
                       int64_t spare)
{
    int64_t moment = claim->from;
    while (moment < claim->until) {
        int64_t next = claim->until, bytes = claimed(others, moment, &next) + claim->bytes + spare;
        uint32_t first = (uint32_t)((now + moment) % moment_count);
        if (headroom_least(headroom, first, (uint32_t)(next - moment)) < bytes)
            return false;
        moment = next;
    }
    return true;
}
