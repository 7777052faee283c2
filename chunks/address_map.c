#include "chunks/address_map.h"

#include <string.h>

struct range {
    uint64_t begin, end;
    struct mover_after after;
};

/* Free ranges with work pending on them, ascending, never overlapping, with a gap among them where
 * the last change was: chunks that slide one after the other change the map along their way. */
struct address_map {
    struct range *ranges;  /* [room]: [0, below) and [above, room) */
    uint32_t below, above; /* the gap is between */
    uint32_t room;
};

enum { FIRST_ROOM = 64 };

struct address_map *address_map_new(void)
{
    struct address_map *map = g_new(struct address_map, 1);
    *map = (struct address_map){
        .ranges = g_new(struct range, FIRST_ROOM), .above = FIRST_ROOM, .room = FIRST_ROOM};
    return map;
}

void address_map_free(struct address_map *map)
{
    if (!map)
        return;
    g_free(map->ranges);
    g_free(map);
}

/* The first of [low, high) that ends after `address`; `high`. */
static uint32_t first_after(const struct address_map *map, uint32_t low, uint32_t high,
                            uint64_t address)
{
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (map->ranges[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* All that ends at or below `address` is below the gap then, the others are above. */
static void move_gap(struct address_map *map, uint64_t address)
{
    if (map->below > 0 && map->ranges[map->below - 1].end > address) {
        uint32_t first = first_after(map, 0, map->below, address), count = map->below - first;
        map->above -= count;
        memmove(map->ranges + map->above, map->ranges + first, count * sizeof *map->ranges);
        map->below = first;
    } else if (map->above < map->room && map->ranges[map->above].end <= address) {
        uint32_t first = first_after(map, map->above, map->room, address);
        uint32_t count = first - map->above;
        memmove(map->ranges + map->below, map->ranges + map->above, count * sizeof *map->ranges);
        map->below += count;
        map->above = first;
    }
}

static void widen_gap(struct address_map *map)
{
    uint32_t tail = map->room - map->above;
    map->ranges = g_renew(struct range, map->ranges, 2 * map->room);
    memmove(map->ranges + 2 * map->room - tail, map->ranges + map->above,
            tail * sizeof *map->ranges);
    map->room *= 2;
    map->above = map->room - tail;
}

void address_map_release(struct address_map *map, uint64_t begin, uint64_t end,
                         const struct mover_after *after)
{
    if (begin >= end)
        return;
    move_gap(map, begin);
    g_assert(map->above == map->room || map->ranges[map->above].begin >= end);
    if (map->below == map->above)
        widen_gap(map);
    map->ranges[map->below++] = (struct range){begin, end, *after};
}

void address_map_take(struct address_map *map, uint64_t begin, uint64_t end,
                      struct mover_after *after)
{
    move_gap(map, begin);
    while (map->above < map->room && map->ranges[map->above].begin < end) {
        struct range range = map->ranges[map->above];
        mover_after_merge(after, &range.after);
        if (range.end > end)
            map->ranges[map->above].begin = end;
        else
            map->above++;
        if (range.begin < begin)
            address_map_release(map, range.begin, begin, &range.after);
        if (range.end > end)
            break;
    }
}
