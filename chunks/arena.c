#include "chunks/arena.h"

#include <glib.h>
#include <string.h>

struct arena *arena_new(uint32_t chunk_count, const uint64_t *bytes)
{
    struct arena *arena = g_new(struct arena, 1);
    *arena = (struct arena){.chunk_count = chunk_count,
                            .slot_bytes = bytes,
                            .address = g_new(uint64_t, chunk_count),
                            .below = g_new(uint32_t, chunk_count + 1),
                            .above = g_new(uint32_t, chunk_count + 1),
                            .holes = g_new(struct arena_hole, chunk_count + 1)};
    arena_clear(arena);
    return arena;
}

void arena_free(struct arena *arena)
{
    if (!arena)
        return;
    g_free(arena->address);
    g_free(arena->below);
    g_free(arena->above);
    g_free(arena->holes);
    g_free(arena);
}

void arena_clear(struct arena *arena)
{
    uint32_t n = arena->chunk_count;
    memset(arena->address, 0xff, n * sizeof *arena->address);
    arena->below[n] = arena->above[n] = n;
    arena->holes[0] = (struct arena_hole){.begin = 0, .end = UINT64_MAX, .below = n};
    arena->hole_count = 1;
}

uint32_t arena_hole_above(const struct arena *arena, uint64_t address)
{
    uint32_t low = 0, high = arena->hole_count - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (arena->holes[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void insert_hole(struct arena *arena, uint32_t index, const struct arena_hole *hole)
{
    struct arena_hole *at = arena->holes + index;
    memmove(at + 1, at, (arena->hole_count++ - index) * sizeof *at);
    *at = *hole;
}

static void remove_hole(struct arena *arena, uint32_t index)
{
    struct arena_hole *at = arena->holes + index;
    memmove(at, at + 1, (--arena->hole_count - index) * sizeof *at);
}

void arena_put(struct arena *arena, chunk_id chunk, uint64_t address)
{
    uint64_t end = address + arena->slot_bytes[chunk];
    uint32_t index = arena_hole_above(arena, address), below = arena->holes[index].below;
    struct arena_hole *hole = &arena->holes[index];
    g_assert(hole->begin <= address && end <= hole->end);
    arena->address[chunk] = address;
    arena->below[chunk] = below;
    arena->above[chunk] = arena->above[below];
    arena->below[arena->above[below]] = chunk;
    arena->above[below] = chunk;
    const struct arena_hole rest = {.begin = end, .end = hole->end, .below = chunk};
    if (address > hole->begin) {
        hole->end = address;
        if (rest.begin < rest.end)
            insert_hole(arena, index + 1, &rest);
    } else if (rest.begin < rest.end) {
        *hole = rest;
    } else {
        remove_hole(arena, index);
    }
}

void arena_take(struct arena *arena, chunk_id chunk)
{
    uint64_t begin = arena->address[chunk], end = begin + arena->slot_bytes[chunk];
    uint32_t below = arena->below[chunk], above = arena->above[chunk];
    uint32_t index = arena_hole_above(arena, begin);
    struct arena_hole *next = &arena->holes[index];
    g_assert(begin != NO_ADDRESS);
    arena->address[chunk] = NO_ADDRESS;
    arena->above[below] = above;
    arena->below[above] = below;
    bool joins_next = next->begin == end;
    bool joins_last = index > 0 && next[-1].end == begin;
    if (joins_last) {
        next[-1].end = joins_next ? next->end : end;
        if (joins_next)
            remove_hole(arena, index);
    } else if (joins_next) {
        next->begin = begin;
        next->below = below;
    } else {
        insert_hole(arena, index, &(struct arena_hole){begin, end, below});
    }
}

/* Moves the chunk down into the hole that ends where it begins. `next` is the first hole above it.
 */
static void slide_down(struct arena *arena, chunk_id chunk, uint64_t address, uint32_t next)
{
    struct arena_hole *below = &arena->holes[next - 1], *above = below + 1;
    uint64_t begin = arena->address[chunk], end = begin + arena->slot_bytes[chunk];
    const struct arena_hole left = {address + arena->slot_bytes[chunk], end, chunk};
    bool fills = below->begin == address, joins = above->begin == end;
    below->end = address;
    if (joins)
        above->begin = left.begin;
    if (fills && joins)
        remove_hole(arena, next - 1);
    else if (fills)
        *below = left;
    else if (!joins)
        insert_hole(arena, next, &left);
    arena->address[chunk] = address;
}

/* Moves the chunk up into the hole `next`, which begins where it ends. */
static void slide_up(struct arena *arena, chunk_id chunk, uint64_t address, uint32_t next)
{
    struct arena_hole *above = &arena->holes[next];
    uint64_t begin = arena->address[chunk], end = address + arena->slot_bytes[chunk];
    const struct arena_hole left = {begin, address, arena->below[chunk]};
    bool fills = above->end == end, joins = next > 0 && above[-1].end == begin;
    above->begin = end;
    if (joins)
        above[-1].end = address;
    if (fills && joins)
        remove_hole(arena, next);
    else if (fills)
        *above = left;
    else if (!joins)
        insert_hole(arena, next, &left);
    arena->address[chunk] = address;
}

void arena_move(struct arena *arena, chunk_id chunk, uint64_t address)
{
    uint64_t begin = arena->address[chunk], bytes = arena->slot_bytes[chunk];
    uint32_t next = arena_hole_above(arena, begin);
    const struct arena_hole *above = &arena->holes[next];
    if (address < begin && next > 0 && above[-1].end == begin && above[-1].begin <= address) {
        slide_down(arena, chunk, address, next);
    } else if (address > begin && above->begin == begin + bytes && address + bytes <= above->end) {
        slide_up(arena, chunk, address, next);
    } else {
        arena_take(arena, chunk);
        arena_put(arena, chunk, address);
    }
}

uint64_t arena_best_fit(const struct arena *arena, uint64_t bytes, uint64_t floor, uint64_t ceiling)
{
    uint64_t best = NO_ADDRESS, least = UINT64_MAX;
    for (uint32_t i = arena_hole_above(arena, floor);
         least > bytes && i < arena->hole_count && arena->holes[i].begin < ceiling; i++) {
        uint64_t begin = MAX(arena->holes[i].begin, floor);
        uint64_t end = MIN(arena->holes[i].end, ceiling);
        if (begin + bytes <= end && end - begin < least) {
            best = begin;
            least = end - begin;
        }
    }
    return best;
}

bool arena_has_room(const struct arena *arena, chunk_id chunk, uint64_t address)
{
    uint64_t end = address + arena->slot_bytes[chunk], own = arena->address[chunk];
    const struct arena_hole *hole = &arena->holes[arena_hole_above(arena, address)];
    if (hole->begin <= address)
        address = MIN(end, hole->end);
    if (own != NO_ADDRESS && own <= address && address < own + arena->slot_bytes[chunk]) {
        address = MIN(end, own + arena->slot_bytes[chunk]);
        hole = &arena->holes[arena_hole_above(arena, address)];
        if (hole->begin <= address)
            address = MIN(end, hole->end);
    }
    return address == end;
}

uint32_t arena_first_above(const struct arena *arena, uint64_t address, uint32_t from)
{
    /* Walks up from the last hole that begins at or below the address, since no hole is between, or
     * from `from` if that is higher. */
    uint32_t hole = arena_hole_above(arena, address), chunk;
    if (arena->holes[hole].begin <= address)
        return arena->above[arena->holes[hole].below];
    chunk = hole > 0 ? arena->above[arena->holes[hole - 1].below]
                     : arena->above[arena->chunk_count];
    if (from != arena->chunk_count && arena->address[from] > arena->address[chunk])
        chunk = from;
    while (arena->address[chunk] + arena->slot_bytes[chunk] <= address)
        chunk = arena->above[chunk];
    return chunk;
}

uint64_t arena_end(const struct arena *arena)
{
    uint32_t top = arena->below[arena->chunk_count];
    return top == arena->chunk_count ? 0 : arena->address[top] + arena->slot_bytes[top];
}
