/* Prices that make the lower bound of an iteration's time great. */
#ifndef PSTAR_PLANNER_TIME_PRICES_H
#define PSTAR_PLANNER_TIME_PRICES_H

#include "planner/time_model.h"

/* Dantzig-Wolfe decomposition: a master program, solved with GLPK, mixes the ways of the blocks
 * that were found so far and proposes prices; for these the blocks answer with their cheapest ways.
 * The best prices met, as time_model_bound takes them: [window count], the caller frees them. Not
 * from two threads at once. */
struct certificate_window *time_prices_find(const struct time_model *model);

#endif
