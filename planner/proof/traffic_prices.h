/* Prices of room that make the lower bound of an iteration's traffic the greatest there is. */
#ifndef PSTAR_PLANNER_PROOF_TRAFFIC_PRICES_H
#define PSTAR_PLANNER_PROOF_TRAFFIC_PRICES_H

#include "planner/schedule/reuse.h"

/* The linear program of docs/planner.md, solved with GLPK; its dual values of the room at each
 * moment, as bound_traffic takes them: [moment_count], the caller frees them. Not from two threads
 * at once. All are 0 where the solver finds no answer, which bound_traffic can be called with all
 * the same. */
uint64_t *traffic_prices_find(const struct reuses *reuses);

#endif
