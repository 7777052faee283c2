/* A plan in words and tables, for a person. */
#ifndef PSTAR_PLANNER_ANSWERS_EXPLAIN_H
#define PSTAR_PLANNER_ANSWERS_EXPLAIN_H

#include "chunks/plan.h"
#include "planner/search/search.h"

#include <stdio.h>

/* What it was made for, its chunks, what is resident throughout, its traffic by list, its peaks and
 * its time, and its certificate. With the trace that it was made for (may be NULL): traffic by
 * phase, how far ahead fetches are issued, and an excerpt of the schedule by operator. */
void explain_plan(const struct plan *plan, const struct trace *trace, FILE *out);

/* Its bounds, and how far above them the plan is. */
void explain_certificate(const struct certificate *certificate, FILE *out);

/* What a search found, in a table, for a person. */

/* The plan beside the best policy and the best strategy, its choices, and its certificate. */
void explain_result(const struct search_result *result, FILE *out);

#endif
