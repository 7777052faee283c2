/* Puts queries, keys and values into the rows of one matrix, and takes them out. */
#ifndef PSTAR_TESTS_ENGINE_KERNELS_WEAVE_H
#define PSTAR_TESTS_ENGINE_KERNELS_WEAVE_H

#include "engine/kernels.h"
#include <string.h>

/* How many columns there are, and where those of queries, keys and values begin. */
struct weave {
    struct kernel_heads heads;
    uint64_t first[3]; /* enum kernel_qkv */
};

/* All queries, all keys and all values; or each head's three, where heads share nothing. */
static inline struct weave weave_of(const struct kernel_heads *heads, bool by_head)
{
    struct weave w = {*heads, {0, heads->A * heads->D, (heads->A + heads->K) * heads->D}};
    w.heads.row = (heads->A + 2 * heads->K) * heads->D;
    if (by_head) {
        g_assert(heads->A == heads->K);
        w.heads.apart = 3 * heads->D;
        w.first[KERNEL_K] = heads->D;
        w.first[KERNEL_V] = 2 * heads->D;
    }
    return w;
}

/* Copies a part into the joined rows, or out of them. */
static inline void weave_part(const struct weave *w, enum kernel_qkv part, size_t element,
                              void *joined, void *apart, bool out)
{
    const struct kernel_heads *h = &w->heads;
    uint64_t heads = part == KERNEL_Q ? h->A : h->K, step = h->apart ? h->apart : h->D;
    for (uint64_t row = 0; row < (uint64_t)h->B * h->T; row++)
        for (uint64_t head = 0; head < heads; head++) {
            uint64_t at = row * h->row + w->first[part] + head * step;
            char *there = (char *)joined + at * element;
            char *here = (char *)apart + (row * heads + head) * h->D * element;
            if (out)
                memcpy(here, there, h->D * element);
            else
                memcpy(there, here, h->D * element);
        }
}

/* Returns where a part of the joined rows begins. */
static inline void *weave_at(const struct weave *w, enum kernel_qkv part, size_t element,
                             void *joined)
{
    return (char *)joined + w->first[part] * element;
}

#endif
