/* Resident chunks by their next use, for the policies that look into the future. */
#ifndef PSTAR_POLICIES_NEXT_USE_H
#define PSTAR_POLICIES_NEXT_USE_H

#include "policies/bitset.h"
#include "policies/pairing.h"
#include "policies/policy.h"

/* The chunk used farthest in the future comes first, and of those of one moment the lowest number.
 * The view's next_use may change for a chunk that is touched next, and, as the view's iteration
 * changes, by moment_count for all.
 *
 * The chunks of one moment are a heap: of one chunk, where operators use one each. */
struct policy_next_use {
    const struct pstar_policy_view *view;
    uint32_t *moment; /* [chunk_count] of the next use, from the start of `iteration`
                         on; NO_INDEX: the chunk is not in the set */
    uint32_t never;   /* 2 moment_count: for no next use, or one still farther */
    uint32_t iteration;
    struct policy_bitset moments; /* those that have a heap */
    uint32_t latest;              /* no moment that has a heap is later */
    uint32_t *top;                /* [never + 1] of each heap */
    struct policy_pairing *links; /* [chunk_count] of the heaps */
    uint32_t *aside;              /* [chunk_count] scratch */
};

void *policy_next_use_open(const struct pstar_policy_view *view);
void policy_next_use_close(void *next_use);
void policy_next_use_admit(void *next_use, uint32_t chunk);
void policy_next_use_touch(void *next_use, uint32_t chunk);
void policy_next_use_remove(void *next_use, uint32_t chunk);
/* The chunk used farthest in the future that is not pinned; NO_INDEX. */
uint32_t policy_next_use_farthest(void *next_use);

#endif
