/* Static memory allocation. Items whose lifetimes are known beforehand get fixed offsets in one
 * arena, so that items alive at the same time never overlap. That is NP-hard; docs/planner.md
 * describes the search. It is deterministic, because effort is counted in nodes, never in seconds.
 */
#ifndef PSTAR_CHUNKS_PACKING_H
#define PSTAR_CHUNKS_PACKING_H

#include <stdbool.h>
#include <stdint.h>

struct packing_item {
    uint64_t begin, end; /* alive in [begin, end), in any unit of time; begin < end */
    uint64_t bytes;      /* > 0; the sum of all items' is below 2^63 */
};

enum packing_outcome {
    PACKING_FOUND,
    PACKING_IMPOSSIBLE, /* there are no such offsets, which is proven */
    PACKING_UNDECIDED,  /* the nodes ran out */
};

/* Returns the greatest sum of bytes alive at once, which is the least that any placement needs. */
uint64_t packing_load(const struct packing_item *items, uint32_t count);

/* Returns where the highest item ends; 0 if there are none. */
uint64_t packing_extent(const struct packing_item *items, uint32_t count, const uint64_t *offset);

/* Returns true if no two items that are alive at once overlap. Otherwise sets *one and *other,
 * either of which may be NULL, to two items that do. */
bool packing_is_apart(const struct packing_item *items, uint32_t count, const uint64_t *offset,
                      uint32_t *one, uint32_t *other);

/* Looks for offsets [count] with which all items end at or below `capacity`, and sets them if it
 * returns PACKING_FOUND. Tries at most *nodes placements, and sets *nodes to the number tried. */
enum packing_outcome packing_fit(const struct packing_item *items, uint32_t count,
                                 uint64_t capacity, uint64_t *nodes, uint64_t *offset);

struct packing_figures {
    uint64_t extent;      /* of the offsets */
    uint64_t lower_bound; /* no placement has a smaller extent; if both are equal, the placement is
                             proven best */
    uint64_t nodes;       /* placements tried */
};

/* Replaces the offsets [count] of a valid placement by the best placement found, which has the
 * least extent. Tries about `nodes` placements. The offsets stay unchanged if no smaller extent is
 * found. */
struct packing_figures packing_shrink(const struct packing_item *items, uint32_t count,
                                      uint64_t nodes, uint64_t *offset);

#endif
