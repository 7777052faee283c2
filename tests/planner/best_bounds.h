/* Bounds of the time of drawn iterations: with given prices, and the best one of those that are
 * found and of random ones. */
#ifndef PSTAR_TESTS_PLANNER_BEST_BOUNDS_H
#define PSTAR_TESTS_PLANNER_BEST_BOUNDS_H

#include "time_fixture.h"

/* Makes the model of a certificate for the trace's own layout and budget, with the updates of these
 * groups on the sides that `on_host` has, or returns NULL if no window can begin. Free it with
 * time_model_free. */
struct time_model *bounds_model(const struct time_fixture *f, const uint32_t *branches,
                                uint32_t branch_count, uint32_t on_host);

/* Returns no chains, but room for them: struct time_chain. */
GArray *bounds_chains(void);

/* Returns the bound with these prices, in nanoseconds; at least 0. */
uint64_t bounds_of_prices(const struct time_model *model, const struct certificate_window *windows,
                          const GArray *chains, uint64_t host_bytes);

/* Finds the fixture's bound, and what its prices are of. */
void bounds_find(struct time_fixture *f, GRand *random);

#endif
