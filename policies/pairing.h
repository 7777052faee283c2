/* Pairing heaps of numbers, the lowest on top (Fredman, Sedgewick, Sleator, Tarjan 1986), without
 * memory of their own. A number is in one heap at most, and a heap is known by its top. */
#ifndef PSTAR_POLICIES_PAIRING_H
#define PSTAR_POLICIES_PAIRING_H

#include "traces/ids.h"

#include <stdbool.h>

struct policy_pairing {
    uint32_t below;          /* the first of those right below the number */
    uint32_t before, behind; /* its neighbours below the same one. Before the first is that one */
};

/* A heap of its own. */
static inline void policy_pairing_init(struct policy_pairing *links, uint32_t item)
{
    links[item] = (struct policy_pairing){NO_INDEX, NO_INDEX, NO_INDEX};
}

static inline bool policy_pairing_is_alone(const struct policy_pairing *links, uint32_t item)
{
    return links[item].below == NO_INDEX && links[item].before == NO_INDEX;
}

/* Two heaps become one; returns its top. */
uint32_t policy_pairing_meld(struct policy_pairing *links, uint32_t a, uint32_t b);

/* Takes an item that is not alone out of the heap of `top`; returns the top of what is left. */
uint32_t policy_pairing_part(struct policy_pairing *links, uint32_t top, uint32_t item);

#endif
