/* A depth-first search for offsets within a capacity. It is complete: with enough nodes, it finds
 * them or proves that there are none. For packing.c alone. */
#ifndef PSTAR_CHUNKS_PACKING_SEARCH_H
#define PSTAR_CHUNKS_PACKING_SEARCH_H

#include "chunks/packing.h"

/* Time cut into sections. A section is a time at which more items are alive than just before or
 * after it. Two items that are alive at once are alive together in some section, so no other times
 * matter. */
struct packing_sections {
    uint32_t count;      /* of sections */
    uint32_t *from, *to; /* [items] an item is alive in the sections [from, to); from < to */
    uint64_t *load;      /* [count] bytes alive */
};

struct packing_search;

/* Returns a search, which the caller frees with packing_search_free. `items` and `sections` outlive
 * it. */
struct packing_search *packing_search_new(const struct packing_item *items, uint32_t count,
                                          const struct packing_sections *sections,
                                          uint64_t capacity);
void packing_search_free(struct packing_search *search);

/* Searches once. Among items that could begin at the same offset, the one with the lower rank is
 * tried first; `rank` [count] is a permutation. Tries at most *nodes placements, and subtracts the
 * number tried. For each placement given up, adds 1 to `failures` [sections] at the section that
 * had no room left. Sets `offset` [count] if it returns PACKING_FOUND. */
enum packing_outcome packing_search_run(struct packing_search *search, const uint32_t *rank,
                                        uint64_t *nodes, uint64_t *failures, uint64_t *offset);

#endif
