/* Within packing_search.c and packing_tighten.c: a node of the search.
 *
 * A node is a set of items without offsets, connected by their lifetimes, and the place (offset and
 * rank) of the last item that got one: all that follow come after it in that order. */
#ifndef PSTAR_CHUNKS_PACKING_NODE_H
#define PSTAR_CHUNKS_PACKING_NODE_H

#include "chunks/packing_search.h"

#include <glib.h>

#define PACKING_NO_TWIN UINT32_MAX

struct packing_node_item {
    uint64_t bytes;
    uint64_t base; /* end of the highest placed item that is alive with it */
    uint64_t low;  /* no canonical placement below this node has it lower */
    uint32_t from, to, rank;
    uint32_t twin; /* the next lower rank of equal lifetime and bytes: goes below it */
    bool placed;
};

struct packing_place {
    uint64_t offset;
    uint32_t rank;
};

/* A part of `active`. */
struct packing_span {
    uint32_t begin, end;
};

struct packing_change {
    uint64_t *where, before;
};

/* The two lowest of a section's lows, and whose the lowest is. */
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
    int32_t *crossing;            /* [sections] scratch, as the next two */
    uint32_t *part, *part_items;
    GArray *changes;    /* struct packing_change, to be undone */
    GArray *candidates; /* uint32_t, a stack over the nodes */
};

static inline struct packing_node_item *packing_item_at(const struct packing_search *s,
                                                        uint32_t index)
{
    return &s->items[s->active[index]];
}

/* It could have begun at its base, and others were preferred: something will lie below it. */
static inline bool packing_is_passed(const struct packing_node_item *item,
                                     struct packing_place last)
{
    return item->base < last.offset || (item->base == last.offset && item->rank < last.rank);
}

static inline bool packing_waits_for_twin(const struct packing_search *s,
                                          const struct packing_node_item *item)
{
    return item->twin != PACKING_NO_TWIN && !s->items[item->twin].placed;
}

/* Gives the item at `index` of `active` its base for an offset, and takes it from the span's
 * beginning. */
void packing_put(struct packing_search *s, struct packing_span *span, uint32_t index);

/* Raises lows, and takes from the span what gets its offset without a choice. False: there is no
 * canonical placement below this node. */
bool packing_tighten(struct packing_search *s, struct packing_span *span,
                     struct packing_place last);

#endif
