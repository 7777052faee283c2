/* Sets of numbers below a bound that find their greatest member at once. */
#ifndef PSTAR_POLICIES_BITSET_H
#define PSTAR_POLICIES_BITSET_H

#include "traces/ids.h"

#include <stdbool.h>

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

#endif
