/* One depth-first search for offsets within a capacity. Complete: given nodes enough, it finds them
 * or proves that there are none. */
#ifndef PSTAR_CHUNKS_PACKING_SEARCH_H
#define PSTAR_CHUNKS_PACKING_SEARCH_H

#include "chunks/packing.h"

/* Time cut into sections: stretches in which as many items are alive together as nowhere just
 * before or after. Two items that are alive at once are so in some section, so no other times
 * matter. */
struct packing_sections {
    uint32_t count;      /* of sections */
    uint32_t *from, *to; /* [items] an item is alive in the sections [from, to); from < to */
    uint64_t *load;      /* [count] bytes alive */
};

struct packing_search;

/* `items` and `sections` outlive it; packing_search_free takes it. */
struct packing_search *packing_search_new(const struct packing_item *items, uint32_t count,
                                          const struct packing_sections *sections,
                                          uint64_t capacity);
void packing_search_free(struct packing_search *search);

/* Among items that could begin at the same offset, the one of lower rank is tried first; `rank`
 * [count] is a permutation. Tries at most `*nodes` placements, and subtracts those tried. Adds to
 * `failures` [sections], for each placement given up, one at the section that had no room left.
 * Fills `offset` [count] where it returns PACKING_FOUND. */
enum packing_outcome packing_search_run(struct packing_search *search, const uint32_t *rank,
                                        uint64_t *nodes, uint64_t *failures, uint64_t *offset);

#endif
