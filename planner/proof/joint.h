/* A bound of the time from the largest chunks of forward and backward, taken together.
 *
 * The windows of the time bound let parts of a chunk stay where not all of it has room. Where a few
 * large chunks fill the device, and micro-batch after micro-batch needs them, that is far from what
 * whole chunks can do. This bound knows which sets of these chunks fit at each moment, and finds
 * the cheapest way from set to set by dynamic programming. It knows nothing of windows: an
 * iteration takes at least any mean of the work of the device, of both directions of the link, and
 * of the host. docs/bounds.md proves it. */
#ifndef PSTAR_PLANNER_PROOF_JOINT_H
#define PSTAR_PLANNER_PROOF_JOINT_H

#include "chunks/certificate.h"
#include "planner/proof/prices.h"

/* Finds chunks and prices with a bound above `least_ns`, and returns the largest bound found in
 * nanoseconds. If there is none, *found has no chunks, and the result is `least_ns`. The branches
 * of the job do not matter. */
uint64_t joint_prove(const struct time_job *job, uint64_t least_ns,
                     struct certificate_joint *found);

/* Sets *bound to what follows from these chunks and prices, in nanoseconds. Returns what is wrong
 * with them, or NULL. */
const char *joint_recompute(const struct time_job *job, const struct certificate_joint *stated,
                            uint64_t *bound);

#endif
