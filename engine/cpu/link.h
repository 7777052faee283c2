/* One direction of the link between host pool and arena: copies at memory speed, or at a rate. */
#ifndef PSTAR_ENGINE_CPU_LINK_H
#define PSTAR_ENGINE_CPU_LINK_H

#include <stdbool.h>
#include <stdint.h>

struct link {
    double rate;            /* bytes a second; 0: as fast as memory */
    uint64_t free_ns;       /* when the last copy was due to end */
    uint64_t bytes, copies; /* since the start, counted when a copy ends */
};

/* What the thread of a link does first: sleeps end when they are due, not tens of microseconds
 * later. */
void link_enter(void);

/* Copies, and returns when a link of this rate would have. `at_once`: the link was busy until now,
 * so that this copy's time begins where the last one's ended: sleeping too long does not add up. */
void link_copy(struct link *link, void *to, const void *from, uint64_t bytes, bool at_once);

#endif
