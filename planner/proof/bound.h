/* Lower bounds that hold for any schedule. docs/bounds.md has the proofs.
 *
 * Traffic of one layout: room at a moment has a price, which a retained reuse interval pays for the
 * moments that it spans. For any prices, sum over the chunks the least that each can pay for copies
 * and room, and subtract the price of all room: no schedule moves less. A schedule that fits pays
 * no more for its room than all room costs. The least of a chunk is found exactly, over the states
 * clean and dirty, cyclic in the iteration. All arithmetic is in integers, so the result is exact
 * for the given prices. */
#ifndef PSTAR_PLANNER_PROOF_BOUND_H
#define PSTAR_PLANNER_PROOF_BOUND_H

#include "chunks/plan.h"
#include "planner/schedule/reuse.h"
#include "platforms/platform.h"
#include "traces/trace.h"

/* Bytes times BOUND_PRICE_SCALE. Sums of prices stay below 2^64 and bytes below 2^61. */
__extension__ typedef __int128 scaled_bytes;

/* At this price a byte of room costs a byte of traffic. */
#define BOUND_PRICE_SCALE (1 << 30)
/* No price needs to exceed this: leaving and coming back costs two copies. */
#define BOUND_PRICE_MOST UINT32_MAX

/* Returns bytes over the link, including activations of host operators. In `reuses` no chunk must
 * stay. `price` [moment_count]: each at most BOUND_PRICE_MOST. */
uint64_t bound_traffic(const struct reuses *reuses, const uint64_t *price);

/* What a byte counts that is fetched, and one that is written back, in parts of BOUND_PRICE_SCALE.
 */
struct copy_weights {
    uint32_t fetched, written; /* at most BOUND_PRICE_SCALE */
};

/* With these all copies are traffic. */
#define COPIES_COUNT_ALIKE ((struct copy_weights){BOUND_PRICE_SCALE, BOUND_PRICE_SCALE})

/* Returns what the bytes that are fetched and written back count at least, in parts of
 * BOUND_PRICE_SCALE of a byte; it may be negative. The rest is as above. */
scaled_bytes bound_copies(const struct reuses *reuses, const struct copy_weights *weights,
                          const uint64_t *price);

/* Returns the reuse intervals of any schedule with the plan's layout and device budget, for any
 * homes of the chunks. The plan has passed plan_check. */
struct reuses *bound_reuses(const struct trace *trace, const struct plan *plan);

/* Returns a lower bound of the time, in whole nanoseconds, for any layout, any schedule and any
 * place of each update. Variants of a run are compared by it.
 *
 * The operators of the device run one after the other, and so do those of the host. With a price p
 * of the host's time, in parts of BOUND_PRICE_SCALE, and 1 - p of the device's, an iteration takes
 * at least the sum over all operators of (1 - p) or p times their duration. An update that can be
 * placed (planner/schedule/placement.h) counts on the cheaper side. The sum is exact in integers
 * and rounded down. `platform` may be NULL. */
uint64_t work_bound(const struct trace *trace, const struct platform *platform,
                    uint64_t host_price);

/* Returns whether no plan fits within both memories, whatever its layout, its schedule and its
 * places of updates. The model data must lie somewhere for the whole iteration: on the device, or
 * in the host's slots, where operators of the host need it. This leaves out gathered copies, and
 * gradients that are dead when the iteration begins. At each moment the device holds what lies
 * there, the data that the moment's operator uses, and non-model data. If the result is false, a
 * plan may fit or not. `platform` may be NULL. */
bool bound_excludes(const struct trace *trace, const struct platform *platform,
                    uint64_t device_budget, uint64_t host_budget);

/* Returns the best work bound and its price. */
uint64_t work_bound_best(const struct trace *trace, const struct platform *platform,
                         uint64_t *host_price);

#endif
