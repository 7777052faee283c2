/* In which order items are tried. No order is good for all inputs, so a search that takes long is
 * given up and begun again with another. */
#ifndef PSTAR_CHUNKS_PACKING_ORDER_H
#define PSTAR_CHUNKS_PACKING_ORDER_H

#include "chunks/packing_sections.h"

enum packing_order {
    PACKING_BY_LOAD,       /* greatest load during its life, then lifetime, then bytes x lifetime */
    PACKING_BY_COLLISIONS, /* bytes x sections, then sections */
    PACKING_ORDERS
};

/* Fills rank [count], 0 first. Items alive in the section of the most failures come first, before
 * those of the next; the order decides among them. */
void packing_rank(const struct packing_item *items, uint32_t count,
                  const struct packing_sections *sections, enum packing_order order,
                  const uint64_t *failures, uint32_t *rank);

#endif
