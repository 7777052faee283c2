#include "chunks/packing.h"

#include "chunks/packing_order.h"
#include "chunks/packing_search.h"

#include <glib.h>
#include <string.h>

/* Placements that the first searches try at least, and the share by which each round of all orders
 * tries more than the one before. */
enum { FIRST_NODES = 3000, GROWTH = 4 };

/* Extents that packing_shrink tries. */
enum { STEPS = 8 };

struct packer {
    const struct packing_item *items;
    uint32_t count;
    struct packing_sections *sections;
    uint64_t *failures[PACKING_ORDERS]; /* [sections] */
    uint32_t *rank;                     /* [count] */
};

static struct packer packer_open(const struct packing_item *items, uint32_t count)
{
    struct packer packer = {.items = items, .count = count};

    packer.sections = packing_sections_new(items, count);
    for (int order = 0; order < PACKING_ORDERS; order++)
        packer.failures[order] = g_new(uint64_t, packer.sections->count);
    packer.rank = g_new(uint32_t, count);
    return packer;
}

static void packer_close(struct packer *packer)
{
    packing_sections_free(packer->sections);
    for (int order = 0; order < PACKING_ORDERS; order++)
        g_free(packer->failures[order]);
    g_free(packer->rank);
}

static uint64_t greatest_load(const struct packing_sections *sections)
{
    uint64_t load = 0;
    for (uint32_t s = 0; s < sections->count; s++)
        load = MAX(load, sections->load[s]);
    return load;
}

/* What failed lately counts more than what failed long ago. */
static void fade(struct packer *packer, enum packing_order order)
{
    for (uint32_t s = 0; s < packer->sections->count; s++)
        packer->failures[order][s] = packer->failures[order][s] * 9 / 10;
}

static void forget(struct packer *packer)
{
    for (int order = 0; order < PACKING_ORDERS; order++)
        for (uint32_t s = 0; s < packer->sections->count; s++)
            packer->failures[order][s] = 0;
}

/* Restarts, each with the sections first in which earlier ones failed. */
static enum packing_outcome fit(struct packer *packer, uint64_t capacity, uint64_t *nodes,
                                uint64_t *offset)
{
    struct packing_search *search = packing_search_new(packer->items, packer->count,
                                                       packer->sections, capacity);
    enum packing_outcome outcome = PACKING_UNDECIDED;
    uint64_t left = *nodes, share = MAX(FIRST_NODES, 2 * (uint64_t)packer->count);

    forget(packer);
    for (uint32_t turn = 0; left && outcome == PACKING_UNDECIDED; turn++) {
        enum packing_order order = turn % PACKING_ORDERS;
        uint64_t most = MIN(left, share), unused = most;
        packing_rank(packer->items, packer->count, packer->sections, order, packer->failures[order],
                     packer->rank);
        fade(packer, order);
        outcome = packing_search_run(search, packer->rank, &unused, packer->failures[order],
                                     offset);
        left -= most - unused;
        if (order == PACKING_ORDERS - 1)
            share += share / GROWTH;
    }
    packing_search_free(search);
    *nodes -= left;
    return outcome;
}

enum packing_outcome packing_fit(const struct packing_item *items, uint32_t count,
                                 uint64_t capacity, uint64_t *nodes, uint64_t *offset)
{
    struct packer packer = packer_open(items, count);
    enum packing_outcome outcome = count ? PACKING_IMPOSSIBLE : PACKING_FOUND;

    if (count && greatest_load(packer.sections) <= capacity)
        outcome = fit(&packer, capacity, nodes, offset);
    else
        *nodes = 0;
    packer_close(&packer);
    return outcome;
}

uint64_t packing_load(const struct packing_item *items, uint32_t count)
{
    struct packing_sections *sections = packing_sections_new(items, count);
    uint64_t load = greatest_load(sections);
    packing_sections_free(sections);
    return load;
}

uint64_t packing_extent(const struct packing_item *items, uint32_t count, const uint64_t *offset)
{
    uint64_t extent = 0;
    for (uint32_t i = 0; i < count; i++)
        extent = MAX(extent, offset[i] + items[i].bytes);
    return extent;
}

bool packing_is_apart(const struct packing_item *items, uint32_t count, const uint64_t *offset,
                      uint32_t *one, uint32_t *other)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < i; j++) {
            bool meet = items[i].begin < items[j].end && items[j].begin < items[i].end;
            if (!meet || offset[i] >= offset[j] + items[j].bytes ||
                offset[j] >= offset[i] + items[i].bytes)
                continue;
            if (one)
                *one = j;
            if (other)
                *other = i;
            return false;
        }
    return true;
}

/* The bound first, with half of the nodes; then by halves between what was not found and what was.
 */
struct packing_figures packing_shrink(const struct packing_item *items, uint32_t count,
                                      uint64_t nodes, uint64_t *offset)
{
    struct packer packer = packer_open(items, count);
    struct packing_figures figures = {packing_extent(items, count, offset),
                                      greatest_load(packer.sections), 0};
    g_autofree uint64_t *found = g_new(uint64_t, count);
    uint64_t target = figures.lower_bound, untried = target;

    for (int step = 0; step < STEPS && target < figures.extent; step++) {
        uint64_t tried = step ? (nodes - figures.nodes) / (uint64_t)(STEPS - step) : nodes / 2;
        enum packing_outcome outcome = fit(&packer, target, &tried, found);
        figures.nodes += tried;
        if (outcome == PACKING_FOUND) {
            memcpy(offset, found, count * sizeof *offset);
            figures.extent = packing_extent(items, count, offset);
        } else {
            untried = target + 1;
        }
        if (outcome == PACKING_IMPOSSIBLE)
            figures.lower_bound = target + 1;
        target = untried + (figures.extent - untried) / 2;
    }
    packer_close(&packer);
    return figures;
}
