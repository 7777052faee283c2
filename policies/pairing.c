#include "policies/pairing.h"

#include <glib.h>

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

/* `first` and those behind it, which nothing is above any more, become one heap: two by two, then
 * the pairs from the last to the first, so that none is looked at often. */
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

/* Takes the item, and what is below it, from what it is below of. */
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
