#include "chunks/place_internal.h"

/* ---- room ---- */

/* A hole grows upwards or downwards, chunk by chunk. A chunk that fits into a hole elsewhere goes
 * there. A chunk that does not slides to the other side of the growing hole. A hole on the way
 * becomes a part of it. */
struct growth {
    uint32_t hole; /* its index in the arena */
    bool upwards;
    bool rehouses;            /* if false, all chunks slide */
    bool spares;              /* chunks that are leaving or arriving do not move */
    uint64_t begin, end;      /* of the hole with all that it has met */
    uint64_t slid, moved;     /* bytes of the chunks that slide, and of all that move */
    chunk_id chunk;           /* the chunk that it meets next; chunk_count if there is none */
    uint32_t next;            /* the index of the hole that it meets next */
    struct arena_hole *holes; /* [hole_count] the arena's holes below the ceiling, without what
                                 chunks were assigned to; those before `first` are not set */
    uint32_t first, hole_count;
    uint64_t floor;   /* below it no chunk moves and no hole is used */
    uint64_t largest; /* no hole is larger */
    uint32_t count;   /* of chunks that move; if they are recorded, they are in p->chunks and their
                         new addresses in p->targets */
    bool records;
};

/* Lists the holes below the ceiling, cut off there. */
static void list_holes(const struct placing *p, uint64_t ceiling, struct growth *g)
{
    const struct arena_hole *holes = p->arena->holes;
    g->first = arena_hole_above(p->arena, g->floor);
    g->hole_count = p->arena->hole_count;
    while (g->hole_count > g->first && holes[g->hole_count - 1].begin >= ceiling)
        g->hole_count--;
    g->largest = 0;
    for (uint32_t i = g->first; i < g->hole_count; i++) {
        g->holes[i] = holes[i];
        g->holes[i].end = MIN(holes[i].end, ceiling);
        g->largest = MAX(g->largest, g->holes[i].end - holes[i].begin);
    }
}

/* Assigns `bytes` to the smallest hole that holds them and returns their address, or NO_ADDRESS. */
static uint64_t find_elsewhere(struct growth *g, uint64_t bytes)
{
    struct arena_hole *best = NULL;
    uint64_t least = UINT64_MAX;
    if (bytes > g->largest)
        return NO_ADDRESS;
    for (uint32_t i = g->first; i < g->hole_count && least > bytes; i++) {
        uint64_t room = g->holes[i].end - g->holes[i].begin;
        if (room >= bytes && room < least) {
            best = &g->holes[i];
            least = room;
        }
    }
    if (!best) {
        g->largest = bytes - 1;
        return NO_ADDRESS;
    }
    best->begin += bytes;
    return best->begin - bytes;
}

/* Absorbs the adjacent hole, if there is one. Returns false if a chunk is already assigned to it.
 */
static bool join_next(const struct placing *p, struct growth *g)
{
    if (g->next < g->first || g->next >= g->hole_count)
        return true;
    const struct arena_hole *hole = &p->arena->holes[g->next];
    struct arena_hole *left = &g->holes[g->next];
    if (g->upwards ? hole->begin != g->end : hole->end != g->begin)
        return true;
    if (left->begin != hole->begin)
        return false;
    if (g->upwards)
        g->end = left->end;
    else
        g->begin = left->begin;
    left->begin = left->end;
    g->next += g->upwards
                   ? 1
                   : UINT32_MAX; /* below the lowest one it becomes UINT32_MAX, beyond all holes */
    return true;
}

static bool take_chunk(struct placing *p, uint64_t ceiling, struct growth *g)
{
    const struct arena *arena = p->arena;
    uint64_t bytes = arena->slot_bytes[g->chunk], address = arena->address[g->chunk];
    if (g->upwards ? address + bytes > ceiling : address < g->floor)
        return false;
    if (g->spares && (p->leaving[g->chunk] || p->arrives[g->chunk] > p->moment))
        return false;
    uint64_t target = g->rehouses ? find_elsewhere(g, bytes) : NO_ADDRESS;
    if (g->records) {
        p->chunks[g->count] = g->chunk;
        p->targets[g->count++] = target;
    }
    g->moved += bytes;
    g->slid += target == NO_ADDRESS ? bytes : 0;
    if (g->upwards)
        g->end = address + bytes;
    else
        g->begin = address;
    g->chunk = g->upwards ? arena->above[g->chunk] : arena->below[g->chunk];
    return true;
}

/* Grows by one chunk. Returns false if it cannot. */
static bool grow(struct placing *p, uint64_t ceiling, struct growth *g)
{
    return g->chunk != p->arena->chunk_count && take_chunk(p, ceiling, g) && join_next(p, g);
}

static bool suffices(const struct growth *g, uint64_t bytes)
{
    return g->end - g->begin - g->slid >= bytes;
}

static void begin_growth(const struct placing *p, uint64_t ceiling, struct growth *g)
{
    list_holes(p, ceiling, g);
    g->chunk = g->upwards ? p->arena->above[p->arena->holes[g->hole].below]
                          : p->arena->holes[g->hole].below;
    g->begin = g->holes[g->hole].begin;
    g->end = g->holes[g->hole].end;
    g->slid = g->moved = g->count = 0;
    g->next = g->upwards ? g->hole + 1 : g->hole - 1;
    g->holes[g->hole].begin = g->end;
}

/* Chooses the largest holes below the ceiling, and returns how many. */
static uint32_t choose_holes(const struct placing *p, uint64_t floor, uint64_t ceiling,
                             uint32_t chosen[PLACING_TRIED])
{
    uint64_t rooms[PLACING_TRIED];
    uint32_t count = 0;
    for (uint32_t i = arena_hole_above(p->arena, floor);
         i < p->arena->hole_count && p->arena->holes[i].begin < ceiling; i++) {
        uint64_t room = MIN(p->arena->holes[i].end, ceiling) - p->arena->holes[i].begin;
        uint32_t at = MIN(count, PLACING_TRIED - 1);
        if (count == PLACING_TRIED && room <= rooms[at])
            continue;
        count = MIN(count + 1, PLACING_TRIED);
        for (; at > 0 && room > rooms[at - 1]; at--) {
            chosen[at] = chosen[at - 1];
            rooms[at] = rooms[at - 1];
        }
        chosen[at] = i;
        rooms[at] = room;
    }
    return count;
}

/* Grows until the hole suffices, or more than `limit` bytes have moved. Returns false if it cannot
 * grow. */
static bool grow_up_to(struct placing *p, uint64_t bytes, uint64_t ceiling, uint64_t limit,
                       struct growth *g)
{
    while (!suffices(g, bytes) && g->moved <= limit)
        if (!grow(p, ceiling, g))
            return false;
    return true;
}

/* Returns the growth that has moved the fewest bytes so far. *limit becomes what the second one has
 * moved. */
static struct growth *find_least(struct growth *growths, uint32_t count, uint64_t *limit)
{
    struct growth *least = growths;
    *limit = UINT64_MAX;
    for (struct growth *g = growths + 1; g < growths + count; g++) {
        if (g->moved < least->moved) {
            *limit = least->moved;
            least = g;
        } else {
            *limit = MIN(*limit, g->moved);
        }
    }
    return least;
}

/* Returns whether all holes that may grow or be filled hold so many bytes together. Mostly they do
 * not if no growth suffices. */
static bool holes_hold(const struct placing *p, uint64_t floor, uint64_t ceiling, uint64_t bytes)
{
    const struct arena *arena = p->arena;
    uint64_t sum = 0;
    for (uint32_t i = arena_hole_above(arena, floor);
         sum < bytes && i < arena->hole_count && arena->holes[i].begin < ceiling; i++)
        sum += MIN(arena->holes[i].end, ceiling) - arena->holes[i].begin;
    return sum >= bytes;
}

/* Finds the growth of one of the largest holes that moves the fewest bytes, and records it. The
 * growth that has moved the least so far always goes on. Returns false if none suffices. */
static bool find_cheapest(struct placing *p, uint64_t bytes, uint64_t ceiling, bool spares,
                          struct growth *best)
{
    uint64_t floor = bytes < p->small ? p->floor : p->small_end;
    if (!holes_hold(p, floor, ceiling, bytes))
        return false;
    uint32_t chosen[PLACING_TRIED], count = 2 * choose_holes(p, floor, ceiling, chosen);
    struct growth growths[2 * PLACING_TRIED];
    for (uint32_t i = 0; i < count; i++) {
        growths[i] = (struct growth){.hole = chosen[i / 2],
                                     .upwards = i % 2,
                                     .rehouses = true,
                                     .spares = spares,
                                     .floor = floor,
                                     .holes = p->holes + i * (p->arena->chunk_count + 1)};
        begin_growth(p, ceiling, &growths[i]);
    }
    while (count) {
        uint64_t limit;
        struct growth *g = find_least(growths, count, &limit);
        if (!grow_up_to(p, bytes, ceiling, limit, g)) {
            *g = growths[--count];
        } else if (suffices(g, bytes) && g->moved <= limit) {
            *best = *g;
            best->records = true;
            begin_growth(p, ceiling, best);
            return grow_up_to(p, bytes, ceiling, UINT64_MAX, best);
        }
    }
    return false;
}

static void rehouse(struct placing *p, const struct growth *g)
{
    for (uint32_t i = 0; i < g->count; i++)
        if (p->targets[i] != NO_ADDRESS)
            placing_move(p, p->chunks[i], p->targets[i]);
}

/* Slides the other chunks, nearest first, to where the hole was. Returns where the room begins. */
static uint64_t slide_over(struct placing *p, const struct growth *g)
{
    uint64_t cursor = g->upwards ? g->begin : g->end;
    for (uint32_t i = 0; i < g->count; i++) {
        uint64_t bytes = p->arena->slot_bytes[p->chunks[i]];
        if (p->targets[i] != NO_ADDRESS)
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
    if (!find_cheapest(p, bytes, ceiling, false, &best)) {
        /* All holes together suffice, and the lowest one meets them all. */
        best =
            (struct growth){.upwards = true, .floor = p->floor, .holes = p->holes, .records = true};
        begin_growth(p, ceiling, &best);
        bool found = grow_up_to(p, bytes, ceiling, UINT64_MAX, &best);
        g_assert(found);
    }
    rehouse(p, &best);
    return slide_over(p, &best);
}

uint64_t placing_try_to_make_room(struct placing *p, uint64_t bytes, uint64_t ceiling)
{
    struct growth best;
    if (!find_cheapest(p, bytes, ceiling, true, &best))
        return NO_ADDRESS;
    rehouse(p, &best);
    return slide_over(p, &best);
}

/* Takes chunks from the highest downwards, until those that fit into holes below have left `bytes`
 * between the others. Returns false if a chunk was assigned to a hole among them. */
static bool reach_down(struct placing *p, struct growth *g, uint64_t bytes, uint64_t ceiling)
{
    list_holes(p, ceiling, g);
    g->chunk = p->arena->below[p->arena->chunk_count];
    g->begin = g->end = arena_end(p->arena);
    g->slid = g->count = 0;
    g->next = g->hole_count - 1;
    while (!suffices(g, bytes)) {
        bool taken = take_chunk(p, ceiling, g);
        g_assert(taken);
        if (!join_next(p, g))
            return false;
    }
    return true;
}

/* Some of the highest chunks go into holes below. The others slide down until they end below the
 * ceiling. */
static void press_below(struct placing *p, uint64_t ceiling)
{
    struct growth g = {.rehouses = true, .floor = p->floor, .holes = p->holes, .records = true};
    uint64_t excess = arena_end(p->arena) - ceiling;
    if (!reach_down(p, &g, excess, ceiling)) {
        g.rehouses = false;
        reach_down(p, &g, excess, ceiling);
    }
    rehouse(p, &g);
    uint64_t cursor = g.begin;
    for (uint32_t i = g.count; i-- > 0;) {
        if (p->targets[i] != NO_ADDRESS)
            continue;
        if (p->arena->address[p->chunks[i]] != cursor)
            placing_move(p, p->chunks[i], cursor);
        cursor += p->arena->slot_bytes[p->chunks[i]];
    }
}

void placing_clear_above(struct placing *p, uint64_t ceiling)
{
    const struct arena *arena = p->arena;
    while (arena_end(arena) > ceiling) {
        uint32_t top = arena->below[arena->chunk_count];
        uint64_t address = placing_find(p, top, ceiling);
        if (address == NO_ADDRESS)
            press_below(p, ceiling);
        else
            placing_move(p, top, address);
    }
}

/* ---- home ---- */

static bool is_home(const struct placing *p, chunk_id chunk)
{
    return p->arena->address[chunk] == p->start[chunk];
}

static int lowest_start_first(const void *left, const void *right, void *data)
{
    const uint64_t *start = data;
    uint64_t a = start[*(const uint32_t *)left], b = start[*(const uint32_t *)right];
    return (a > b) - (a < b);
}

/* Lists the chunks that are not at their start, in the order of their starts. */
static GArray *list_away(const struct placing *p)
{
    GArray *away = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t c = 0; c < p->arena->chunk_count; c++)
        if (!is_home(p, c))
            g_array_append_val(away, c);
    g_array_sort_with_data(away, lowest_start_first, p->start);
    return away;
}

/* Moves the chunks whose start is free, and keeps the others in the list. */
static void move_straight(struct placing *p, GArray *away)
{
    uint32_t before;
    do {
        before = away->len;
        uint32_t left = 0;
        for (uint32_t i = 0; i < before; i++) {
            chunk_id chunk = g_array_index(away, uint32_t, i);
            if (arena_has_room(p->arena, chunk, p->start[chunk]))
                placing_move(p, chunk, p->start[chunk]);
            else
                g_array_index(away, uint32_t, left++) = chunk;
        }
        g_array_set_size(away, left);
    } while (away->len < before);
}

static void send_to_host(struct placing *p, chunk_id chunk, GArray *gone)
{
    bool gathered = p->layout->chunks[chunk].list == TRACE_GATHERED;
    placing_take(p, chunk);
    placing_emit(p, gathered ? PLAN_DROP : PLAN_WRITE_BACK, chunk, NO_ADDRESS);
    p->returned += p->arena->slot_bytes[chunk];
    g_array_append_val(gone, chunk);
}

/* Finds a hole for the chunk outside of [begin, end), where it is in the way. */
static uint64_t find_aside(const struct placing *p, chunk_id chunk, uint64_t begin, uint64_t end,
                           uint64_t ceiling)
{
    uint64_t bytes = p->arena->slot_bytes[chunk];
    uint64_t above = arena_best_fit(p->arena, bytes, end, ceiling);
    return above != NO_ADDRESS ? above : arena_best_fit(p->arena, bytes, p->floor, begin);
}

/* Moves the chunks that lie where this chunk began. Those that fit nowhere else go to the host, or
 * are gathered again.
 * `below` is a chunk at its start below this one's, or chunk_count. */
static void make_way(struct placing *p, chunk_id chunk, uint32_t below, uint64_t ceiling,
                     GArray *gone)
{
    const struct arena *arena = p->arena;
    uint64_t begin = p->start[chunk], end = begin + arena->slot_bytes[chunk];
    uint32_t other = arena_first_above(arena, begin, below);
    while (other != arena->chunk_count && arena->address[other] < end) {
        uint32_t next = arena->above[other];
        if (other != chunk) {
            uint64_t aside = find_aside(p, other, begin, end, ceiling);
            if (aside != NO_ADDRESS)
                placing_move(p, other, aside);
            else
                send_to_host(p, other, gone);
        }
        other = next;
    }
}

void placing_go_home(struct placing *p, uint64_t ceiling)
{
    g_autoptr(GArray) away = list_away(p), gone = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    uint32_t below = p->arena->chunk_count;
    move_straight(p, away);
    for (uint32_t i = 0; i < away->len; i++) {
        chunk_id chunk = g_array_index(away, uint32_t, i);
        if (p->arena->address[chunk] == NO_ADDRESS || is_home(p, chunk))
            continue;
        make_way(p, chunk, below, ceiling, gone);
        placing_move(p, chunk, p->start[chunk]);
        below = chunk;
    }
    for (uint32_t i = 0; i < gone->len; i++) {
        chunk_id chunk = g_array_index(gone, uint32_t, i);
        placing_put(p, chunk, p->start[chunk]);
        placing_emit(p, PLAN_FETCH, chunk, p->start[chunk]);
    }
}
