#include "chunks/packing_order.h"

#include <glib.h>
#include <stdlib.h>

enum { KEYS = 3 };

/* Greater keys first; bytes x time exceeds 64 bits. */
struct ranked {
    uint32_t item;
    uint64_t failures;
    double keys[KEYS];
};

static int by_keys(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;
    if (a->failures != b->failures)
        return a->failures > b->failures ? -1 : 1;
    for (int k = 0; k < KEYS; k++)
        if (a->keys[k] != b->keys[k])
            return a->keys[k] > b->keys[k] ? -1 : 1;
    return a->item < b->item ? -1 : 1;
}

static struct ranked describe(const struct packing_item *item, uint32_t index,
                              const struct packing_sections *sections, enum packing_order order,
                              const uint64_t *failures)
{
    double bytes = (double)item->bytes, life = (double)(item->end - item->begin);
    double length = sections->to[index] - sections->from[index];
    uint64_t load = 0;
    struct ranked ranked = {.item = index};

    for (uint32_t s = sections->from[index]; s < sections->to[index]; s++) {
        load = MAX(load, sections->load[s]);
        ranked.failures = MAX(ranked.failures, failures[s]);
    }
    const double keys[PACKING_ORDERS][KEYS] = {
        [PACKING_BY_LOAD] = {(double)load, life, bytes * life},
        [PACKING_BY_COLLISIONS] = {bytes * length, length, 0},
    };
    for (int k = 0; k < KEYS; k++)
        ranked.keys[k] = keys[order][k];
    return ranked;
}

void packing_rank(const struct packing_item *items, uint32_t count,
                  const struct packing_sections *sections, enum packing_order order,
                  const uint64_t *failures, uint32_t *rank)
{
    g_autofree struct ranked *all = g_new(struct ranked, count);

    for (uint32_t i = 0; i < count; i++)
        all[i] = describe(&items[i], i, sections, order, failures);
    qsort(all, count, sizeof *all, by_keys);
    for (uint32_t i = 0; i < count; i++)
        rank[all[i].item] = i;
}
