#include "chunks/packing.h"
#include "tests/chunks/random_iteration.h"

enum { TRIALS = 1500, ITEMS = 9, NODES = 3000000 };

static void check(const struct packing_item *items, uint32_t count, const uint64_t *offset,
                  uint64_t capacity)
{
    g_assert_true(packing_is_apart(items, count, offset, NULL, NULL));
    g_assert_cmpuint(packing_extent(items, count, offset), <=, capacity);
}

static uint32_t random_items(GRand *random, struct packing_item *items, uint32_t most)
{
    uint32_t count = (uint32_t)g_rand_int_range(random, 1, (gint32)most + 1);
    gint32 times = g_rand_int_range(random, 2, 9), bytes = g_rand_int_range(random, 2, 6);
    for (uint32_t i = 0; i < count; i++) {
        gint32 begin = g_rand_int_range(random, 0, times);
        items[i].begin = (uint64_t)begin;
        items[i].end = (uint64_t)g_rand_int_range(random, begin + 1, times + 1);
        items[i].bytes = (uint64_t)g_rand_int_range(random, 1, bytes);
    }
    return count;
}

/* Items with a load of 6 that need 7, which is rare among few items. They are reversed and scaled
 * at random, and sometimes there is one more. */
static uint32_t tight_items(GRand *random, struct packing_item *items)
{
    static const struct packing_item tight[] = {{0, 1, 3}, {0, 2, 3}, {1, 3, 2}, {1, 4, 1},
                                                {2, 3, 1}, {2, 4, 2}, {3, 6, 3}, {4, 6, 3}};
    uint64_t scale = (uint64_t)g_rand_int_range(random, 1, 4);
    uint32_t count = G_N_ELEMENTS(tight);
    memcpy(items, tight, sizeof tight);
    for (uint32_t i = 0; i < count; i++)
        items[i].bytes *= scale;
    if (g_rand_boolean(random)) {
        uint64_t begin = (uint64_t)g_rand_int_range(random, 0, 6);
        uint64_t bytes = (uint64_t)g_rand_int_range(random, 1, 4);
        items[count++] = (struct packing_item){begin, begin + 1, bytes};
    }
    for (uint32_t i = 0, backwards = g_rand_boolean(random); i < count && backwards; i++) {
        uint64_t end = 6 - items[i].begin;
        items[i].begin = 6 - items[i].end;
        items[i].end = end;
    }
    return count;
}

static uint64_t lowest_offset(const struct packing_item *items, const uint64_t *offset,
                              const bool *placed, uint32_t count, uint32_t item)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool meet = placed[i] && items[i].begin < items[item].end &&
                    items[item].begin < items[i].end;
        if (!meet || offset[i] >= at + items[item].bytes || at >= offset[i] + items[i].bytes)
            continue;
        at = offset[i] + items[i].bytes;
        i = UINT32_MAX; /* from the beginning */
    }
    return at;
}

/* Lowers *least to the least extent over all orders of giving each item the lowest offset that is
 * free: any best placement, its items sorted by offset, is reached so. */
static void brute_force(const struct packing_item *items, uint64_t *offset, bool *placed,
                        uint32_t count, uint32_t left, uint64_t *least)
{
    if (!left)
        *least = MIN(*least, packing_extent(items, count, offset));
    for (uint32_t i = 0; i < count && left; i++) {
        if (placed[i])
            continue;
        offset[i] = lowest_offset(items, offset, placed, count, i);
        placed[i] = true;
        if (offset[i] + items[i].bytes < *least)
            brute_force(items, offset, placed, count, left - 1, least);
        placed[i] = false;
        offset[i] = 0;
        if (*least == packing_load(items, count))
            return;
    }
}

static void test_brute_force(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    uint32_t above_load = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct packing_item items[ITEMS];
        uint64_t offset[ITEMS] = {0}, stacked = 0;
        bool placed[ITEMS] = {false};
        uint32_t count = trial % 150 ? random_items(random, items, ITEMS)
                                     : tight_items(random, items);
        uint64_t best = UINT64_MAX;
        brute_force(items, offset, placed, count, count, &best);
        for (uint32_t i = 0; i < count; i++, stacked += items[i - 1].bytes)
            offset[i] = stacked;
        struct packing_figures figures = packing_shrink(items, count, NODES, offset);
        check(items, count, offset, best);
        g_assert_cmpuint(figures.extent, ==, best);
        g_assert_cmpuint(figures.lower_bound, <=, best);

        uint64_t nodes = NODES;
        g_assert_cmpint(packing_fit(items, count, best, &nodes, offset), ==, PACKING_FOUND);
        check(items, count, offset, best);
        nodes = NODES;
        g_assert_cmpint(packing_fit(items, count, best - 1, &nodes, offset), ==,
                        PACKING_IMPOSSIBLE);
        above_load += best > packing_load(items, count);
    }
    g_test_message("%u of %d have no placement at the greatest load", above_load, TRIALS);
    g_assert_cmpuint(above_load, >, 0);
    g_rand_free(random);
}

/* Rectangles cut from one rectangle, so that all of its area is needed. */
static uint32_t cut(GRand *random, struct packing_item *items, uint32_t most, uint64_t side)
{
    uint32_t count = 1;
    items[0] = (struct packing_item){0, side, side};
    while (count < most) {
        struct packing_item *item = &items[g_rand_int_range(random, 0, (gint32)count)];
        uint64_t length = item->end - item->begin;
        if (g_rand_boolean(random) && length > 1) {
            uint64_t at = item->begin + (uint64_t)g_rand_int_range(random, 1, (gint32)length);
            items[count++] = (struct packing_item){at, item->end, item->bytes};
            item->end = at;
        } else if (item->bytes > 1) {
            uint64_t bytes = (uint64_t)g_rand_int_range(random, 1, (gint32)item->bytes);
            items[count++] = (struct packing_item){item->begin, item->end, bytes};
            item->bytes -= bytes;
        }
    }
    return count;
}

static void test_cut(void)
{
    enum { PIECES = 40, SIDE = 1000 };
    GRand *random = g_rand_new_with_seed(random_seed());
    for (int trial = 0; trial < 200; trial++) {
        struct packing_item items[PIECES];
        uint64_t offset[PIECES], again[PIECES], nodes = 100000, same = nodes;
        uint32_t count = cut(random, items, PIECES, SIDE);
        enum packing_outcome outcome = packing_fit(items, count, SIDE, &nodes, offset);
        g_assert_cmpint(outcome, !=, PACKING_IMPOSSIBLE);
        if (outcome == PACKING_FOUND) {
            check(items, count, offset, SIDE);
            packing_fit(items, count, SIDE, &same, again);
            g_assert_cmpmem(offset, count * sizeof *offset, again, count * sizeof *again);
        }
        g_assert_cmpint(packing_fit(items, count, SIDE - 1, &same, again), ==, PACKING_IMPOSSIBLE);
    }
    g_rand_free(random);
}

static void test_none(void)
{
    uint64_t nodes = 1;
    g_assert_cmpint(packing_fit(NULL, 0, 0, &nodes, NULL), ==, PACKING_FOUND);
    g_assert_cmpuint(packing_load(NULL, 0), ==, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/packing/none", test_none);
    g_test_add_func("/packing/brute-force", test_brute_force);
    g_test_add_func("/packing/cut", test_cut);
    return g_test_run();
}
