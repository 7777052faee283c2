#include "planner/schedule/claims.h"

static const struct room_claim *claim_at(const GArray *claims, guint index)
{
    return &g_array_index(claims, struct room_claim, index);
}

/* Returns the bytes that are claimed at a moment. */
static int64_t claimed(const GArray *claims, int64_t moment)
{
    int64_t bytes = 0;
    for (guint i = 0; i < claims->len; i++) {
        const struct room_claim *claim = claim_at(claims, i);
        if (claim->from <= moment && moment < claim->until)
            bytes += claim->bytes;
    }
    return bytes;
}

/* Returns the moment until which as much is claimed as at this one; `until` at most. */
static int64_t next_change(const GArray *claims, int64_t moment, int64_t until)
{
    for (guint i = 0; i < claims->len; i++) {
        const struct room_claim *claim = claim_at(claims, i);
        if (claim->from > moment)
            until = MIN(until, claim->from);
        if (claim->until > moment)
            until = MIN(until, claim->until);
    }
    return until;
}

int64_t claims_leave(const GArray *claims, const struct headroom *headroom, moment_id now,
                     uint32_t moment_count, int64_t from, int64_t until)
{
    int64_t least = INT64_MAX;
    for (int64_t moment = from, next; moment < until; moment = next) {
        next = next_change(claims, moment, until);
        uint32_t first = (uint32_t)((now + moment) % moment_count);
        int64_t room = headroom_least(headroom, first, (uint32_t)(next - moment));
        least = MIN(least, room - claimed(claims, moment));
    }
    return least;
}
