/* The largest model, or micro-batch, that budgets allow. */
#ifndef PSTAR_PLANNER_ANSWERS_LARGEST_H
#define PSTAR_PLANNER_ANSWERS_LARGEST_H

#include "planner/search/search.h"

/* What becomes of the activations that backward needs. */
enum largest_way {
    LARGEST_KEPT,
    LARGEST_RECOMPUTED, /* all layers are computed again */
    LARGEST_OFFLOADED,  /* likewise, and what they begin with may leave the device */
    LARGEST_WAYS
};

struct largest_job {
    const struct search_options *options; /* of each search; no layouts */
    /* The trace of size `value`; the caller frees it. NULL: there is no such size. */
    struct trace *(*make)(void *data, uint32_t value, enum largest_way way, GError **error);
    void *data;
    uint32_t most;  /* sizes are 1 to `most` */
    bool unordered; /* a larger size may need less: sizes are tried from the largest down; otherwise
                       by doubling and halving */
};

struct largest {
    uint32_t value;
    enum largest_way way; /* the fastest of the first two; the last where neither has a plan */
    struct trace *trace;  /* of the value */
    struct search_result *result; /* its plan, of a full search */
    GError *beyond;               /* why the next larger size does not fit; NULL: there is none */
    bool stopped;                 /* by a person */
};

/* The largest size for which a full search finds a plan. Fails with what the smallest lacks where
 * there is none; a search that a person stopped fails with PLAN_ERROR_INVALID, and `stopped` is
 * set. Either way the caller clears *largest with largest_clear. */
bool largest_find(const struct largest_job *job, struct largest *largest, GError **error);
void largest_clear(struct largest *largest);

#endif
