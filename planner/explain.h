/* A plan in words and tables, for a person. */
#ifndef PSTAR_PLANNER_EXPLAIN_H
#define PSTAR_PLANNER_EXPLAIN_H

#include "chunks/plan.h"

#include <stdio.h>

/* What it was made for, its chunks, what is resident throughout, its traffic by list, its peaks and
 * its time. With the trace that it was made for (may be NULL): traffic by phase, how far ahead
 * fetches are issued, a lower bound of the traffic, and an excerpt of the schedule by operator. */
void explain_plan(const struct plan *plan, const struct trace *trace, FILE *out);

#endif
