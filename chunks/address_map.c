#include "chunks/address_map.h"

struct range {
    uint64_t begin, end;
    struct mover_after after;
};

void mover_after_merge(struct mover_after *after, const struct mover_after *other)
{
    for (int q = 0; q < MOVER_QUEUES; q++)
        after->queue[q] = MAX(after->queue[q], other->queue[q]);
}

struct address_map *address_map_new(void)
{
    struct address_map *map = g_new(struct address_map, 1);
    map->ranges = g_array_new(FALSE, FALSE, sizeof(struct range));
    return map;
}

void address_map_free(struct address_map *map)
{
    if (!map)
        return;
    g_array_free(map->ranges, TRUE);
    g_free(map);
}

static struct range *range_at(const struct address_map *map, uint32_t index)
{
    return &g_array_index(map->ranges, struct range, index);
}

/* Index of the first range that ends after `address`. */
static uint32_t first_after(const struct address_map *map, uint64_t address)
{
    uint32_t low = 0, high = map->ranges->len;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (range_at(map, middle)->end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void address_map_release(struct address_map *map, uint64_t begin, uint64_t end,
                         const struct mover_after *after)
{
    if (begin >= end)
        return;
    struct range range = {.begin = begin, .end = end, .after = *after};
    uint32_t index = first_after(map, begin);
    g_assert(index == map->ranges->len || range_at(map, index)->begin >= end);
    g_array_insert_val(map->ranges, index, range);
}

void address_map_take(struct address_map *map, uint64_t begin, uint64_t end,
                      struct mover_after *after)
{
    uint32_t index = first_after(map, begin);
    while (index < map->ranges->len && range_at(map, index)->begin < end) {
        struct range range = *range_at(map, index);
        mover_after_merge(after, &range.after);
        g_array_remove_index(map->ranges, index);
        if (range.begin < begin) {
            struct range left = {range.begin, begin, range.after};
            g_array_insert_val(map->ranges, index++, left);
        }
        if (range.end > end) {
            struct range right = {end, range.end, range.after};
            g_array_insert_val(map->ranges, index, right);
        }
    }
}
