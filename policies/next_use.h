/* Resident chunks by their next use, for the policies that look into the future. */
#ifndef PSTAR_POLICIES_NEXT_USE_H
#define PSTAR_POLICIES_NEXT_USE_H

#include "policies/policy.h"

/* ---- sets of numbers ---- */

/* Sets of numbers below a bound that find their greatest member at once. */

enum { POLICY_BITSET_LEVELS = 6 }; /* 64 to the 6th exceeds every bound */

/* Level 0 has a bit for each number, every further level a bit for each word of the level before:
 * set where that word is not 0. The last level is one word. */
struct policy_bitset {
    uint64_t *level[POLICY_BITSET_LEVELS];
    uint32_t level_count;
    uint64_t word_count; /* of all levels; they lie behind each other */
};

/* Empty; 0 < bound. */
void policy_bitset_init(struct policy_bitset *set, uint32_t bound);
void policy_bitset_clear(struct policy_bitset *set);
/* Takes all members out. */
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

/* The greatest member that is at most `limit`, which is below the bound; NO_INDEX. Fast
 * where it is near. */
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

/* Pairing heaps of numbers, the lowest on top (Fredman, Sedgewick, Sleator, Tarjan 1986), without
 * memory of their own. A number is in one heap at most, and a heap is known by its top. */

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

/* ---- chunks by their next use ---- */

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
