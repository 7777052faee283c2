/* Static memory allocation: items whose lifetimes are known beforehand get fixed offsets in one
 * arena, so that items alive at the same time never overlap. NP-hard; docs/planner.md has how it is
 * searched. Everything here is deterministic: effort is counted in nodes, never in seconds. */
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
    PACKING_IMPOSSIBLE, /* proven: there are no such offsets */
    PACKING_UNDECIDED,  /* the nodes ran out */
};

/* Greatest sum of bytes alive at once: the least that any placement needs. */
uint64_t packing_load(const struct packing_item *items, uint32_t count);

/* Where the highest item ends; 0 of none. */
uint64_t packing_extent(const struct packing_item *items, uint32_t count, const uint64_t *offset);

/* True where no two items that are alive at once overlap; otherwise sets *one and *other (either
 * may be NULL) to two that do. */
bool packing_is_apart(const struct packing_item *items, uint32_t count, const uint64_t *offset,
                      uint32_t *one, uint32_t *other);

/* Looks for offsets [count] with which everything ends at or below `capacity`, and fills them where
 * it returns PACKING_FOUND. Tries at most `*nodes` placements, and sets *nodes to those tried. */
enum packing_outcome packing_fit(const struct packing_item *items, uint32_t count,
                                 uint64_t capacity, uint64_t *nodes, uint64_t *offset);

struct packing_figures {
    uint64_t extent;      /* of the offsets */
    uint64_t lower_bound; /* no placement has a smaller extent; equal to it: proven best */
    uint64_t nodes;       /* placements tried */
};

/* Replaces the offsets [count] of a placement whose items are apart by those of the least extent
 * that it finds with about `nodes` placements; they stay as they are where it finds no smaller. */
struct packing_figures packing_shrink(const struct packing_item *items, uint32_t count,
                                      uint64_t nodes, uint64_t *offset);

#endif
