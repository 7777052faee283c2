/* Which gaps to keep: local search over the gaps of an iteration for the least traffic. Everything
 * fits at every moment, always. */
#ifndef PSTAR_PLANNER_KEEP_H
#define PSTAR_PLANNER_KEEP_H

#include "chunks/decide.h"
#include "planner/gaps.h"

struct keep {
    const struct gaps *gaps;
    uint8_t *kept;    /* [gaps->count] */
    int64_t *slack;   /* [moment_count] room that the kept leave; negative only where the gaps' own
                         room is */
    uint64_t traffic; /* of the iteration, in bytes */
    GArray *order;    /* uint32_t: gaps that can be kept, the most saved for their room first */
    uint32_t *tight; /* [gaps->count] a moment of the gap at which it did not fit when last tried */
};

/* Nothing kept but what takes no room. `gaps` outlives the result. */
struct keep *keep_new(const struct gaps *gaps);
void keep_free(struct keep *keep);

/* Keeps what a policy kept: the gaps in which the decisions let no chunk leave, as far as they fit
 * (a prefetch that leaves unused is a departure too). */
void keep_follow(struct keep *keep, const struct decisions *decisions);

/* Keeps whatever still fits and saves something, the most saved for its room first. */
void keep_fill(struct keep *keep);

/* `rounds` attempts at something better: a few kept gaps about a moment drawn at random are given
 * up, the room is filled anew, and the worse of the two is forgotten. Stops early when `*stop`
 * (may be NULL; read atomically) becomes nonzero. The same `random` gives the same result. */
void keep_improve(struct keep *keep, GRand *random, uint32_t rounds, const gint *stop);

#endif
