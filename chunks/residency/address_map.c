#include "chunks/residency/address_map.h"

#include <string.h>

/* A free range on which work is pending. */
struct pending_range {
    uint64_t begin;
    struct mover_after after;
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

void address_map_release(struct address_map *map, uint64_t begin, uint64_t end,
                         const struct mover_after *after)
{
    if (begin >= end)
        return;
    move_gap(map, begin);
    if (!gap(map))
        widen_gap(map);
    g_assert(map->above == map->room || map->ranges[map->entries[map->above].range].begin >= end);
    uint32_t range = map->unused[gap(map) - 1];
    map->ranges[range] = (struct pending_range){begin, *after};
    map->entries[map->below++] = (struct entry){end, range};
}

void address_map_take(struct address_map *map, uint64_t begin, uint64_t end,
                      struct mover_after *after)
{
    move_gap(map, begin);
    while (map->above < map->room) {
        const struct entry entry = map->entries[map->above];
        const struct pending_range range = map->ranges[entry.range];
        if (range.begin >= end)
            break;
        mover_after_merge(after, &range.after);
        if (entry.end > end) {
            map->ranges[entry.range].begin = end;
        } else {
            map->unused[gap(map)] = entry.range;
            map->above++;
        }
        if (range.begin < begin)
            address_map_release(map, range.begin, begin, &range.after);
        if (entry.end > end)
            break;
    }
}
