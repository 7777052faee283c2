/* The cheapest way of one chunk through the windows of an iteration, cyclic, by dynamic programming
 * in integers.
 *
 * At any time a chunk's valid bytes are on the host only, on both sides, or on the device only;
 * there, a host operator may already want them, whose work may be late beside the device's: it has
 * only read, or it writes and makes the device's stale. In each window a copy to the device and one
 * to the host have a price, and so has each byte that is on the device when the window begins. */
#ifndef PSTAR_PLANNER_PROOF_ROUTES_H
#define PSTAR_PLANNER_PROOF_ROUTES_H

#include "chunks/accesses.h"
#include "planner/proof/windows.h"

/* Times BOUND_PRICE_SCALE: nanoseconds, summed over chunks and windows. */
__extension__ typedef __int128 scaled_ns;

struct route_step {
    uint16_t window;
    uint8_t kind; /* what begins or happens; paths.c */
};

/* One cycle, from after an operator behind which it is known where the chunk is, to that operator
 * again. */
struct route {
    struct route_step *steps; /* [count]; count 0: never on the device */
    uint32_t count;
    uint16_t first_window; /* in which it begins */
    uint8_t start;         /* state */
};

/* What one copy and the room of the chunk take. */
struct route_chunk {
    uint64_t h2d_ns, d2h_ns, bytes;
};

/* [chunk_count], each to be freed with paths_free. */
struct route *routes_new(const struct accesses *accesses, const struct time_windows *windows);
void routes_free(struct route *routes, uint32_t chunk_count);

/* What the cheapest way costs. `from`: scratch that remembers it for path_follow,
 * [path->count + 1][PATH_STATES]; may be NULL. */
#define ROUTE_STATES 5
scaled_ns route_cheapest(const struct route *route, const struct route_chunk *chunk,
                         const struct certificate_window *prices, uint8_t (*from)[ROUTE_STATES]);

/* Adds what the way found last takes in each window: `use` [window count][WINDOW_USES]. */
void route_follow(const struct route *route, const struct route_chunk *chunk,
                  uint8_t (*from)[ROUTE_STATES], uint64_t (*use)[WINDOW_USES]);

#endif
