/* A lower bound of an iteration's traffic, for any schedule of one layout.
 *
 * Room at a moment has a price; a kept gap pays for the moments that it spans. For any prices, the
 * least that each chunk can pay for copies and room, summed, less what all the room is worth, is
 * never above what any schedule moves: one that fits pays no more for its room than all the room is
 * worth. A chunk's least is found exactly, over the states clean and dirty from gap to gap, cyclic
 * in the iteration. Integers throughout: the result is exact for the prices given. */
#ifndef PSTAR_PLANNER_PROOF_BOUND_H
#define PSTAR_PLANNER_PROOF_BOUND_H

#include "chunks/plan.h"
#include "planner/schedule/reuse.h"
#include "platforms/platform.h"
#include "traces/trace.h"

/* A price of this much is a byte of traffic for a byte of room. */
#define BOUND_PRICE_SCALE (1 << 30)
/* What no price needs to exceed: leaving and coming back costs two copies. */
#define BOUND_PRICE_MOST UINT32_MAX

/* Bytes over the link, activations of host operators included. `price` [moment_count], each at most
 * BOUND_PRICE_MOST. */
uint64_t bound_traffic(const struct reuses *reuses, const uint64_t *price);

/* The gaps of any schedule with the plan's layout, within its device budget, whatever chunk is at
 * home where. The plan has passed plan_check. */
struct reuses *bound_reuses(const struct trace *trace, const struct plan *plan);

/* A lower bound of the time that holds for any layout, any schedule and any place of each update:
 * what the plan of one choice of layers is compared with the other choices by. */

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
