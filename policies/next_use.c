#include "policies/next_use.h"

#include <glib.h>
#include <string.h>

/* ---- sets of numbers ---- */

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

/* ---- pairing heaps ---- */

uint32_t policy_pairing_meld(struct policy_pairing *links, uint32_t a, uint32_t b)
{
    uint32_t top = MIN(a, b), other = MAX(a, b), first = links[top].below;
    links[other].before = top;
    links[other].behind = first;
    if (first != NO_INDEX)
        links[first].before = other;
    links[top].below = other;
    return top;
}

/* Melds `first` and those behind it, which have nothing above them any more, into one heap: two by
 * two at first, then the pairs from the last to the first. */
static uint32_t meld_all(struct policy_pairing *links, uint32_t first)
{
    uint32_t pairs = NO_INDEX, heap = NO_INDEX;
    while (first != NO_INDEX) {
        uint32_t second = links[first].behind, pair = first;
        uint32_t rest = second == NO_INDEX ? NO_INDEX : links[second].behind;
        if (second != NO_INDEX)
            pair = policy_pairing_meld(links, first, second);
        links[pair].behind = pairs;
        pairs = pair;
        first = rest;
    }
    while (pairs != NO_INDEX) {
        uint32_t rest = links[pairs].behind;
        heap = heap == NO_INDEX ? pairs : policy_pairing_meld(links, heap, pairs);
        pairs = rest;
    }
    links[heap].before = links[heap].behind = NO_INDEX;
    return heap;
}

/* Cuts the item, with all that is below it, from the number above it. */
static void cut(struct policy_pairing *links, uint32_t item)
{
    uint32_t before = links[item].before, behind = links[item].behind;
    if (links[before].below == item)
        links[before].below = behind;
    else
        links[before].behind = behind;
    if (behind != NO_INDEX)
        links[behind].before = before;
}

uint32_t policy_pairing_part(struct policy_pairing *links, uint32_t top, uint32_t item)
{
    if (item == top)
        return meld_all(links, links[item].below);
    cut(links, item);
    if (links[item].below == NO_INDEX)
        return top;
    return policy_pairing_meld(links, top, meld_all(links, links[item].below));
}

/* ---- chunks by their next use ---- */

void *policy_next_use_open(const struct pstar_policy_view *view)
{
    struct policy_next_use *set = g_new0(struct policy_next_use, 1);
    set->view = view;
    set->never = 2 * view->moment_count;
    set->iteration = *view->iteration;
    set->moment = g_new(uint32_t, view->chunk_count);
    set->top = g_new(uint32_t, set->never + 1);
    set->links = g_new(struct policy_pairing, view->chunk_count);
    set->aside = g_new(uint32_t, view->chunk_count);
    policy_bitset_init(&set->moments, set->never + 1);
    memset(set->moment, 0xff, view->chunk_count * sizeof *set->moment);
    return set;
}

void policy_next_use_close(void *state)
{
    struct policy_next_use *set = state;
    policy_bitset_clear(&set->moments);
    g_free(set->moment);
    g_free(set->top);
    g_free(set->links);
    g_free(set->aside);
    g_free(set);
}

static inline void put(struct policy_next_use *set, chunk_id chunk)
{
    uint32_t moment = MIN(set->view->next_use[chunk], set->never), *top = &set->top[moment];
    set->moment[chunk] = moment;
    set->latest = MAX(set->latest, moment);
    policy_pairing_init(set->links, chunk);
    if (policy_bitset_has(&set->moments, moment)) {
        *top = policy_pairing_meld(set->links, *top, chunk);
    } else {
        policy_bitset_add(&set->moments, moment);
        *top = chunk;
    }
}

static inline void take(struct policy_next_use *set, chunk_id chunk)
{
    uint32_t moment = set->moment[chunk], *top = &set->top[moment];
    if (policy_pairing_is_alone(set->links, chunk))
        policy_bitset_remove(&set->moments, moment);
    else
        *top = policy_pairing_part(set->links, *top, chunk);
}

/* Counts moments from the start of the view's new iteration. */
static void rebase(struct policy_next_use *set)
{
    set->iteration = *set->view->iteration;
    policy_bitset_empty(&set->moments);
    set->latest = 0;
    for (uint32_t c = 0; c < set->view->chunk_count; c++)
        if (set->moment[c] != NO_INDEX)
            put(set, c);
}

static inline void follow(struct policy_next_use *set)
{
    if (set->iteration != *set->view->iteration)
        rebase(set);
}

void policy_next_use_admit(void *state, chunk_id chunk)
{
    struct policy_next_use *set = state;
    follow(set);
    put(set, chunk);
}

void policy_next_use_touch(void *state, chunk_id chunk)
{
    struct policy_next_use *set = state;
    follow(set);
    take(set, chunk);
    put(set, chunk);
}

void policy_next_use_remove(void *state, chunk_id chunk)
{
    struct policy_next_use *set = state;
    follow(set);
    take(set, chunk);
    set->moment[chunk] = NO_INDEX;
}

/* Pinned chunks are used soon, so the search seldom meets one. */
uint32_t policy_next_use_farthest(void *state)
{
    struct policy_next_use *set = state;
    uint32_t moment, count = 0, found = NO_INDEX;
    follow(set);
    while (found == NO_INDEX &&
           (moment = policy_bitset_last(&set->moments, set->latest)) != NO_INDEX) {
        chunk_id chunk = set->top[moment];
        set->latest = moment;
        if (set->view->pinned[chunk]) {
            set->aside[count++] = chunk;
            take(set, chunk);
        } else {
            found = chunk;
        }
    }
    while (count > 0)
        put(set, set->aside[--count]);
    return found;
}
