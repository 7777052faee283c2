/* What makes one plan better than another. */
#ifndef PSTAR_PLANNER_SEARCH_OBJECTIVE_H
#define PSTAR_PLANNER_SEARCH_OBJECTIVE_H

#include "chunks/plan.h"

enum objective {
    OBJECTIVE_TIME,    /* predicted seconds an iteration; among equals, traffic */
    OBJECTIVE_TRAFFIC, /* bytes over the link an iteration; among equals, time */
    OBJECTIVE_MEMORY,  /* the least device memory that fits; within it, time */
    OBJECTIVES
};

/* By its name: "time", "traffic", "memory". Fails with PLAN_ERROR_INVALID. */
bool objective_parse(const char *name, enum objective *objective, GError **error);

/* Whether `plan`, with its predicted figures, is better than `than`; NULL is worse than any. With
 * OBJECTIVE_MEMORY both are for the same budget: time decides. */
bool objective_prefers(enum objective objective, const struct plan *plan, const struct plan *than);

/* What the objective is about: bytes over the link, or seconds an iteration. */
double objective_figure(enum objective objective, uint64_t bytes, double seconds);

/* The same, as predicted for the plan. */
double objective_of_plan(enum objective objective, const struct plan *plan);

/* Bytes over the link, both directions. */
uint64_t objective_traffic(const struct plan *plan);

#endif
