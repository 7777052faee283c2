/* Rings: doubly linked lists over numbers, without memory of their own. A ring has a head, which is
 * a number too; from there it runs from the youngest member to the oldest and back to the head. */
#ifndef PSTAR_POLICIES_RING_H
#define PSTAR_POLICIES_RING_H

#include <stdint.h>

struct policy_link {
    uint32_t younger, older;
};

static inline void policy_ring_init(struct policy_link *links, uint32_t head)
{
    links[head] = (struct policy_link){head, head};
}

/* Takes `item`, which is in no ring, in behind `place`: as the youngest where that is the head. */
static inline void policy_ring_insert(struct policy_link *links, uint32_t place, uint32_t item)
{
    uint32_t older = links[place].older;
    links[item] = (struct policy_link){place, older};
    links[older].younger = links[place].older = item;
}

static inline void policy_ring_remove(struct policy_link *links, uint32_t item)
{
    links[links[item].younger].older = links[item].older;
    links[links[item].older].younger = links[item].younger;
}

/* The head where the ring is empty. */
static inline uint32_t policy_ring_oldest(const struct policy_link *links, uint32_t head)
{
    return links[head].younger;
}

#endif
