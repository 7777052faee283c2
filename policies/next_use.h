/* Resident chunks by their next use, for policies that look into the future. */
#ifndef PSTAR_POLICIES_NEXT_USE_H
#define PSTAR_POLICIES_NEXT_USE_H

#include "policies/policy.h"

/* ---- sets of numbers ---- */

/* Sets of numbers below a bound, which find their greatest member fast. */

enum { POLICY_BITSET_LEVELS = 6 }; /* 64 to the 6th power exceeds every bound */

/* Level 0 has a bit for each number. Every further level has a bit for each word of the level
 * before, which is set if that word is not 0. The last level is one word. */
struct policy_bitset {
    uint64_t *level[POLICY_BITSET_LEVELS];
    uint32_t level_count;
    uint64_t word_count; /* of all levels, which lie one behind the other */
};

/* Makes an empty set; bound > 0. */
void policy_bitset_init(struct policy_bitset *set, uint32_t bound);
void policy_bitset_clear(struct policy_bitset *set);
/* Removes all members. */
void policy_bitset_empty(struct policy_bitset *set);

static inline bool policy_bitset_has(const struct policy_bitset *set, uint32_t number)
{
    return set->level[0][number / 64] >> number % 64 & 1;
}

static inline void policy_bitset_add(struct policy_bitset *set, uint32_t number)
{
    for (uint32_t l = 0; l < set->level_count; l++, number /= 64) {
        uint64_t *word = &set->level[l][number / 64], before = *word;
        *word = before | UINT64_C(1) << number % 64;
        if (before)
            return;
    }
}

static inline void policy_bitset_remove(struct policy_bitset *set, uint32_t number)
{
    for (uint32_t l = 0; l < set->level_count; l++, number /= 64) {
        uint64_t *word = &set->level[l][number / 64];
        *word &= ~(UINT64_C(1) << number % 64);
        if (*word)
            return;
    }
}

static inline uint32_t policy_bitset_greatest_bit(uint64_t word)
{
    return 63 - (uint32_t)__builtin_clzll(word);
}

/* Returns the greatest member that is at most `limit`, or NO_INDEX. `limit` must be below the
 * bound. A member near the limit is found fast. */
static inline uint32_t policy_bitset_last(const struct policy_bitset *set, uint32_t limit)
{
    for (uint32_t l = 0; l < set->level_count; l++) {
        uint64_t word = set->level[l][limit / 64] & UINT64_MAX >> (63 - limit % 64);
        if (word) {
            uint32_t number = limit / 64 * 64 + policy_bitset_greatest_bit(word);
            while (l-- > 0)
                number = number * 64 + policy_bitset_greatest_bit(set->level[l][number]);
            return number;
        }
        if (limit < 64)
            break;
        limit = limit / 64 - 1;
    }
    return NO_INDEX;
}

/* ---- pairing heaps ---- */

/* Pairing heaps of numbers with the lowest on top (Fredman, Sedgewick, Sleator, Tarjan 1986), in
 * memory of the caller. A number is in one heap at most, and a heap is identified by its top. */

struct policy_pairing {
    uint32_t below;          /* the first of the numbers directly below this one */
    uint32_t before, behind; /* its neighbours below the same number. For the first neighbour,
                                `before` is that number */
};

/* Makes a heap of one item. */
static inline void policy_pairing_init(struct policy_pairing *links, uint32_t item)
{
    links[item] = (struct policy_pairing){NO_INDEX, NO_INDEX, NO_INDEX};
}

static inline bool policy_pairing_is_alone(const struct policy_pairing *links, uint32_t item)
{
    return links[item].below == NO_INDEX && links[item].before == NO_INDEX;
}

/* Melds two heaps and returns the new top. */
uint32_t policy_pairing_meld(struct policy_pairing *links, uint32_t a, uint32_t b);

/* Removes the item from the heap of `top` and returns the top of the rest. The item must not be
 * alone in the heap. */
uint32_t policy_pairing_part(struct policy_pairing *links, uint32_t top, uint32_t item);

/* ---- chunks by their next use ---- */

/* The chunk whose next use is farthest comes first; of chunks used at the same moment, the lowest
 * number. The view's next_use may change for a chunk that is touched next. When the view's
 * iteration changes, it drops by moment_count for all chunks.
 *
 * The chunks of one moment are a heap, often of a single chunk. */
struct policy_next_use {
    const struct pstar_policy_view *view;
    uint32_t *moment; /* [chunk_count] the moment of the next use, from the start of `iteration`;
                         NO_INDEX if the chunk is not in the set */
    uint32_t never;   /* 2 moment_count, for chunks without a next use, or with one that is still
                         farther */
    uint32_t iteration;
    struct policy_bitset moments; /* the moments that have a heap */
    uint32_t latest;              /* no moment with a heap is later */
    uint32_t *top;                /* [never + 1] the top of each moment's heap */
    struct policy_pairing *links; /* [chunk_count] of the heaps */
    uint32_t *aside;              /* [chunk_count] scratch */
};

void *policy_next_use_open(const struct pstar_policy_view *view);
void policy_next_use_close(void *next_use);
void policy_next_use_admit(void *next_use, chunk_id chunk);
void policy_next_use_touch(void *next_use, chunk_id chunk);
void policy_next_use_remove(void *next_use, chunk_id chunk);
/* Returns the chunk whose next use is farthest and that is not pinned, or NO_INDEX. */
uint32_t policy_next_use_farthest(void *next_use);

#endif
