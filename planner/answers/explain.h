/* Plans and search results in words and tables, for a person. */
#ifndef PSTAR_PLANNER_ANSWERS_EXPLAIN_H
#define PSTAR_PLANNER_ANSWERS_EXPLAIN_H

#include "chunks/plan.h"
#include "planner/search/search.h"

#include <stdio.h>

/* Prints what the plan was made for, its chunks, which of them are resident throughout, traffic by
 * list, peaks, time and certificate. With its trace (may be NULL) it also prints traffic by phase,
 * how far ahead fetches are issued, and an excerpt of the schedule. */
void explain_plan(const struct plan *plan, const struct trace *trace, FILE *out);

/* Prints the bounds, and how far the plan is above them. */
void explain_certificate(const struct certificate *certificate, FILE *out);

/* Prints the best `top` of what was tried and is no better than the plan, and why each lost: plans
 * with other layouts, the best policy and strategy, and other variants of the run. In rivals.c. */
void explain_rivals(const struct search_result *result, enum objective objective, uint32_t top,
                    FILE *out);

/* Writes the JSON of docs/planner.md, "Runners-up": the plan's figures, bounds and all runners-up.
 * In rivals.c. */
bool explain_write_json(const struct search_result *result, enum objective objective,
                        const char *plan_path, const char *path, GError **error);

/* Prints the certificate, and whether its proof was stopped. */
void explain_proof(const struct search_result *result, FILE *out);
/* Prints the plan beside the best policy and the best strategy, its choices and its certificate. */
void explain_result(const struct search_result *result, FILE *out);

#endif
