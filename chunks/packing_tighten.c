#include "chunks/packing_node.h"

static void set(struct packing_search *s, uint64_t *where, uint64_t value)
{
    struct packing_change change = {where, *where};
    g_array_append_val(s->changes, change);
    *where = value;
}

void packing_put(struct packing_search *s, struct packing_span *span, uint32_t index)
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

/* By insertion: the order has changed little since the parent's node. */
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

/* In every section and for every level, what cannot begin lower must fit above it: the bound of one
 * machine with release dates, which is exact for a section by itself. */
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

/* The span is sorted by low. */
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

/* Wherever the others go, it could lie at its base. */
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

/* Free items get their offset without a choice. One that was passed shows that the node has no
 * canonical placement: it could always be moved down. */
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

bool packing_tighten(struct packing_search *s, struct packing_span *span, struct packing_place last)
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
