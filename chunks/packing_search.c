/* Offsets are assigned from low to high. The search looks at canonical placements only, in which no
 * item could move down alone, so that each begins at 0 or where another ends. If there is any
 * placement, the one with the least sum of offsets is canonical, and every cut below keeps it. */
#include "chunks/packing_search.h"

#include "traces/ids.h"

#include <glib.h>
#include <stdlib.h>
#include <string.h>

/* A node of the search is a set of items without offsets, connected by their lifetimes, and the
 * place (offset and rank) of the last item that got an offset. All items that follow come after
 * that place. */

struct packing_node_item {
    uint64_t bytes;
    uint64_t base; /* the end of the highest placed item that is alive with it */
    uint64_t low;  /* no canonical placement below this node has the item lower */
    uint32_t from, to, rank;
    uint32_t twin; /* the item of equal lifetime and bytes with the next lower rank, which goes
                      below it */
    bool placed;
};

struct packing_place {
    uint64_t offset;
    uint32_t rank;
};

/* A range of `active`. */
struct packing_span {
    uint32_t begin, end;
};

struct packing_change {
    uint64_t *where, before;
};

/* The two lowest values of `low` in a section, and the item that has the lowest. */
struct packing_lowest {
    uint64_t first, second;
    uint32_t item;
};

struct packing_search {
    uint32_t count;
    const struct packing_sections *sections;
    uint64_t capacity, nodes;
    uint64_t *failures;
    struct packing_node_item *items;
    uint32_t *active;             /* [count] permuted within the span of each node */
    uint32_t *moved;              /* [count] scratch of split */
    uint64_t *sum;                /* [sections] scratch */
    struct packing_lowest *least; /* [sections] scratch */
    int32_t *crossing;            /* [sections] scratch, like the next two */
    uint32_t *part, *part_items;
    GArray *changes;    /* struct packing_change, which undo reverts */
    GArray *candidates; /* uint32_t, a stack shared by the nodes */
};

static inline struct packing_node_item *packing_item_at(const struct packing_search *s,
                                                        uint32_t index)
{
    return &s->items[s->active[index]];
}

/* Returns whether the item could have begun at its base, but other items were preferred. Some item
 * will then lie below it. */
static inline bool packing_is_passed(const struct packing_node_item *item,
                                     struct packing_place last)
{
    return item->base < last.offset || (item->base == last.offset && item->rank < last.rank);
}

static inline bool packing_waits_for_twin(const struct packing_search *s,
                                          const struct packing_node_item *item)
{
    return item->twin != NO_INDEX && !s->items[item->twin].placed;
}

/* ---- tightening a node ---- */

static void set(struct packing_search *s, uint64_t *where, uint64_t value)
{
    struct packing_change change = {where, *where};
    g_array_append_val(s->changes, change);
    *where = value;
}

/* Assigns its base as offset to the item at `index` of `active`, and removes the item from the
 * beginning of the span. */
static void packing_put(struct packing_search *s, struct packing_span *span, uint32_t index)
{
    uint32_t chosen = s->active[index];
    struct packing_node_item *item = &s->items[chosen];
    uint64_t top = item->base + item->bytes;
    s->active[index] = s->active[span->begin];
    s->active[span->begin++] = chosen;
    item->placed = true;
    for (uint32_t i = span->begin; i < span->end; i++) {
        struct packing_node_item *other = packing_item_at(s, i);
        if (other->from < item->to && item->from < other->to && other->base < top)
            set(s, &other->base, top);
    }
}

static void raise_by_order(struct packing_search *s, struct packing_span span,
                           struct packing_place last)
{
    for (uint32_t i = span.begin; i < span.end; i++) {
        struct packing_node_item *item = packing_item_at(s, i);
        uint64_t low = MAX(item->low, item->base);
        if (packing_is_passed(item, last))
            low = MAX(low, last.offset);
        if (packing_waits_for_twin(s, item))
            low = MAX(low, s->items[item->twin].low + item->bytes);
        if (low != item->low)
            set(s, &item->low, low);
    }
}

/* An item that was passed lies on one that is still to come. */
static bool raise_by_support(struct packing_search *s, struct packing_span span,
                             struct packing_place last)
{
    bool raised = false;
    for (uint32_t i = span.begin; i < span.end; i++)
        for (uint32_t t = packing_item_at(s, i)->from; t < packing_item_at(s, i)->to; t++)
            s->sum[t] = UINT64_MAX;
    for (uint32_t i = span.begin; i < span.end; i++) {
        const struct packing_node_item *item = packing_item_at(s, i);
        for (uint32_t t = item->from; t < item->to; t++)
            s->sum[t] = MIN(s->sum[t], item->low + item->bytes);
    }
    for (uint32_t i = span.begin; i < span.end; i++) {
        struct packing_node_item *item = packing_item_at(s, i);
        uint64_t support = UINT64_MAX;
        if (!packing_is_passed(item, last))
            continue;
        for (uint32_t t = item->from; t < item->to; t++)
            support = MIN(support, s->sum[t]);
        if (support > item->low) {
            set(s, &item->low, support);
            raised = true;
        }
    }
    return raised;
}

/* Sorts by insertion, because the order has changed little since the parent node. */
static void sort_by_low(struct packing_search *s, struct packing_span span)
{
    for (uint32_t i = span.begin + 1; i < span.end; i++) {
        uint32_t moving = s->active[i], at = i;
        const struct packing_node_item *item = &s->items[moving];
        for (; at > span.begin; at--) {
            const struct packing_node_item *other = packing_item_at(s, at - 1);
            if (other->low < item->low || (other->low == item->low && other->rank < item->rank))
                break;
            s->active[at] = s->active[at - 1];
        }
        s->active[at] = moving;
    }
}

static bool refuse(struct packing_search *s, const struct packing_node_item *item, uint64_t sum)
{
    uint32_t section = item->from;
    while (section + 1 < item->to && s->sum[section] < sum)
        section++;
    s->failures[section]++;
    return false;
}

/* In every section and above every level, the items that cannot begin lower must fit. This is the
 * bound of one machine with release dates, which is exact for a single section. */
static bool has_room(struct packing_search *s, struct packing_span span)
{
    for (uint32_t i = span.begin; i < span.end; i++)
        for (uint32_t t = packing_item_at(s, i)->from; t < packing_item_at(s, i)->to; t++)
            s->sum[t] = 0;
    for (uint32_t i = span.end; i-- > span.begin;) {
        const struct packing_node_item *item = packing_item_at(s, i);
        uint64_t most = 0;
        for (uint32_t t = item->from; t < item->to; t++) {
            s->sum[t] += item->bytes;
            most = MAX(most, s->sum[t]);
        }
        if (item->low > s->capacity || most > s->capacity - item->low)
            return refuse(s, item, most);
    }
    return true;
}

/* The span must be sorted by `low`. */
static void find_lowest(struct packing_search *s, struct packing_span span)
{
    for (uint32_t i = span.begin; i < span.end; i++)
        for (uint32_t t = packing_item_at(s, i)->from; t < packing_item_at(s, i)->to; t++)
            s->least[t] = (struct packing_lowest){UINT64_MAX, UINT64_MAX, 0};
    for (uint32_t i = span.begin; i < span.end; i++) {
        const struct packing_node_item *item = packing_item_at(s, i);
        for (uint32_t t = item->from; t < item->to; t++)
            if (s->least[t].first == UINT64_MAX) {
                s->least[t].first = item->low;
                s->least[t].item = s->active[i];
            } else if (s->least[t].second == UINT64_MAX) {
                s->least[t].second = item->low;
            }
    }
}

/* Returns whether the item could lie at its base for any placement of the others. */
static bool is_free(const struct packing_search *s, uint32_t index)
{
    const struct packing_node_item *item = &s->items[index];
    for (uint32_t t = item->from; t < item->to; t++) {
        const struct packing_lowest *least = &s->least[t];
        uint64_t low = least->item == index ? least->second : least->first;
        if (low < item->base + item->bytes)
            return false;
    }
    return true;
}

/* Assigns offsets to free items, which need no choice. A free item that was passed shows that the
 * node has no canonical placement, because it could always move down. */
static bool settle(struct packing_search *s, struct packing_span *span, struct packing_place last,
                   bool *settled)
{
    find_lowest(s, *span);
    *settled = false;
    for (uint32_t i = span->begin; i < span->end; i++) {
        if (!is_free(s, s->active[i]))
            continue;
        if (packing_is_passed(packing_item_at(s, i), last))
            return false;
        packing_put(s, span, i);
        *settled = true;
    }
    return true;
}

/* Raises the values of `low`, and removes from the span the items whose offsets need no choice.
 * Returns false if there is no canonical placement below this node. */
static bool packing_tighten(struct packing_search *s, struct packing_span *span,
                            struct packing_place last)
{
    bool settled;
    do {
        raise_by_order(s, *span, last);
        if (raise_by_support(s, *span, last))
            raise_by_support(s, *span, last);
        sort_by_low(s, *span);
        if (!has_room(s, *span) || !settle(s, span, last, &settled))
            return false;
    } while (settled);
    return true;
}

/* ---- descending ---- */

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

/* Pushes the items that could be next. Leaves out those that would leave room for another item
 * below them. */
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

/* Numbers the parts that no lifetime connects, section by section, and returns their number. */
static uint32_t number_parts(struct packing_search *s, struct packing_span span)
{
    uint32_t first = NO_INDEX, end = 0, parts = 0;
    int32_t crossing = 0; /* lifetimes that continue after the section */
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

/* Moves the part with the fewest items, which fails soonest, to the beginning of the span, and
 * returns its end. */
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

/* The parts are independent. One without a placement is enough to give up. */
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
        item->twin = equal ? s->active[i - 1] : NO_INDEX;
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
