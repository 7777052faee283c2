/* opt-dirty as its comment describes it, with every search from end to end and every interval
 * moment by moment. */
#include "tests/policies/oracle.h"

#include <string.h>

struct gaps {
    const struct requests *requests;
    uint32_t room, count; /* gap i follows request i */
    uint32_t *epoch;      /* [count] the writing request that it follows; NO_INDEX */
    uint8_t *copies; /* [count] copies that staying saves; 2 if a write-back is assigned to it */
    uint8_t *stays;  /* [count] */
};

static uint32_t span(const struct gaps *gaps, uint32_t gap)
{
    return gaps->requests->next[gap] - gap - 1;
}

static uint32_t epoch_of(const struct requests *requests, uint32_t gap)
{
    for (uint32_t back = 0; back < requests->count; back++) {
        uint32_t i = (gap + requests->count - back) % requests->count;
        if (requests->items[i].chunk == requests->items[gap].chunk && requests->items[i].writes)
            return i;
    }
    return NO_INDEX;
}

static uint8_t copies_of(const struct gaps *gaps, uint32_t gap)
{
    if (gaps->epoch[gap] == NO_INDEX)
        return 1;
    for (uint32_t other = 0; other < gaps->count; other++) {
        if (gaps->epoch[other] != gaps->epoch[gap])
            continue;
        if (span(gaps, other) > span(gaps, gap) ||
            (span(gaps, other) == span(gaps, gap) && other < gap))
            return 1;
    }
    return 2;
}

/* Finds the chunks that leave while time goes round twice. With `weigh`, a chunk's distance is
 * divided by its copies. */
static void sweep(const struct gaps *gaps, bool weigh, uint8_t *leaves)
{
    g_autofree uint32_t *until = g_new0(uint32_t, gaps->count); /* 0: not in the gap, or has left */
    uint32_t staying = 0;
    for (uint32_t time = 0; time < 2 * gaps->count; time++) {
        uint32_t now = time % gaps->count;
        for (uint32_t g = 0; g < gaps->count; g++)
            if (until[g] && until[g] == time) {
                until[g] = 0;
                staying--;
            }
        while (staying + 1 > gaps->room && staying) {
            uint32_t farthest = NO_INDEX;
            double most = -1;
            for (uint32_t g = 0; g < gaps->count; g++) {
                double copies = weigh ? gaps->copies[g] : 1, far = (until[g] - time) / copies;
                bool cheaper = far == most && weigh && gaps->copies[g] < gaps->copies[farthest];
                if (until[g] && (far > most || cheaper)) {
                    farthest = g;
                    most = far;
                }
            }
            leaves[farthest] = 1;
            until[farthest] = 0;
            staying--;
        }
        leaves[now] = 0;
        until[now] = time + span(gaps, now) + 1;
        staying++;
    }
}

static bool try_to_stay(const struct gaps *gaps, int64_t *room, uint32_t gap)
{
    for (uint32_t i = 1; i <= span(gaps, gap); i++)
        if (room[(gap + i) % gaps->count] < 1)
            return false;
    for (uint32_t i = 1; i <= span(gaps, gap); i++)
        room[(gap + i) % gaps->count]--;
    return true;
}

/* Retains those that the sweep kept, then the others; those that save most copies for their room
 * come first. */
static void fill(const struct gaps *gaps, const uint8_t *leaves, uint8_t *stays)
{
    g_autofree int64_t *room = g_new(int64_t, gaps->count);
    g_autofree uint8_t *tried = g_new0(uint8_t, gaps->count);
    for (uint32_t m = 0; m < gaps->count; m++)
        room[m] = (int64_t)gaps->room - 1;
    for (uint32_t i = 0; i < gaps->count; i++) {
        uint32_t best = NO_INDEX;
        for (uint32_t g = 0; g < gaps->count; g++) {
            if (tried[g])
                continue;
            uint64_t mine = best == NO_INDEX ? 0 : gaps->copies[g] * (uint64_t)span(gaps, best);
            uint64_t its = best == NO_INDEX ? 0 : gaps->copies[best] * (uint64_t)span(gaps, g);
            bool more = mine > its ||
                        (mine == its && best != NO_INDEX && gaps->copies[g] > gaps->copies[best]);
            if (best == NO_INDEX || leaves[g] < leaves[best] || (leaves[g] == leaves[best] && more))
                best = g;
        }
        tried[best] = 1;
        stays[best] = try_to_stay(gaps, room, best);
    }
}

static uint32_t traffic(const struct gaps *gaps, const uint8_t *stays)
{
    uint32_t copies = 0;
    for (uint32_t g = 0; g < gaps->count; g++)
        copies += !stays[g];
    for (uint32_t epoch = 0; epoch < gaps->count; epoch++) {
        bool left = false;
        for (uint32_t g = 0; g < gaps->count; g++)
            left |= gaps->epoch[g] == epoch && !stays[g];
        copies += left;
    }
    return copies;
}

uint8_t *oracle_plan_stays(const struct requests *requests, uint32_t room)
{
    struct gaps gaps = {.requests = requests, .room = room, .count = requests->count};
    uint32_t least = UINT32_MAX;
    g_autofree uint8_t *leaves = g_new0(uint8_t, gaps.count);
    g_autofree uint8_t *stays = g_new0(uint8_t, gaps.count);
    uint8_t *best = g_new0(uint8_t, gaps.count);
    gaps.epoch = g_new(uint32_t, gaps.count);
    gaps.copies = g_new(uint8_t, gaps.count);
    for (uint32_t g = 0; g < gaps.count; g++)
        gaps.epoch[g] = epoch_of(requests, g);
    for (uint32_t g = 0; g < gaps.count; g++)
        gaps.copies[g] = copies_of(&gaps, g);
    for (int weigh = 0; weigh < 2; weigh++) {
        sweep(&gaps, weigh, leaves);
        fill(&gaps, leaves, stays);
        if (traffic(&gaps, stays) < least) {
            least = traffic(&gaps, stays);
            memcpy(best, stays, gaps.count);
        }
    }
    g_free(gaps.epoch);
    g_free(gaps.copies);
    return best;
}
