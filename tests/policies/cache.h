/* A cache of chunks of one size, one byte each, driven as chunks/decide.c drives a policy: each
 * request is a moment of its own. */
#ifndef PSTAR_TESTS_POLICIES_CACHE_H
#define PSTAR_TESTS_POLICIES_CACHE_H

#include "policies/policy.h"
#include "tests/policies/requests.h"

struct cache {
    const struct pstar_policy_ops *policy;
    void *state;
    uint32_t chunk_count, resident_count;
    uint8_t *resident, *pinned, *dirty; /* [chunk_count] */
    uint64_t *bytes;                    /* [chunk_count] all 1 */
    uint32_t *next_use;                 /* [chunk_count] */
    uint32_t moment, iteration, incoming;
    uint8_t *ahead; /* [chunk_count] */
    uint64_t room;
    uint64_t *capacity;           /* [requests + 1] */
    uint32_t misses, write_backs; /* so far */
    struct pstar_policy_view view;
};

void cache_open(struct cache *cache, const struct pstar_policy_ops *policy,
                const struct requests *requests, uint64_t room);
void cache_close(struct cache *cache);

/* The policy's answer, checked: resident and not pinned, NO_INDEX only where none is. */
uint32_t cache_victim(struct cache *cache);
/* The chunk leaves, because the policy said so or not. */
void cache_remove(struct cache *cache, uint32_t chunk);
/* Serves the next request and moves on; returns whether it missed. */
bool cache_request(struct cache *cache, const struct requests *requests);

#endif
