#include "policies/bitset.h"

#include <glib.h>
#include <string.h>

void policy_bitset_init(struct policy_bitset *set, uint32_t bound)
{
    uint64_t before[POLICY_BITSET_LEVELS], words = bound;
    *set = (struct policy_bitset){0};
    do {
        words = (words + 63) / 64;
        before[set->level_count++] = set->word_count;
        set->word_count += words;
    } while (words > 1);
    uint64_t *all = g_new0(uint64_t, set->word_count);
    for (uint32_t l = 0; l < set->level_count; l++)
        set->level[l] = all + before[l];
}

void policy_bitset_clear(struct policy_bitset *set)
{
    g_free(set->level[0]);
}

void policy_bitset_empty(struct policy_bitset *set)
{
    memset(set->level[0], 0, set->word_count * sizeof *set->level[0]);
}
