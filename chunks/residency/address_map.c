#include "chunks/residency/address_map.h"

#include <string.h>

/* A free range on which work is pending. */
struct pending_range {
    uint64_t begin;
    struct mover_after after;
    struct address_leaving leaving; /* without bytes if nothing leaves in parts */
};

struct entry {
    uint64_t end;
    uint32_t range; /* index */
};

/* Entries ascend, and their ranges never overlap. A gap among them lies where the last change was,
 * because chunks that slide one after another change neighbouring entries. Ranges are large, so
 * they stay where they are in memory. */
struct address_map {
    struct entry *entries; /* [room] used are [0, below) and [above, room) */
    uint32_t below, above; /* the gap is between these */
    uint32_t room;
    struct pending_range *ranges; /* [room] */
    uint32_t *unused; /* [room] ranges without an entry; their number is the width of the gap */
};

enum { FIRST_ROOM = 64 };

static uint32_t gap(const struct address_map *map)
{
    return map->above - map->below;
}

struct address_map *address_map_new(void)
{
    struct address_map *map = g_new(struct address_map, 1);
    *map = (struct address_map){.entries = g_new(struct entry, FIRST_ROOM),
                                .ranges = g_new(struct pending_range, FIRST_ROOM),
                                .unused = g_new(uint32_t, FIRST_ROOM),
                                .above = FIRST_ROOM,
                                .room = FIRST_ROOM};
    for (uint32_t i = 0; i < FIRST_ROOM; i++)
        map->unused[i] = i;
    return map;
}

void address_map_free(struct address_map *map)
{
    if (!map)
        return;
    g_free(map->entries);
    g_free(map->ranges);
    g_free(map->unused);
    g_free(map);
}

/* Returns the first entry of [low, high) that ends after `address`; `high` if there is none. */
static uint32_t first_after(const struct address_map *map, uint32_t low, uint32_t high,
                            uint64_t address)
{
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (map->entries[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Moves the gap so that all entries that end at or below `address` are below it, and the others
 * above. */
static void move_gap(struct address_map *map, uint64_t address)
{
    if (map->below > 0 && map->entries[map->below - 1].end > address) {
        uint32_t first = first_after(map, 0, map->below, address), count = map->below - first;
        map->above -= count;
        memmove(map->entries + map->above, map->entries + first, count * sizeof *map->entries);
        map->below = first;
    } else if (map->above < map->room && map->entries[map->above].end <= address) {
        uint32_t first = first_after(map, map->above, map->room, address);
        uint32_t count = first - map->above;
        memmove(map->entries + map->below, map->entries + map->above, count * sizeof *map->entries);
        map->below += count;
        map->above = first;
    }
}

static void widen_gap(struct address_map *map)
{
    uint32_t tail = map->room - map->above, room = 2 * map->room;
    map->entries = g_renew(struct entry, map->entries, room);
    map->ranges = g_renew(struct pending_range, map->ranges, room);
    map->unused = g_renew(uint32_t, map->unused, room);
    memmove(map->entries + room - tail, map->entries + map->above, tail * sizeof *map->entries);
    for (uint32_t i = 0; i < map->room; i++)
        map->unused[i] = map->room + i;
    map->room = room;
    map->above = room - tail;
}

/* Adds an entry for [begin, end). Returns the index of its range, which the caller fills in. */
static uint32_t add_entry(struct address_map *map, uint64_t begin, uint64_t end)
{
    move_gap(map, begin);
    if (!gap(map))
        widen_gap(map);
    g_assert(map->above == map->room || map->ranges[map->entries[map->above].range].begin >= end);
    uint32_t range = map->unused[gap(map) - 1];
    map->entries[map->below++] = (struct entry){end, range};
    return range;
}

void address_map_release(struct address_map *map, uint64_t begin, uint64_t end,
                         const struct mover_after *after, const struct address_leaving *leaving)
{
    if (begin >= end)
        return;
    uint32_t range = add_entry(map, begin, end); /* may move all ranges */
    struct pending_range *pending = &map->ranges[range];
    pending->begin = begin;
    pending->after = *after;
    pending->leaving.bytes = 0;
    if (leaving)
        pending->leaving = *leaving;
}

/* A chunk that comes to a range of the map. */
struct coming {
    uint64_t begin, end, bytes;
    struct mover_after *after; /* [COPY_PARTS] if it comes in parts, else [1] */
    bool in_parts;
};

/* Returns the part of a write-back that must be over before the part can come to its range. */
static uint32_t awaited_part(const struct coming *chunk, uint32_t part,
                             const struct pending_range *pending, uint64_t pending_end)
{
    const struct address_leaving *leaving = &pending->leaving;
    uint64_t end = MIN(chunk->begin + copy_part_offset(chunk->bytes, part + 1), pending_end);
    uint64_t last = part;
    if (end > MAX(chunk->begin, pending->begin)) /* the last part that begins before `end` */
        last = MAX(last, ((end - leaving->begin) * COPY_PARTS - 1) / leaving->bytes);
    return (uint32_t)MIN(last, COPY_PARTS - 1);
}

/* Adds what the chunk waits for where it meets a pending range. */
static void meet(const struct coming *chunk, const struct pending_range *pending,
                 uint64_t pending_end)
{
    if (!chunk->in_parts) {
        mover_after_merge(chunk->after, &pending->after);
        return;
    }
    struct mover_after after = pending->after;
    for (uint32_t part = 0; part < COPY_PARTS; part++) {
        if (pending->leaving.bytes)
            after.queue[MOVER_D2H] =
                pending->leaving.written[awaited_part(chunk, part, pending, pending_end)];
        mover_after_merge(&chunk->after[part], &after);
    }
}

static void take(struct address_map *map, const struct coming *chunk)
{
    move_gap(map, chunk->begin);
    while (map->above < map->room) {
        const struct entry entry = map->entries[map->above];
        uint64_t begin = map->ranges[entry.range].begin;
        if (begin >= chunk->end)
            break;
        meet(chunk, &map->ranges[entry.range], entry.end);
        if (entry.end > chunk->end) {
            map->ranges[entry.range].begin = chunk->end;
        } else {
            map->unused[gap(map)] = entry.range;
            map->above++;
        }
        if (begin < chunk->begin) {
            uint32_t below = add_entry(map, begin, chunk->begin);
            map->ranges[below] = map->ranges[entry.range];
            map->ranges[below].begin = begin;
        }
        if (entry.end > chunk->end)
            break;
    }
}

void address_map_take(struct address_map *map, uint64_t begin, uint64_t end,
                      struct mover_after *after)
{
    const struct coming chunk = {.begin = begin, .end = end, .after = after};
    take(map, &chunk);
}

void address_map_take_in_parts(struct address_map *map, uint64_t begin, uint64_t end,
                               uint64_t bytes, struct mover_after after[COPY_PARTS])
{
    const struct coming chunk = {begin, end, bytes, after, true};
    take(map, &chunk);
}
