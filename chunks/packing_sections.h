/* Time cut into sections: stretches in which as many items are alive together as nowhere just
 * before or after. Two items that are alive at once are so in some section, so no other times
 * matter. */
#ifndef PSTAR_CHUNKS_PACKING_SECTIONS_H
#define PSTAR_CHUNKS_PACKING_SECTIONS_H

#include "chunks/packing.h"

struct packing_sections {
    uint32_t count;      /* of sections */
    uint32_t *from, *to; /* [items] an item is alive in the sections [from, to); from < to */
    uint64_t *load;      /* [count] bytes alive */
};

struct packing_sections *packing_sections_new(const struct packing_item *items, uint32_t count);
void packing_sections_free(struct packing_sections *sections);

#endif
