/* Chooses which reuse intervals to retain, by local search for the least traffic. The chosen set
 * fits at every moment, always. */
#ifndef PSTAR_PLANNER_SCHEDULE_RETENTION_H
#define PSTAR_PLANNER_SCHEDULE_RETENTION_H

#include "chunks/decide.h"
#include "planner/schedule/reuse.h"
#include "policies/headroom.h"

struct retention {
    const struct reuses *reuses;
    uint8_t *retained;         /* [reuses->count] */
    struct headroom *headroom; /* free bytes beside the retained chunks and the reserve; negative
                                  only if the room of `reuses`, less the reserve, is */
    uint64_t traffic;          /* bytes an iteration */
    uint64_t cost;             /* the same, with the directions' weights: what is minimised */
    uint64_t traffic_most, cost_most; /* if only intervals without moments are retained */
    uint32_t *epoch;                  /* [reuses->count] reuses_epochs */
    uint32_t weights[3]; /* of a byte from host to device, from device to host, and of a gather's
                            `worth` */
    uint64_t reserve;    /* bytes of the room that retained chunks may not take, at every moment */
    GArray *order;  /* uint32_t: intervals that can be retained, best value for the room first */
    GArray *listed; /* uint32_t: scratch of the local search */
    uint32_t *
        blocked_at; /* [reuses->count] a moment at which the interval did not fit when last tried */
};

#define BIAS_PARTS 8

/* Says which intervals come first among intervals that save about the same traffic. */
struct retention_bias {
    uint8_t parameter_share; /* of BIAS_PARTS: share of the chunks whose intervals without a write
                                come first */
    uint8_t d2h_share; /* of BIAS_PARTS: the weight of a byte from device to host, beside the rest
                          for a byte the other way; half of them weighs bytes alike, and with none
                          or all of them one way hardly counts */
    uint8_t gather_share; /* of BIAS_PARTS: the weight of a gather; half of them weighs its time as
                             the link's */
    uint8_t reserve;      /* room that retained chunks leave free, in halves of a typical chunk */
    bool spread; /* of the chunks that are used once, evict some here and there instead of side by
                    side */
};

/* Retains only intervals that take no room. `reuses` outlives the result. */
struct retention *retention_new(const struct reuses *reuses);
void retention_free(struct retention *retention);

/* Retains greedily the intervals with the most bytes saved per byte of scarce room. Ties barely
 * change the traffic, but decide which copies collide; `bias` picks among them. */
void retention_choose(struct retention *retention, const struct retention_bias *bias);

/* The same in one filling, with room worth the same at all moments. */
void retention_choose_quickly(struct retention *retention, const struct retention_bias *bias);

/* Adds `bytes` to the reserve, and evicts what no longer fits, the least valuable first. */
void retention_reserve(struct retention *retention, uint64_t bytes);

/* Tries `rounds` random changes: each evicts a few intervals around a random moment, fills the room
 * again, and keeps the better state. Stops early when `*stop` (may be NULL; read atomically)
 * becomes nonzero. The same `random` gives the same result. */
void retention_improve(struct retention *retention, GRand *random, uint32_t rounds,
                       const gint *stop);

#endif
