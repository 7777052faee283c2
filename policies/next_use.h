/* Resident chunks by their next use, for the policies that look into the future. */
#ifndef PSTAR_POLICIES_NEXT_USE_H
#define PSTAR_POLICIES_NEXT_USE_H

#include "policies/policy.h"

/* A heap of chunks, the one used farthest in the future on top. Among chunks of one next use the
 * lowest number is on top. The view's next_use may only change for a chunk that is touched next, or
 * by the same amount for all. */
struct policy_next_use {
    const struct policy_view *view;
    uint32_t *heap;     /* [count] chunks */
    uint32_t *position; /* [chunk_count] of each in the heap */
    uint32_t count;
};

void *policy_next_use_open(const struct policy_view *view);
void policy_next_use_close(void *next_use);
void policy_next_use_admit(void *next_use, uint32_t chunk);
void policy_next_use_touch(void *next_use, uint32_t chunk);
void policy_next_use_remove(void *next_use, uint32_t chunk);
/* The chunk used farthest in the future that is not pinned; POLICY_NONE. */
uint32_t policy_next_use_farthest(void *next_use);

#endif
