/* The rounds of a search: tasks that are added, run side by side, and ranked. */
#ifndef PSTAR_PLANNER_SEARCH_TRIALS_H
#define PSTAR_PLANNER_SEARCH_TRIALS_H

#include "planner/search/search.h"
#include "planner/search/trial_run.h"

struct search {
    struct search_options options;
    struct non_model *non_model; /* of the job */
    struct candidate_job job;
    struct layout_choices *choices;
    GPtrArray *strategies; /* struct strategy, to compare with; NULL: updates cannot be placed */
    GArray *trials;        /* struct outcome */
    guint described;       /* outcomes that are in a result */
    guint begin;           /* the first outcome of the round that runs */
    struct trial_context context; /* what that round knows */
    struct retention_bias bias;   /* of tasks that are added */
    bool certain;                 /* what runs is done whatever asks for an end */
    GPtrArray *mixes;             /* [tensor_count] each, of placements */
    double bound;                 /* seconds; of time, that no plan beats, or hardly any */
    gint64 deadline;              /* microseconds, monotonic; 0: none */
    gint stop;                    /* atomic */
};

/* The outcome of this number, until the next is added; and its layout. */
struct trial *search_trial(const struct search *search, uint32_t index);
const struct layout_choice *search_layout(const struct search *search, const struct trial *trial);

/* Adds a task with the search's taste; a glance once for each layout, placement and taste. */
void search_add(struct search *search, uint32_t layout, struct placement placement,
                enum effort_level effort);
void search_add_once(struct search *search, uint32_t layout, struct placement placement);

/* Runs `task` for the outcomes that were added since the last call, unless the search is over, and
 * finds the best. */
void search_run(struct search *search, void (*task)(void *data, uint32_t index));

/* Tasks: what others do; and plans. */
void search_run_baselines(void *data, uint32_t index);
void search_run_plans(void *data, uint32_t index);

/* Stopped, or with a plan that is good enough. */
bool search_is_over(const struct search *search);

#endif
