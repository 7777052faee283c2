#include "chunks/placing.h"

/* A hole grows upwards or downwards, chunk by chunk: one that fits into a hole elsewhere goes
 * there, one that does not slides over to the other side of the growing hole, and a hole on the way
 * joins it. */
struct growth {
    uint32_t hole; /* index in the arena */
    bool upwards;
    bool rehouses;        /* false: all slide */
    uint64_t begin, end;  /* of the hole and all that it has met */
    uint64_t slid, moved; /* bytes: of those that slide, of all that move */
    uint32_t next;        /* the hole that it meets next */
    uint32_t count;       /* chunks that move: in p->chunks, where to in p->targets */
};

/* Holes below the ceiling, cut off there. */
static uint32_t list_holes(struct placing *p, uint64_t ceiling)
{
    uint32_t count = 0;
    p->largest = 0;
    for (; count < p->arena->hole_count && p->arena->holes[count].begin < ceiling; count++) {
        p->holes[count] = p->arena->holes[count];
        p->holes[count].end = MIN(p->holes[count].end, ceiling);
        p->largest = MAX(p->largest, p->holes[count].end - p->holes[count].begin);
    }
    return count;
}

/* The smallest of the listed holes that holds `bytes`, which it then has taken; ARENA_NOWHERE. */
static uint64_t find_elsewhere(struct placing *p, uint32_t hole_count, uint64_t bytes)
{
    struct arena_hole *best = NULL;
    if (bytes > p->largest)
        return ARENA_NOWHERE;
    for (uint32_t i = 0; i < hole_count; i++) {
        uint64_t room = p->holes[i].end - p->holes[i].begin;
        if (room >= bytes && (!best || room < best->end - best->begin))
            best = &p->holes[i];
    }
    if (!best) {
        p->largest = bytes - 1;
        return ARENA_NOWHERE;
    }
    best->begin += bytes;
    return best->begin - bytes;
}

/* Takes in the hole at the edge, if there is one; false: somebody was to go into it. */
static bool join_next(struct placing *p, uint32_t hole_count, struct growth *g)
{
    if (g->next >= hole_count)
        return true;
    const struct arena_hole *hole = &p->arena->holes[g->next];
    struct arena_hole *left = &p->holes[g->next];
    if (g->upwards ? hole->begin != g->end : hole->end != g->begin)
        return true;
    if (left->begin != hole->begin)
        return false;
    if (g->upwards)
        g->end = left->end;
    else
        g->begin = left->begin;
    left->begin = left->end;
    g->next += g->upwards ? 1 : UINT32_MAX; /* below the lowest: beyond all */
    return true;
}

static bool take_chunk(struct placing *p, uint32_t hole_count, uint32_t chunk, uint64_t ceiling,
                       struct growth *g)
{
    uint64_t bytes = p->arena->bytes[chunk], address = p->arena->address[chunk];
    uint64_t target = ARENA_NOWHERE;
    if (g->upwards ? address + bytes > ceiling : address < p->floor)
        return false;
    if (g->rehouses)
        target = find_elsewhere(p, hole_count, bytes);
    p->chunks[g->count] = chunk;
    p->targets[g->count++] = target;
    g->moved += bytes;
    g->slid += target == ARENA_NOWHERE ? bytes : 0;
    if (g->upwards)
        g->end = address + bytes;
    else
        g->begin = address;
    return true;
}

/* Until `bytes` are free; false where it cannot, or not by moving less than `limit`. */
static bool grow(struct placing *p, struct growth *g, uint64_t bytes, uint64_t ceiling,
                 uint64_t limit)
{
    const struct arena *arena = p->arena;
    uint32_t hole_count = list_holes(p, ceiling);
    uint32_t chunk = g->upwards ? arena->above[arena->holes[g->hole].below]
                                : arena->holes[g->hole].below;
    g->begin = p->holes[g->hole].begin;
    g->end = p->holes[g->hole].end;
    g->slid = g->moved = g->count = 0;
    g->next = g->upwards ? g->hole + 1 : g->hole - 1;
    p->holes[g->hole].begin = g->end;
    while (g->end - g->begin - g->slid < bytes) {
        if (chunk == arena->chunk_count || !take_chunk(p, hole_count, chunk, ceiling, g) ||
            g->moved >= limit || !join_next(p, hole_count, g))
            return false;
        chunk = g->upwards ? arena->above[chunk] : arena->below[chunk];
    }
    return true;
}

/* Holes that are tried: the largest. */
enum { TRIED = 4 };

static uint32_t choose_holes(struct placing *p, uint64_t ceiling, uint32_t chosen[TRIED])
{
    uint32_t hole_count = list_holes(p, ceiling), count = 0;
    for (uint32_t i = 0; i < hole_count; i++) {
        uint64_t room = p->holes[i].end - p->holes[i].begin;
        uint32_t at = MIN(count, TRIED - 1);
        if (count == TRIED && room <= p->holes[chosen[at]].end - p->holes[chosen[at]].begin)
            continue;
        count = MIN(count + 1, TRIED);
        for (; at > 0 && room > p->holes[chosen[at - 1]].end - p->holes[chosen[at - 1]].begin; at--)
            chosen[at] = chosen[at - 1];
        chosen[at] = i;
    }
    return count;
}

/* The growth that moves the fewest bytes; false: none suffices. */
static bool find_cheapest(struct placing *p, uint64_t bytes, uint64_t ceiling, struct growth *best)
{
    uint32_t chosen[TRIED], count = choose_holes(p, ceiling, chosen);
    uint64_t limit = UINT64_MAX;
    bool found = false;
    for (uint64_t most = 2 * bytes; !found && most < 64 * bytes; most *= 4) {
        limit = most;
        for (uint32_t i = 0; i < 2 * count; i++) {
            struct growth g = {.hole = chosen[i / 2], .upwards = i % 2, .rehouses = true};
            if (grow(p, &g, bytes, ceiling, limit)) {
                *best = g;
                limit = g.moved;
                found = true;
            }
        }
    }
    return found;
}

static void rehouse(struct placing *p, const struct growth *g)
{
    for (uint32_t i = 0; i < g->count; i++)
        if (p->targets[i] != ARENA_NOWHERE)
            placing_move(p, p->chunks[i], p->targets[i]);
}

/* The others, nearest first, to where the hole was. Returns where the room begins. */
static uint64_t slide_over(struct placing *p, const struct growth *g)
{
    uint64_t cursor = g->upwards ? g->begin : g->end;
    for (uint32_t i = 0; i < g->count; i++) {
        uint64_t bytes = p->arena->bytes[p->chunks[i]];
        if (p->targets[i] != ARENA_NOWHERE)
            continue;
        cursor -= g->upwards ? 0 : bytes;
        placing_move(p, p->chunks[i], cursor);
        cursor += g->upwards ? bytes : 0;
    }
    return g->upwards ? cursor : g->begin;
}

uint64_t placing_make_room(struct placing *p, uint64_t bytes, uint64_t ceiling)
{
    struct growth best;
    /* All holes together suffice: the lowest meets them all. */
    if (!find_cheapest(p, bytes, ceiling, &best))
        best = (struct growth){.hole = 0, .upwards = true};
    bool found = grow(p, &best, bytes, ceiling, UINT64_MAX);
    g_assert(found);
    rehouse(p, &best);
    return slide_over(p, &best);
}

/* The highest chunks, downwards, until what fits into holes below has left `bytes` between them;
 * false: somebody was to go into a hole that is among them. */
static bool reach_down(struct placing *p, struct growth *g, uint64_t bytes, uint64_t ceiling)
{
    uint32_t hole_count = list_holes(p, ceiling), chunk = p->arena->below[p->arena->chunk_count];
    g->begin = g->end = arena_end(p->arena);
    g->slid = g->count = 0;
    g->next = hole_count - 1;
    while (g->end - g->begin - g->slid < bytes) {
        bool taken = take_chunk(p, hole_count, chunk, ceiling, g);
        g_assert(taken);
        if (!join_next(p, hole_count, g))
            return false;
        chunk = p->arena->below[chunk];
    }
    return true;
}

/* Of the highest chunks some go into holes below, the others slide down, and end below the ceiling.
 */
static void press_below(struct placing *p, uint64_t ceiling)
{
    struct growth g = {.rehouses = true};
    uint64_t excess = arena_end(p->arena) - ceiling;
    if (!reach_down(p, &g, excess, ceiling)) {
        g.rehouses = false;
        reach_down(p, &g, excess, ceiling);
    }
    rehouse(p, &g);
    uint64_t cursor = g.begin;
    for (uint32_t i = g.count; i-- > 0;) {
        if (p->targets[i] != ARENA_NOWHERE)
            continue;
        if (p->arena->address[p->chunks[i]] != cursor)
            placing_move(p, p->chunks[i], cursor);
        cursor += p->arena->bytes[p->chunks[i]];
    }
}

void placing_clear_above(struct placing *p, uint64_t ceiling)
{
    const struct arena *arena = p->arena;
    while (arena_end(arena) > ceiling) {
        uint32_t top = arena->below[arena->chunk_count];
        uint64_t address = placing_find(p, top, ceiling);
        if (address == ARENA_NOWHERE)
            press_below(p, ceiling);
        else
            placing_move(p, top, address);
    }
}
