/* What is known of the order of an iteration's operators, wherever its updates run: the device's
 * operators before the updates follow each other, and some of them wait for updates of the
 * iteration before. The bounds of what NVMe moves follow from it. */
#ifndef PSTAR_PLANNER_PROOF_NVME_ORDER_H
#define PSTAR_PLANNER_PROOF_NVME_ORDER_H

#include "chunks/accesses.h"

struct nvme_order {
    uint32_t first_update; /* the moment of the first update; moment_count if there is none */
    uint32_t *over; /* [moment_count] from the first update on: the earliest moment before the
                       updates at whose operator's begin, in the next iteration, this one is over;
                       NO_INDEX if that is not known */
};

/* Returns whether the operator is one of those that the device does one after the other. */
bool nvme_order_has(const struct trace_operator *op);

/* `accesses` are of the trace with this layout. */
struct nvme_order nvme_order_of(const struct trace *trace, const struct layout *layout,
                                const struct accesses *accesses);
void nvme_order_clear(struct nvme_order *order);

#endif
