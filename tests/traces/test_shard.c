/* Shards of random tensors: they tile the tensor, in whole blocks, the same room on every rank. */
#include "traces/shard.h"

#include <glib.h>

static uint64_t draw(uint64_t limit)
{
    uint64_t bits = (uint64_t)g_test_rand_int_range(1, 41);
    return 1 +
           ((uint64_t)g_test_rand_int() << 20 ^ (uint64_t)g_test_rand_int()) % (limit >> bits | 1);
}

static void check_tiling(uint64_t elements, uint32_t ranks)
{
    uint64_t block = shard_block(elements), room = shard_room(elements, ranks), next = 0;
    g_assert_cmpuint(block % SHARD_STEP, ==, 0);
    g_assert_cmpuint((elements + block - 1) / block, <=, SHARD_BLOCKS);
    for (uint32_t r = 0; r < ranks; r++) {
        struct shard shard = shard_of(elements, ranks, r);
        g_assert_cmpuint(shard.first, ==, next);
        g_assert_cmpuint(shard.count, <=, room);
        if (shard.count) /* the last shard may end within a block */
            g_assert_cmpuint(shard.first % block, ==, 0);
        next += shard.count;
    }
    g_assert_cmpuint(next, ==, elements);
    if (ranks > 1)
        g_assert_cmpuint(room % block, ==, 0);
}

static void test_tiling(void)
{
    for (int i = 0; i < 2000; i++)
        check_tiling(draw(UINT64_C(1) << 40), (uint32_t)g_test_rand_int_range(1, 70));
}

static void test_few_elements(void)
{
    struct shard first = shard_of(10, 4, 0), last = shard_of(10, 4, 3);
    g_assert_cmpuint(shard_room(10, 4), ==, SHARD_STEP);
    g_assert_cmpuint(first.count, ==, 10);
    g_assert_cmpuint(last.count, ==, 0);
    g_assert_cmpuint(shard_room(10, 1), ==, 10);
    g_assert_cmpuint(shard_room(10, 0), ==, 10);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/shard/tiling", test_tiling);
    g_test_add_func("/shard/few", test_few_elements);
    return g_test_run();
}
