/* Offsets are given out from low to high. Only canonical placements are looked at: no item could be
 * moved down alone, so each begins at 0 or where another ends. If there is any placement, the one
 * with the least sum of offsets is canonical, and each cut below keeps it. */
#include "chunks/packing_node.h"

#include <stdlib.h>
#include <string.h>

static void undo(struct packing_search *s, guint mark, struct packing_span span)
{
    while (s->changes->len > mark) {
        const struct packing_change *last = &g_array_index(s->changes, struct packing_change,
                                                           s->changes->len - 1);
        *last->where = last->before;
        g_array_set_size(s->changes, s->changes->len - 1);
    }
    for (uint32_t i = span.begin; i < span.end; i++)
        s->items[s->active[i]].placed = false;
}

static enum packing_outcome descend(struct packing_search *s, struct packing_span span,
                                    struct packing_place last);

static int by_base(const void *left, const void *right, void *data)
{
    const struct packing_search *s = data;
    const struct packing_node_item *a = &s->items[*(const uint32_t *)left];
    const struct packing_node_item *b = &s->items[*(const uint32_t *)right];
    if (a->base != b->base)
        return a->base < b->base ? -1 : 1;
    return a->rank < b->rank ? -1 : 1;
}

/* Those that could be next, onto the stack: none that would leave room for another below it. */
static void find_candidates(struct packing_search *s, struct packing_span span,
                            struct packing_place last)
{
    guint first = s->candidates->len;
    uint64_t ceiling = UINT64_MAX;

    for (uint32_t i = span.begin; i < span.end; i++)
        ceiling = MIN(ceiling, packing_item_at(s, i)->low + packing_item_at(s, i)->bytes);
    for (uint32_t i = span.begin; i < span.end; i++) {
        const struct packing_node_item *item = packing_item_at(s, i);
        if (!packing_is_passed(item, last) && item->low == item->base && item->base < ceiling &&
            !packing_waits_for_twin(s, item))
            g_array_append_val(s->candidates, s->active[i]);
    }
    g_qsort_with_data(&g_array_index(s->candidates, uint32_t, first),
                      (gint)(s->candidates->len - first), sizeof(uint32_t), by_base, s);
}

static enum packing_outcome try_one(struct packing_search *s, struct packing_span span,
                                    uint32_t candidate)
{
    struct packing_place place = {s->items[candidate].base, s->items[candidate].rank};
    guint mark = s->changes->len;
    struct packing_span rest = span;
    uint32_t index = span.begin;

    while (s->active[index] != candidate)
        index++;
    packing_put(s, &rest, index);
    enum packing_outcome outcome = descend(s, rest, place);
    if (outcome == PACKING_IMPOSSIBLE)
        undo(s, mark, span);
    return outcome;
}

static enum packing_outcome branch(struct packing_search *s, struct packing_span span,
                                   struct packing_place last)
{
    guint first = s->candidates->len;
    enum packing_outcome outcome = PACKING_IMPOSSIBLE;

    find_candidates(s, span, last);
    guint end = s->candidates->len;
    for (guint c = first; c < end && outcome == PACKING_IMPOSSIBLE; c++) {
        if (!s->nodes)
            return PACKING_UNDECIDED;
        s->nodes--;
        outcome = try_one(s, span, g_array_index(s->candidates, uint32_t, c));
    }
    g_array_set_size(s->candidates, first);
    return outcome;
}

/* Numbers the parts that no lifetime connects, section by section; returns how many. */
static uint32_t number_parts(struct packing_search *s, struct packing_span span)
{
    uint32_t first = UINT32_MAX, end = 0, parts = 0;
    int32_t crossing = 0; /* lifetimes that go on after the section */

    for (uint32_t i = span.begin; i < span.end; i++) {
        first = MIN(first, packing_item_at(s, i)->from);
        end = MAX(end, packing_item_at(s, i)->to);
    }
    memset(s->crossing + first, 0, (end - first) * sizeof *s->crossing);
    for (uint32_t i = span.begin; i < span.end; i++) {
        s->crossing[packing_item_at(s, i)->from]++;
        s->crossing[packing_item_at(s, i)->to - 1]--;
    }
    for (uint32_t t = first; t < end; t++) {
        s->part[t] = parts;
        crossing += s->crossing[t];
        parts += !crossing;
    }
    return parts;
}

/* Moves the part of fewest items, which fails soonest, to the span's beginning; returns its end. */
static uint32_t split(struct packing_search *s, struct packing_span span)
{
    uint32_t parts = number_parts(s, span), least = 0, here = span.begin, later = 0;

    if (parts == 1)
        return span.end;
    memset(s->part_items, 0, parts * sizeof *s->part_items);
    for (uint32_t i = span.begin; i < span.end; i++)
        s->part_items[s->part[packing_item_at(s, i)->from]]++;
    for (uint32_t p = 1; p < parts; p++)
        if (s->part_items[p] && (!s->part_items[least] || s->part_items[p] < s->part_items[least]))
            least = p;
    for (uint32_t i = span.begin; i < span.end; i++)
        if (s->part[packing_item_at(s, i)->from] == least)
            s->active[here++] = s->active[i];
        else
            s->moved[later++] = s->active[i];
    memcpy(s->active + here, s->moved, later * sizeof *s->moved);
    return here;
}

/* The parts do not hinder each other; one without a placement is enough to give up. */
static enum packing_outcome descend(struct packing_search *s, struct packing_span span,
                                    struct packing_place last)
{
    if (!packing_tighten(s, &span, last))
        return PACKING_IMPOSSIBLE;
    while (span.begin < span.end) {
        struct packing_span part = {span.begin, split(s, span)};
        enum packing_outcome outcome = branch(s, part, last);
        if (outcome != PACKING_FOUND)
            return outcome;
        span.begin = part.end;
    }
    return PACKING_FOUND;
}

struct packing_search *packing_search_new(const struct packing_item *items, uint32_t count,
                                          const struct packing_sections *sections,
                                          uint64_t capacity)
{
    struct packing_search *s = g_new0(struct packing_search, 1);

    s->count = count;
    s->sections = sections;
    s->capacity = capacity;
    s->items = g_new0(struct packing_node_item, count);
    s->active = g_new(uint32_t, count);
    s->moved = g_new(uint32_t, count);
    s->sum = g_new(uint64_t, sections->count);
    s->least = g_new(struct packing_lowest, sections->count);
    s->crossing = g_new(int32_t, sections->count);
    s->part = g_new(uint32_t, sections->count);
    s->part_items = g_new(uint32_t, sections->count);
    s->changes = g_array_new(FALSE, FALSE, sizeof(struct packing_change));
    s->candidates = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t i = 0; i < count; i++) {
        s->items[i].bytes = items[i].bytes;
        s->items[i].from = sections->from[i];
        s->items[i].to = sections->to[i];
    }
    return s;
}

void packing_search_free(struct packing_search *search)
{
    if (!search)
        return;
    g_free(search->items);
    g_free(search->active);
    g_free(search->moved);
    g_free(search->sum);
    g_free(search->least);
    g_free(search->crossing);
    g_free(search->part);
    g_free(search->part_items);
    g_array_unref(search->changes);
    g_array_unref(search->candidates);
    g_free(search);
}

static int by_kind(const void *left, const void *right, void *data)
{
    const struct packing_search *s = data;
    const struct packing_node_item *a = &s->items[*(const uint32_t *)left];
    const struct packing_node_item *b = &s->items[*(const uint32_t *)right];
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static void find_twins(struct packing_search *s)
{
    g_qsort_with_data(s->active, (gint)s->count, sizeof *s->active, by_kind, s);
    for (uint32_t i = 0; i < s->count; i++) {
        struct packing_node_item *item = packing_item_at(s, i);
        const struct packing_node_item *before = i ? packing_item_at(s, i - 1) : NULL;
        bool equal = before && before->from == item->from && before->to == item->to &&
                     before->bytes == item->bytes;
        item->twin = equal ? s->active[i - 1] : PACKING_NO_TWIN;
    }
}

static void start(struct packing_search *s, const uint32_t *rank)
{
    g_array_set_size(s->changes, 0);
    g_array_set_size(s->candidates, 0);
    for (uint32_t i = 0; i < s->count; i++) {
        s->active[i] = i;
        s->items[i].base = s->items[i].low = 0;
        s->items[i].placed = false;
        s->items[i].rank = rank[i];
    }
    find_twins(s);
}

enum packing_outcome packing_search_run(struct packing_search *search, const uint32_t *rank,
                                        uint64_t *nodes, uint64_t *failures, uint64_t *offset)
{
    start(search, rank);
    search->nodes = *nodes;
    search->failures = failures;
    enum packing_outcome outcome = descend(search, (struct packing_span){0, search->count},
                                           (struct packing_place){0, 0});
    *nodes = search->nodes;
    for (uint32_t i = 0; i < search->count && outcome == PACKING_FOUND; i++)
        offset[i] = search->items[i].base;
    return outcome;
}
