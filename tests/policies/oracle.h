/* Slow and obvious versions of the policies, which search arrays from end to end. Chunks have one
 * size, and none is pinned. They follow the papers' rules and share nothing with policies/. */
#ifndef PSTAR_TESTS_POLICIES_ORACLE_H
#define PSTAR_TESTS_POLICIES_ORACLE_H

#include "tests/policies/requests.h"
#include "traces/ids.h"

#include <stdbool.h>

enum { ORACLE_LISTS = 4 };

struct oracle {
    const struct requests *requests;
    bool (*serve)(struct oracle *oracle); /* the rule; returns whether the request missed */
    uint32_t room;
    uint32_t time;               /* requests served */
    uint32_t chunk;              /* requested now */
    GArray *lists[ORACLE_LISTS]; /* uint32_t: chunks, the oldest first */
    uint32_t *entered, *last;    /* [chunk_count] times */
    uint32_t *uses;              /* [chunk_count] since it came */
    uint8_t *dirty;              /* [chunk_count] */
    uint32_t hand;               /* of the clock: a place; of SIEVE: a chunk, or NO_INDEX */
    uint64_t draws;              /* of the random policy */
    uint8_t *stays;              /* [requests] of opt-dirty; NULL until its warm-up is over */
    double target;               /* ARC's p */
    uint32_t most_uses;          /* that count for the clock and s3fifo: 0 if it was not given */
    uint32_t promotion;          /* s3fifo's; 0 if it was not given */
};

/* `policy` by its name, which may have parameters that are whole numbers. */
void oracle_open(struct oracle *oracle, const char *policy, const struct requests *requests,
                 uint32_t room);
void oracle_close(struct oracle *oracle);
/* Serves the next request and moves on, round and round; returns whether it missed. */
bool oracle_request(struct oracle *oracle);

/* Returns the chunk's place in a list, or NO_INDEX. */
uint32_t oracle_find(const GArray *list, uint32_t chunk);
/* Removes the item at a place and returns it. */
uint32_t oracle_take(GArray *list, uint32_t place);

/* Returns, for each of [requests], whether its chunk should stay until its next request in
 * opt-dirty's steady iteration. The caller frees the array. */
uint8_t *oracle_plan_stays(const struct requests *requests, uint32_t room);

bool oracle_sieve(struct oracle *oracle);
bool oracle_arc(struct oracle *oracle);
bool oracle_s3fifo(struct oracle *oracle);

#endif
