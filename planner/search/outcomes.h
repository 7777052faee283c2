/* What the tasks of a search have found, and what is chosen from it. */
#ifndef PSTAR_PLANNER_SEARCH_OUTCOMES_H
#define PSTAR_PLANNER_SEARCH_OUTCOMES_H

#include "planner/schedule/moment_times.h"
#include "planner/schedule/placement.h"
#include "planner/schedule/retention.h"
#include "planner/search/objective.h"
#include "strategies/strategy.h"

/* How hard a task tries to find a plan; a task of no effort finds what others do, or what fits, and
 * one that peeks has a glance's first schedule only. */
enum effort_level { EFFORT_0, EFFORT_1, EFFORT_2, EFFORT_3 };

/* One task of the search, and what it has found. */
struct trial {
    uint32_t layout; /* index of its choice */
    struct placement placement;
    struct retention_bias bias;
    uint8_t effort;                   /* enum effort_level */
    const struct moment_times *start; /* from which schedules are tried; NULL: the best plan's */

    double lower_bound; /* what no schedule of what it keeps beats: see planner/search/least.h */
    struct plan *plan;  /* NULL where it does not fit, or promises too little */
    struct moment_times *times; /* of `plan` */
    struct plan *policy;   /* the best of eviction policies; NULL where none was tried or fits */
    struct plan *strategy; /* the best of other systems' ways; likewise */
    uint32_t plans;        /* tried */
    uint64_t needed;       /* device memory that would fit, where it does not */
    GError *error;
    bool done;
};

/* Keeps the better of two plans and frees the other. *best may be NULL, as may `plan`. */
void trials_take_better(enum objective objective, struct plan **best, struct plan *plan);

/* The best policy's plan, and the best strategy's; NULL where there is none. */
const struct plan *trials_best_policy(const GArray *trials, enum objective objective);
const struct plan *trials_best_strategy(const GArray *trials, enum objective objective);

/* The outcomes whose plans are best, best first: indices of at most `most`, no two with the same
 * layout and placement; with `layouts`, no two with the same layout. Returns how many. */
uint32_t trials_rank(const GArray *trials, enum objective objective, bool layouts, uint32_t *best,
                     uint32_t most);

/* The best plan of all, shared with its outcome; NULL where there is none. */
struct plan *trials_choose(const GArray *trials, enum objective objective);

/* The error of the layout that needs the least. */
void trials_refuse(const GArray *trials, GError **error);

/* A GArray of struct outcome, which g_array_unref frees with what it holds. */
GArray *trials_new(void);

#endif
