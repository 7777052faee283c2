/* The memory of the device and that of the host as one tier above NVMe. */
#ifndef PSTAR_PLANNER_PROOF_NVME_REUSES_H
#define PSTAR_PLANNER_PROOF_NVME_REUSES_H

#include "chunks/plan.h"
#include "planner/schedule/reuse.h"

/* Returns the reuse intervals of any schedule with the plan's layout within its budgets, wherever
 * updates run. In an interval a chunk stays on the device or on the host, or its bytes are in NVMe
 * alone for a while: then they are read before its next use, and have been written if the chunk has
 * changed. Free it with reuses_free.
 *
 * The moments are those before the updates; one at which all of these are over and no update has
 * begun; and one for all updates of a chunk together, which is known to lie between that one and
 * the moment at which they are over (nvme_order.h). Where that is not known, nothing is claimed
 * behind them. Chunks that the host or a reduction uses before the updates, and gathered ones, have
 * no intervals. */
struct reuses *nvme_reuses_new(const struct plan *plan, const struct trace *trace);

#endif
