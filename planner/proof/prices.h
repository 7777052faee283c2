/* Finds prices that make lower bounds large, with linear programs (docs/bounds.md). */
#ifndef PSTAR_PLANNER_PROOF_PRICES_H
#define PSTAR_PLANNER_PROOF_PRICES_H

#include "planner/proof/time_model.h"
#include "planner/schedule/reuse.h"

/* How far the bound of a certificate may stay below the master program's optimum, as a share of it.
 */
#define TIME_PRICES_CLOSE 2e-4

/* Solves the time bound by Dantzig-Wolfe decomposition. A master program, solved with GLPK, mixes
 * the routes of the blocks found so far and proposes prices; each block answers with its cheapest
 * routes for them. This repeats until the bound is within `close` of the mix. Returns the best
 * prices found, for time_model_bound: [window count], freed by the caller. `on_host` [block_count]
 * (may be NULL) receives the share of each block that runs on the host in the last mix. Must not
 * run in two threads at once. */
struct certificate_window *time_prices_find(const struct time_model *model, double close,
                                            double *on_host);

/* Returns the dual values of the room in the traffic program, for bound_traffic: [moment_count],
 * freed by the caller. All are 0 if the solver finds no solution, which is still valid. Must not
 * run in two threads at once. */
uint64_t *traffic_prices_find(const struct reuses *reuses);

#endif
