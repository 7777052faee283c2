#include "planner/proof/nvme_order.h"

#include <string.h>

bool nvme_order_has(const struct trace_operator *op)
{
    return op->place == TRACE_ON_DEVICE && !trace_operator_reduces(op);
}

static uint32_t find_first_update(const struct trace *trace)
{
    uint32_t m = 0;
    while (m < trace->operator_count && trace->operators[m].phase != TRACE_UPDATE_PHASE)
        m++;
    return m;
}

/* Returns for each chunk the moment of the device's operator before the updates that is the first
 * to use the chunk, and reads it; NO_INDEX if another use comes first. The caller frees it. */
static uint32_t *find_readers(const struct trace *trace, const struct layout *layout,
                              const struct accesses *accesses, uint32_t first_update)
{
    uint32_t *readers = g_new(uint32_t, layout->chunk_count);
    g_autofree uint8_t *used = g_new0(uint8_t, layout->chunk_count);
    memset(readers, 0xff, layout->chunk_count * sizeof *readers);
    for (uint32_t a = 0, m = 0; m < first_update; m++)
        for (; a < accesses->first[m + 1]; a++) {
            const struct chunk_access *access = &accesses->items[a];
            if (!used[access->chunk] && !(access->flags & ACCESS_FRESH) &&
                nvme_order_has(&trace->operators[m]))
                readers[access->chunk] = m;
            used[access->chunk] = 1;
        }
    return readers;
}

/* What is no update is where it is, and over before the device begins the next iteration. */
static uint32_t find_over(const struct trace *trace, const struct accesses *accesses,
                          const uint32_t *readers, uint32_t m)
{
    const struct trace_operator *op = &trace->operators[m];
    if (op->phase != TRACE_UPDATE_PHASE && nvme_order_has(op))
        return 0;
    uint32_t earliest = NO_INDEX;
    for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++)
        if (accesses->items[a].flags & ACCESS_WRITES)
            earliest = MIN(earliest, readers[accesses->items[a].chunk]);
    return earliest;
}

struct nvme_order nvme_order_of(const struct trace *trace, const struct layout *layout,
                                const struct accesses *accesses)
{
    struct nvme_order order = {find_first_update(trace), g_new(uint32_t, trace->operator_count)};
    g_autofree uint32_t *readers = find_readers(trace, layout, accesses, order.first_update);
    for (uint32_t m = order.first_update; m < trace->operator_count; m++)
        order.over[m] = find_over(trace, accesses, readers, m);
    return order;
}

void nvme_order_clear(struct nvme_order *order)
{
    g_free(order->over);
}
