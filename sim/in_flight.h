/* What is still going on at marks along an iteration of the device's work: whether it is the same,
 * as seen from there, as it was at the same mark of the iteration before. All that follows is then
 * like what followed then. */
#ifndef PSTAR_SIM_IN_FLIGHT_H
#define PSTAR_SIM_IN_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

struct in_flight_mark {
    uint64_t now_ns, stall_ns; /* the device's time, and how long it has stalled in the iteration */
    uint32_t issued;           /* works by then */
    uint32_t count;            /* of those, going on */
};

/* An iteration's marks. */
struct in_flight_lap {
    struct in_flight_mark *marks; /* [room] */
    uint32_t count, room;
};

struct in_flight {
    uint64_t *end_ns; /* [end_room] of each work its completion, in the order of issue */
    uint32_t issued, end_room;
    uint32_t *going; /* [going_room] those that may still be going on, in the order of issue */
    uint32_t going_count, going_room;
    uint32_t prologue;                /* works before all iterations: no other is like them */
    struct in_flight_lap lap, before; /* this iteration, and the last */
};

void in_flight_init(struct in_flight *in_flight);
void in_flight_clear(struct in_flight *in_flight);

/* Work was issued that is complete at `end_ns`. */
void in_flight_add(struct in_flight *in_flight, uint64_t end_ns);
/* The device's work has gone on until `now_ns`: forgets what has ended by then, and returns whether
 * the rest is issued by the same calls, and lies as far ahead, as at this mark of the iteration
 * before. */
bool in_flight_mark(struct in_flight *in_flight, uint64_t now_ns, uint64_t stall_ns);
/* The last iteration's mark at the place of this one's latest. */
const struct in_flight_mark *in_flight_mark_before(const struct in_flight *in_flight);
/* The next iteration begins. */
void in_flight_next_lap(struct in_flight *in_flight);

#endif
