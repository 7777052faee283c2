/* Prices that make the lower bound of an iteration's time great. */
#ifndef PSTAR_PLANNER_PROOF_PRICES_H
#define PSTAR_PLANNER_PROOF_PRICES_H

#include "planner/proof/time_model.h"
#include "planner/schedule/reuse.h"

/* Share of the master's optimum that the bound of a certificate may stay below it. */
#define TIME_PRICES_CLOSE 2e-4

/* Dantzig-Wolfe decomposition: a master program, solved with GLPK, mixes the ways of the blocks
 * that were found so far and proposes prices; for these the blocks answer with their cheapest ways,
 * until the bound is as close to the mix as `close` says. The best prices met, as time_model_bound
 * takes them: [window count], the caller frees them. `on_host` [block_count] receives the share of
 * each block that runs on the host in the last mix; may be NULL. Not from two threads at once. */
struct certificate_window *time_prices_find(const struct time_model *model, double close,
                                            double *on_host);

/* Prices of room that make the lower bound of an iteration's traffic the greatest there is. */

/* The linear program of docs/planner.md, solved with GLPK; its dual values of the room at each
 * moment, as bound_traffic takes them: [moment_count], the caller frees them. Not from two threads
 * at once. All are 0 where the solver finds no answer, which bound_traffic can be called with all
 * the same. */
uint64_t *traffic_prices_find(const struct reuses *reuses);

#endif
