/* What the tasks of a search have found, and what is chosen from it. */
#ifndef PSTAR_PLANNER_OUTCOMES_H
#define PSTAR_PLANNER_OUTCOMES_H

#include "chunks/plan.h"

/* What one task has found. */
struct outcome {
    uint32_t choice;            /* index of the layout */
    uint32_t rounds;            /* of local search */
    struct plan *plan, *policy; /* NULL where it does not fit; `policy` also where not uniform */
    uint32_t plans;             /* tried */
    uint64_t needed;            /* device memory that would fit, where it does not */
    GError *error;
    bool done;
};

/* Keeps the one of two plans that moves less, and of equals the faster; frees the other. *best may
 * be NULL. */
void outcomes_take_leaner(struct plan **best, struct plan *plan);

/* The policy's plan that moves the least; NULL where there is none. */
const struct plan *outcomes_best_policy(const struct outcome *outcomes, uint32_t count);

/* Layouts to try again, those that move the least first, among equals by time. Fills `choices` with
 * at most `most`; returns how many. */
uint32_t outcomes_rank(const struct outcome *outcomes, uint32_t count, uint32_t *choices,
                       uint32_t most);

/* The plan that search.h describes, taken out of the outcomes; at least one has a plan. */
struct plan *outcomes_choose(struct outcome *outcomes, uint32_t count);

/* The error of the layout that needs the least. */
void outcomes_refuse(const struct outcome *outcomes, uint32_t count, GError **error);

void outcomes_free(struct outcome *outcomes, uint32_t count);

#endif
