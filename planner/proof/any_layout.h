/* A lower bound of the time that holds for any layout, any schedule and any place of each update:
 * what the plan of one choice of layers is compared with the other choices by. */
#ifndef PSTAR_PLANNER_PROOF_ANY_LAYOUT_H
#define PSTAR_PLANNER_PROOF_ANY_LAYOUT_H

#include "platforms/platform.h"
#include "traces/trace.h"

/* The operators of the device run one after the other, and so do those of the host. With a price
 * p, in parts of BOUND_PRICE_SCALE, of the host's time and 1 - p of the device's, an iteration
 * takes at least
 *
 *     the sum over operators of (1 - p) or p times its duration,
 *
 * an update, where it can be placed (planner/schedule/placement.h), on the cheaper side. In whole
 * nanoseconds, rounded down, exact in integers. `platform` may be NULL. */
uint64_t work_bound(const struct trace *trace, const struct platform *platform,
                    uint64_t host_price);

/* The best bound, and its price. */
uint64_t work_bound_best(const struct trace *trace, const struct platform *platform,
                         uint64_t *host_price);

#endif
