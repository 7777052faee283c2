#include "chunks/packing.h"

#include "chunks/packing_search.h"

#include <glib.h>
#include <stdlib.h>
#include <string.h>

/* ---- sections ---- */

struct event {
    uint64_t time;
    uint32_t item;
    bool begins;
};

/* Ends come before begins, because lifetimes are half open. */
static int by_time(const void *left, const void *right)
{
    const struct event *a = left, *b = right;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return (int)a->begins - (int)b->begins;
}

static struct event *sort_events(const struct packing_item *items, uint32_t count)
{
    struct event *events = g_new(struct event, 2 * (size_t)count);
    for (uint32_t i = 0; i < count; i++) {
        g_assert(items[i].begin < items[i].end && items[i].bytes);
        events[2 * i] = (struct event){items[i].begin, i, true};
        events[2 * i + 1] = (struct event){items[i].end, i, false};
    }
    qsort(events, 2 * (size_t)count, sizeof *events, by_time);
    return events;
}

static void sum_loads(struct packing_sections *sections, const struct packing_item *items,
                      uint32_t count)
{
    sections->load = g_new0(uint64_t, sections->count);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t s = sections->from[i]; s < sections->to[i]; s++)
            sections->load[s] += items[i].bytes;
}

static struct packing_sections *packing_sections_new(const struct packing_item *items,
                                                     uint32_t count)
{
    struct packing_sections *sections = g_new0(struct packing_sections, 1);
    g_autofree struct event *events = count ? sort_events(items, count) : NULL;
    bool grown = false; /* whether an item began since the section did */
    sections->from = g_new(uint32_t, count);
    sections->to = g_new(uint32_t, count);
    for (size_t e = 0; e < 2 * (size_t)count; e++)
        if (events[e].begins) {
            sections->from[events[e].item] = sections->count;
            grown = true;
        } else {
            sections->count += grown;
            grown = false;
            sections->to[events[e].item] = sections->count;
        }
    sum_loads(sections, items, count);
    return sections;
}

static void packing_sections_free(struct packing_sections *sections)
{
    if (!sections)
        return;
    g_free(sections->from);
    g_free(sections->to);
    g_free(sections->load);
    g_free(sections);
}

/* ---- order ---- */

/* The order in which items are tried. No order is good for all inputs, so a search that takes long
 * is given up and begins again with another order. */
enum packing_order {
    PACKING_BY_LOAD, /* greatest load during the item's life, then lifetime, then bytes x lifetime
                      */
    PACKING_BY_COLLISIONS, /* bytes x sections, then sections */
    PACKING_ORDERS
};

enum { KEYS = 3 };

/* Greater keys come first. They are doubles because bytes x time exceeds 64 bits. */
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

/* Sets rank [count]; rank 0 comes first. Items alive in the section with the most failures come
 * first, then items of the section with the next most. `order` decides among equals. */
static void packing_rank(const struct packing_item *items, uint32_t count,
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

/* ---- searches ---- */

/* The first searches try at least FIRST_NODES placements. Each round of all orders tries a
 * GROWTH-th more than the round before. */
enum { FIRST_NODES = 3000, GROWTH = 4 };

/* The number of extents that packing_shrink tries. */
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

/* Recent failures count more than old ones. */
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

/* Restarts the search. Each time, the sections in which earlier searches failed come first. */
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

/* Tries the lower bound first, with half of the nodes, and then bisects between the extents that
 * were not found and those that were. */
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
