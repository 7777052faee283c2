/* Which gaps to keep: local search over the gaps of an iteration for the least traffic. Everything
 * fits at every moment, always. */
#ifndef PSTAR_PLANNER_SCHEDULE_RETENTION_H
#define PSTAR_PLANNER_SCHEDULE_RETENTION_H

#include "chunks/decide.h"
#include "planner/schedule/reuse.h"
#include "policies/headroom.h"

struct retention {
    const struct reuses *reuses;
    uint8_t *retained;         /* [gaps->count] */
    struct headroom *headroom; /* room that the kept leave of what is not in reserve; negative only
                            where the gaps' own room, less the reserve, is */
    uint64_t traffic;          /* of the iteration, in bytes */
    uint64_t most;             /* traffic with nothing kept but what takes no room */
    uint64_t reserve;          /* of the room at every moment, in bytes: not for what is kept */
    GArray *order; /* uint32_t: gaps that can be kept, those worth the most for their room first */
    uint32_t
        *blocked_at; /* [gaps->count] a moment of the gap at which it did not fit when last tried */
};

#define BIAS_PARTS 8

/* What is kept first, of what saves about as much traffic. */
struct retention_bias {
    uint8_t
        parameter_share; /* of FAVOUR_PARTS: chunks whose gaps that only save a fetch come first */
    bool spread; /* of chunks that are used once, those that leave lie here and there along the
                    iteration, not side by side */
};

/* Nothing kept but what takes no room. `gaps` outlives the result. */
struct retention *retention_new(const struct reuses *reuses);
void retention_free(struct retention *retention);

/* Room is scarce at some moments, and costs nothing at others: keeps what is worth the most for the
 * room that it takes where there is none left. That moves little; which copies it saves decides
 * where the others crowd: that is a matter of taste. */
void retention_choose(struct retention *retention, const struct retention_bias *bias);

/* Sets so much more of the room aside, and gives up what no longer fits, the least worth first. */
void retention_reserve(struct retention *retention, uint64_t bytes);

/* `rounds` attempts at something better: a few kept gaps about a moment drawn at random are given
 * up, the room is filled anew, and the worse of the two is forgotten. Stops early when `*stop`
 * (may be NULL; read atomically) becomes nonzero. The same `random` gives the same result. */
void retention_improve(struct retention *retention, GRand *random, uint32_t rounds,
                       const gint *stop);

#endif
