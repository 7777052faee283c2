/* When a search for a pipeline ends before it has looked at everything: once its time limit is over
 * or its progress asks for it, but not before there is a plan. All parts of a search share one. */
#ifndef PSTAR_PLANNER_PIPELINES_EARLY_END_H
#define PSTAR_PLANNER_PIPELINES_EARLY_END_H

#include "planner/pipelines/pipeline_question.h"

struct early_end {
    const struct pipeline_question *question;
    gint64 deadline; /* microseconds, monotonic; 0 is no limit */
    gint wanted;     /* atomic */
    gint found;      /* atomic: there is a plan */
    gint cut;        /* atomic: a part of the search ended before its own end */
};

/* Begins the question's time limit. */
void early_end_init(struct early_end *end, const struct pipeline_question *question);

/* Shows the progress and looks at the clock. Returns false once the search is to end, also if there
 * is no plan yet. Only the thread that searches calls it, about ten times a second. */
bool early_end_go_on(struct early_end *end, uint32_t done, uint32_t total);

/* Return whether the search is to end as soon as there is a plan, and whether it is to end now. Any
 * thread may call them. */
bool early_end_is_wanted(const struct early_end *end);
bool early_end_is_due(const struct early_end *end);

/* Says whether there is a plan. */
void early_end_set_found(struct early_end *end, bool found);

/* Says that a part of the search ended before its end; returns whether any did. */
void early_end_note_cut(struct early_end *end);
bool early_end_was_early(const struct early_end *end);

/* Returns the seconds that are left for each of so many parts; 0 is no limit. */
double early_end_share(const struct early_end *end, uint32_t parts);

#endif
