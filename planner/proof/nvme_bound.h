/* What NVMe must read and write where the device and the host have no room for all. */
#ifndef PSTAR_PLANNER_PROOF_NVME_BOUND_H
#define PSTAR_PLANNER_PROOF_NVME_BOUND_H

#include "chunks/plan.h"
#include "sim/costs.h"

struct nvme_least {
    uint64_t read_bytes, write_bytes;
};

/* Returns what any schedule with the plan's layout within its budgets reads and writes in an
 * iteration, wherever updates run.
 *
 * What a later operator reads before it is overwritten lies on the device, on the host or in NVMe.
 * So when an operator begins, at least what is beyond the host's budget, and the device's less the
 * room of the operator's non-model data, is in NVMe alone, and is read before that operator comes
 * again. Of the chunks that an iteration also changes, what is beyond has been written since it was
 * changed. The operator with the most counts: the gradients are there when backward ends. */
struct nvme_least nvme_least(const struct plan *plan, const struct trace *trace);

/* Returns the nanoseconds that an iteration takes at least: what the slower one of reading and
 * writing these bytes takes, or the longest span, if that is more.
 *
 * A span begins when the device has ended its work before the first update u, because no update
 * begins earlier, and ends when a later operator a of the device begins, which comes before the
 * updates of the next iteration. By then, the updates whose results operators up to a read have
 * run. What they have left and what is read after a begins is on the device, on the host or in
 * NVMe. So what is beyond their room has been written within the span. What updates read
 * that have run by then, and had no room when the span began, has been read within it. The
 * iteration is as long as the span and the work of the device from a to u. */
uint64_t nvme_bound_ns(const struct plan *plan, const struct trace *trace,
                       const struct costs *costs);

#endif
