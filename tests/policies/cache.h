/* A cache of chunks of one byte each. It drives a policy as chunks/decide.c does, and each request
 * is a moment. */
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

/* Returns the policy's victim, and checks that it is resident and not pinned, or NO_INDEX if there
 * is no such chunk. */
uint32_t cache_victim(struct cache *cache);
/* Removes the chunk, whether the policy chose it or not. */
void cache_remove(struct cache *cache, uint32_t chunk);
/* Serves the next request and moves on; returns whether it missed. */
bool cache_request(struct cache *cache, const struct requests *requests);

#endif
