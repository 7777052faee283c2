#include "sim/network_times.h"

static struct gathering_traffic traffic_of(const struct gathering *gathering,
                                           const struct trace *trace, chunk_id chunk,
                                           const uint8_t *on_host)
{
    struct gathering_traffic traffic = {0};
    for (uint32_t p = gathering->first[chunk]; p < gathering->first[chunk + 1]; p++) {
        const struct gathering_part *part = &gathering->parts[p];
        gathering_count(&traffic, trace, part->tensor, 0, !on_host || !on_host[part->source]);
    }
    return traffic;
}

/* The network's queue adds what it reduces. */
static uint64_t *find_exchanges(const struct trace *trace, const struct costs *costs)
{
    uint64_t *ns = g_new0(uint64_t, trace->operator_count);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        ns[m] = costs_exchanges(costs, op).alone_ns;
        if (trace_operator_reduces(op))
            ns[m] += op->duration_ns;
    }
    return ns;
}

struct network_times *network_times_new(const struct trace *trace, const struct layout *layout,
                                        const struct costs *costs)
{
    struct network_times *times = g_new0(struct network_times, 1);
    times->gathering = gathering_new(layout);
    times->gather_ns = g_new0(uint64_t, layout->chunk_count);
    for (uint32_t c = 0; times->gathering && c < layout->chunk_count; c++) {
        const struct gathering_traffic traffic = traffic_of(times->gathering, trace, c, NULL);
        times->gather_ns[c] = costs_exchange(costs, TRACE_GATHER, &traffic.exchange).alone_ns;
    }
    times->exchange_ns = find_exchanges(trace, costs);
    return times;
}

void network_times_free(struct network_times *times)
{
    if (!times)
        return;
    gathering_free(times->gathering);
    g_free(times->gather_ns);
    g_free(times->exchange_ns);
    g_free(times);
}

uint64_t *network_link_times(const struct network_times *times, const struct trace *trace,
                             const struct layout *layout, const struct costs *costs,
                             const uint8_t *on_host)
{
    uint64_t *ns = g_new0(uint64_t, layout->chunk_count);
    for (uint32_t c = 0; times->gathering && c < layout->chunk_count; c++) {
        const struct gathering_traffic traffic = traffic_of(times->gathering, trace, c, on_host);
        if (traffic.link_bytes)
            ns[c] = costs_copy(costs, MOVER_H2D, traffic.link_bytes, 0).alone_ns;
    }
    return ns;
}
