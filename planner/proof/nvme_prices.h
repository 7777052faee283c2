/* A bound of the time from the bytes that pass NVMe in the whole iteration.
 *
 * The memories of the device and of the host are one tier above NVMe (nvme_reuses.h), whose room
 * has prices as the device's has in the bound of the traffic (bound.h). They bound what the bytes
 * that are read and written count together, for given weights. So the iteration takes at least
 * until the disk, which reads and writes at the same time, can have moved bytes that count so much.
 * docs/bounds.md has the proof. */
#ifndef PSTAR_PLANNER_PROOF_NVME_PRICES_H
#define PSTAR_PLANNER_PROOF_NVME_PRICES_H

#include "chunks/certificate.h"
#include "chunks/plan.h"
#include "sim/costs.h"

/* Finds weights and prices with a bound above `least_ns`, and returns the largest bound found in
 * nanoseconds. If there is none, or if the plan has nothing in NVMe, *found has no prices, and the
 * result is `least_ns`. Must not run in two threads at once. */
uint64_t nvme_prices_prove(const struct plan *plan, const struct trace *trace,
                           const struct costs *costs, uint64_t least_ns,
                           struct certificate_nvme *found);

/* Sets *bound to what follows from these weights and prices, in nanoseconds. Returns what is wrong
 * with them, or NULL. */
const char *nvme_prices_recompute(const struct plan *plan, const struct trace *trace,
                                  const struct costs *costs, const struct certificate_nvme *stated,
                                  uint64_t *bound);

#endif
