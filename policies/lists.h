/* Chunks in several lists, each in one at most, with the bytes of each list: for the policies that
 * keep more than one order, and remember chunks that have left (ghosts). */
#ifndef PSTAR_POLICIES_LISTS_H
#define PSTAR_POLICIES_LISTS_H

#include "policies/policy.h"
#include "policies/ring.h"

enum { POLICY_LISTS = 4 };
#define POLICY_NO_LIST POLICY_LISTS

struct policy_lists {
    const struct pstar_policy_view *view;
    struct policy_link *links;    /* [chunk_count + POLICY_LISTS] rings, the heads last */
    uint8_t *list;                /* [chunk_count] that each is in; POLICY_NO_LIST */
    uint64_t bytes[POLICY_LISTS]; /* of the chunks in each */
};

void policy_lists_init(struct policy_lists *lists, const struct pstar_policy_view *view);
void policy_lists_clear(struct policy_lists *lists);

/* Makes the chunk the youngest of `list`, wherever it was; POLICY_NO_LIST: out of all. */
void policy_lists_put(struct policy_lists *lists, uint32_t chunk, uint8_t list);

/* What the lists may hold on the device at the current moment, in bytes. */
uint64_t policy_lists_capacity(const struct policy_lists *lists);

/* The oldest of `list`, pinned or not; NO_INDEX where it is empty. */
uint32_t policy_lists_oldest(const struct policy_lists *lists, uint8_t list);
/* The next younger one of its list; NO_INDEX after the youngest. */
uint32_t policy_lists_younger(const struct policy_lists *lists, uint32_t chunk);
/* The oldest of `list` that is not pinned; NO_INDEX. */
uint32_t policy_lists_oldest_unpinned(const struct policy_lists *lists, uint8_t list);

#endif
