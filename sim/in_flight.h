/* What is still going on when an iteration of the device's work ends: whether it is the same, as
 * seen from that end, as one iteration before. The next iteration is then like the last. */
#ifndef PSTAR_SIM_IN_FLIGHT_H
#define PSTAR_SIM_IN_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

struct in_flight {
    uint64_t *ends; /* [room] ns: completions, count so far, in the order of issue */
    uint32_t count, room;
    uint64_t *ahead; /* [ahead_count] ns: those that the last iteration left, from its end */
    uint32_t ahead_count;
};

void in_flight_init(struct in_flight *in_flight);
void in_flight_clear(struct in_flight *in_flight);

/* Work apart from the device's is complete at `end_ns`. */
void in_flight_add(struct in_flight *in_flight, uint64_t end_ns);

/* The device's work of an iteration is complete at `now_ns`, and nothing later begins before that.
 * Returns whether all that ends later does so as long after it as it did an iteration ago. Equal
 * iterations issue the same work in the same order, so equal lists are the same pieces of work. */
bool in_flight_repeats(struct in_flight *in_flight, uint64_t now_ns);

#endif
