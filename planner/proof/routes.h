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
#include "chunks/certificate.h"
#include "planner/schedule/reuse.h"

/* An iteration cut into windows, for the lower bound of its time. A window begins with an operator
 * on the device, or when the device has done all that is before the update; it ends where the next
 * one begins, and the last wraps round. */

/* What is limited in a window: nanoseconds of four resources, and bytes of room at its start. */
enum window_resource {
    WINDOW_COMPUTE,
    WINDOW_H2D,
    WINDOW_D2H,
    WINDOW_HOST,
    WINDOW_ROOM,
    WINDOW_USES
};

struct time_window {
    uint32_t moment; /* of the operator that it begins with, or of the first update */
    uint64_t room;   /* there, beside non-model data and that operator's own chunks; at the update,
                        all that anything could take */
    bool of_update;  /* it begins before its operator has what it needs */
};

struct time_windows {
    uint32_t count, moment_count;
    struct time_window *items;
    uint16_t *of_moment; /* [moment_count]; those before the first window's are of the last */
};

#define TIME_WINDOWS_MOST 60 /* of a certificate */

/* The moments at which windows should begin: in each of at most `most` equal stretches of forward
 * and backward, the operator on the device that leaves the least room; and the first update, if
 * nothing but updates follows. Appends them to `moments` (uint32_t), ascending; none where forward
 * and backward have none. */
void time_windows_choose(const struct trace *trace, const struct reuses *reuses, uint32_t most,
                         GArray *moments);

/* Whether windows can begin at these moments: ascending, and each one that windows_choose could
 * choose, the first of forward or backward. */
bool time_windows_are_possible(const struct trace *trace, const uint32_t *moments, uint32_t count);

struct time_windows *time_windows_new(const struct trace *trace, const struct reuses *reuses,
                                      const uint32_t *moments, uint32_t count);
void time_windows_free(struct time_windows *windows);

/* Moments in the order in which they follow the first window's beginning. */
uint32_t time_windows_moment(const struct time_windows *windows, uint32_t position);

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
