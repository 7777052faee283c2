/* What a best result is the best in: when a plan, or a row of a sweep, is better than another. */
#ifndef PSTAR_CHUNKS_OBJECTIVE_H
#define PSTAR_CHUNKS_OBJECTIVE_H

#include "chunks/figures.h"

enum objective {
    OBJECTIVE_TIME,    /* predicted seconds an iteration; ties by traffic */
    OBJECTIVE_TRAFFIC, /* bytes over the link an iteration; ties by time */
    OBJECTIVE_MEMORY,  /* the least device memory; ties by time, then traffic */
    OBJECTIVES
};

/* Returns "time", "traffic" or "memory". */
const char *objective_name(enum objective objective);

/* Sets the objective of this name. Returns false if there is none. */
bool objective_find(const char *name, enum objective *objective);

/* Returns a number below 0 if `a` is better, above 0 if `b` is, and 0 if they are equally good. */
int objective_compare(enum objective objective, const struct plan_figures *a,
                      const struct plan_figures *b);

#endif
