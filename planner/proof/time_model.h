/* What any schedule of a plan's layout must do in each window of an iteration, as far as the lower
 * bound of its time knows: chunks' ways, work on either side, room. docs/planner.md has the
 * argument why no schedule can do less. */
#ifndef PSTAR_PLANNER_PROOF_TIME_MODEL_H
#define PSTAR_PLANNER_PROOF_TIME_MODEL_H

#include "chunks/plan.h"
#include "planner/proof/routes.h"
#include "sim/costs.h"

/* Where the optimizer may run. With one side, updates are where the plan has them. */
enum time_side { TIME_DEVICE, TIME_HOST, TIME_SIDES };

/* Work that is not a chunk's: an update, or an operator on the host. */
struct time_work {
    uint64_t compute_ns;              /* on the device, in `window` */
    uint64_t host_ns, h2d_ns, d2h_ns; /* each somewhere in `window` and `span` windows after it */
    uint16_t window, span;
};

/* What is placed together: the chunks of a group, and their updates on each side; or one operator
 * that is on the host in any case, and no chunk. */
struct time_block {
    GArray *chunks;           /* uint32_t */
    GArray *work[TIME_SIDES]; /* struct time_work */
};

struct time_model {
    struct time_windows *windows;
    uint64_t *compute_ns; /* [window count] of operators that are on the device in any case */
    uint32_t side_count, chunk_count, block_count;
    struct route_chunk *chunks; /* [chunk_count] */
    struct route *routes[TIME_SIDES];
    struct time_block *blocks; /* [block_count] */
    uint32_t longest;          /* steps of a path */
};

struct time_job {
    const struct plan *plan;
    const struct trace *sides[TIME_SIDES]; /* with every update on the device, and on the host; or
                                              the plan's own, and NULL: updates stay there */
    const struct costs *costs;
};

/* `moments`: as windows_are_possible has them. */
struct time_model *time_model_new(const struct time_job *job, const struct reuses *reuses,
                                  const uint32_t *moments, uint32_t count);
void time_model_free(struct time_model *model);

/* The lower bound for these prices, in nanoseconds times BOUND_PRICE_SCALE: exact, in integers. In
 * each window the prices of the resources sum to at most BOUND_PRICE_SCALE. `use`, [block_count *
 * window count], receives what each block takes in its cheapest way; may be NULL. */
scaled_ns time_model_bound(const struct time_model *model, const struct certificate_window *prices,
                           uint64_t (*use)[WINDOW_USES]);

#endif
