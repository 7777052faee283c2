/* What a search found, in a table, for a person. */
#ifndef PSTAR_PLANNER_ANSWERS_PRINT_H
#define PSTAR_PLANNER_ANSWERS_PRINT_H

#include "planner/search/search.h"

#include <stdio.h>

/* The plan beside the best policy and the best strategy, its choices, and its certificate. */
void print_result(const struct search_result *result, FILE *out);

#endif
