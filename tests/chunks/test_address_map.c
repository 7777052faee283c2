/* What a chunk waits for that comes to a range which others leave, as a whole and in parts: checked
 * byte by byte. That nothing is overwritten too early is part of test_residency.c. */
#include "chunks/residency/address_map.h"
#include "tests/chunks/random_iteration.h"

#include <string.h>

enum { ARENA = 400, CASES = 3000, RANGES = 6, MANY = 1024, STEP = 387 };

/* What was left at a byte last. */
struct byte {
    bool taken, in_parts;
    uint32_t part; /* of the chunk that left */
    mover_ticket computed, written[COPY_PARTS];
};

/* Returns the part of a chunk of so many bytes in which this byte lies. */
static uint32_t part_at(uint64_t bytes, uint64_t offset)
{
    uint32_t part = 0;
    while (part + 1 < COPY_PARTS && copy_part_offset(bytes, part + 1) <= offset)
        part++;
    return part;
}

static void draw_range(GRand *random, uint64_t *begin, uint64_t *end)
{
    *begin = (uint64_t)g_rand_int_range(random, 0, ARENA - 1);
    *end = (uint64_t)g_rand_int_range(random, (gint32)*begin + 1, ARENA + 1);
}

static bool any_taken(const struct byte *arena, uint64_t begin, uint64_t end)
{
    bool taken = false;
    for (uint64_t b = begin; b < end; b++)
        taken |= arena[b].taken;
    return taken;
}

/* A chunk leaves a range that nobody has left before, its slot a little longer than the chunk. */
static void leave(struct address_map *map, struct byte *arena, GRand *random, mover_ticket *ticket)
{
    uint64_t begin, end;
    draw_range(random, &begin, &end);
    if (any_taken(arena, begin, end))
        return;
    struct address_leaving leaving = {begin, (end - begin + 1) - (end - begin + 1) / 5, {0}};
    bool in_parts = g_rand_boolean(random) && leaving.bytes <= end - begin;
    struct mover_after after = {.queue = {[MOVER_COMPUTE] = ++*ticket}};
    for (uint32_t part = 0; part < COPY_PARTS; part++)
        after.queue[MOVER_D2H] = leaving.written[part] = ++*ticket;
    for (uint64_t b = begin; b < end; b++) {
        arena[b] = (struct byte){.taken = true,
                                 .in_parts = in_parts,
                                 .part = part_at(leaving.bytes, b - begin),
                                 .computed = after.queue[MOVER_COMPUTE]};
        memcpy(arena[b].written, leaving.written, sizeof leaving.written);
    }
    address_map_release(map, begin, end, &after, in_parts ? &leaving : NULL);
}

/* Returns what a part must wait for, which comes to the bytes up to `reached` of a range. */
static struct mover_after expected(const struct byte *arena, uint64_t begin, uint64_t end,
                                   uint64_t reached, uint32_t part)
{
    struct mover_after after = {.queue = {0}};
    for (uint64_t b = begin; b < end; b++) {
        const struct byte *byte = &arena[b];
        uint32_t awaited = !byte->in_parts ? COPY_PARTS - 1 : part;
        if (!byte->taken)
            continue;
        if (b < reached)
            awaited = MAX(awaited, byte->part);
        after.queue[MOVER_COMPUTE] = MAX(after.queue[MOVER_COMPUTE], byte->computed);
        after.queue[MOVER_D2H] = MAX(after.queue[MOVER_D2H], byte->written[awaited]);
    }
    return after;
}

static void check(const struct mover_after *after, const struct mover_after *right)
{
    for (int q = 0; q < MOVER_QUEUES; q++)
        g_assert_cmpuint(after->queue[q], ==, right->queue[q]);
}

static void come(struct address_map *map, struct byte *arena, GRand *random)
{
    uint64_t begin, end;
    draw_range(random, &begin, &end);
    uint64_t bytes = end - begin - (end - begin) / 8;
    struct mover_after after[COPY_PARTS] = {{.queue = {0}}}, right;
    if (g_rand_boolean(random)) {
        address_map_take_in_parts(map, begin, end, bytes, after);
        for (uint32_t part = 0; part < COPY_PARTS; part++) {
            right = expected(arena, begin, end, begin + copy_part_offset(bytes, part + 1), part);
            check(&after[part], &right);
        }
    } else {
        address_map_take(map, begin, end, &after[0]);
        right = expected(arena, begin, end, end, COPY_PARTS - 1);
        check(&after[0], &right);
    }
    for (uint64_t b = begin; b < end; b++)
        arena[b].taken = false;
}

static void test_parts_follow_parts(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < CASES; i++) {
        struct address_map *map = address_map_new();
        struct byte arena[ARENA] = {{0}};
        mover_ticket ticket = 0;
        for (int range = 0; range < RANGES; range++) {
            leave(map, arena, random, &ticket);
            leave(map, arena, random, &ticket);
            come(map, arena, random);
        }
        address_map_free(map);
    }
}

/* In the same room, each part waits for one. */
static void test_an_exchange(void)
{
    struct address_map *map = address_map_new();
    struct address_leaving leaving = {1000, 8000, {1, 2, 3, 4, 5, 6, 7, 8}};
    const struct mover_after written = {.queue = {[MOVER_D2H] = 8}};
    struct mover_after after[COPY_PARTS] = {{.queue = {0}}};
    address_map_release(map, 1000, 9000, &written, &leaving);
    address_map_take_in_parts(map, 1000, 9000, 8000, after);
    for (uint32_t part = 0; part < COPY_PARTS; part++)
        g_assert_cmpuint(after[part].queue[MOVER_D2H], ==, part + 1);
    address_map_free(map);
}

/* More ranges than a map has room for at first, every second one left in parts. */
static void test_many_ranges(void)
{
    struct address_map *map = address_map_new();
    struct mover_after after[COPY_PARTS] = {{.queue = {0}}};
    for (uint64_t range = 0; range < MANY; range++) {
        uint64_t begin = (range * STEP % MANY) * COPY_PARTS;
        struct address_leaving leaving = {begin, COPY_PARTS, {0}};
        for (uint32_t part = 0; part < COPY_PARTS; part++)
            leaving.written[part] = range * COPY_PARTS + part + 1;
        const struct mover_after written = {.queue = {[MOVER_D2H] = (range + 1) * COPY_PARTS}};
        address_map_release(map, begin, begin + COPY_PARTS, &written, range % 2 ? &leaving : NULL);
    }
    address_map_take_in_parts(map, 0, MANY * COPY_PARTS, MANY * COPY_PARTS, after);
    for (uint32_t part = 0; part < COPY_PARTS; part++)
        g_assert_cmpuint(after[part].queue[MOVER_D2H], >=, (MANY - 1) * COPY_PARTS + part + 1);
    g_assert_cmpuint(after[COPY_PARTS - 1].queue[MOVER_D2H], ==, MANY * COPY_PARTS);
    address_map_free(map);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/address_map/exchange", test_an_exchange);
    g_test_add_func("/address_map/many_ranges", test_many_ranges);
    g_test_add_func("/address_map/parts_follow_parts", test_parts_follow_parts);
    return g_test_run();
}
