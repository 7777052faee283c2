/* A queue of resident chunks, for the policies that keep one order. */
#ifndef PSTAR_POLICIES_QUEUE_H
#define PSTAR_POLICIES_QUEUE_H

#include "policies/policy.h"
#include "policies/ring.h"

struct policy_queue {
    const struct pstar_policy_view *view;
    struct policy_link *links; /* [chunk_count + 1] a ring */
    uint32_t head;             /* chunk_count */
};

void *policy_queue_open(const struct pstar_policy_view *view);
void policy_queue_close(void *queue);

/* Takes a chunk that is not in the queue in as the youngest. */
void policy_queue_push(void *queue, uint32_t chunk);
void policy_queue_remove(void *queue, uint32_t chunk);
/* The oldest that is not pinned; NO_INDEX. */
uint32_t policy_queue_oldest(void *queue);

#endif
