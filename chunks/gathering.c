#include "chunks/gathering.h"

#include "traces/shard.h"

/* Sets `first` to where each chunk's parts begin. */
static void count_parts(struct gathering *gathering, const struct layout *layout)
{
    for (uint32_t t = 0; t < layout->tensor_count; t++)
        gathering->first[layout->places[TRACE_GATHERED][t].chunk + 1]++;
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        gathering->first[c + 1] += gathering->first[c];
}

struct gathering *gathering_new(const struct layout *layout)
{
    if (!layout->places[TRACE_GATHERED])
        return NULL;
    struct gathering *gathering = g_new(struct gathering, 1);
    gathering->first = g_new0(uint32_t, (size_t)layout->chunk_count + 1);
    gathering->parts = g_new(struct gathering_part, layout->tensor_count);
    count_parts(gathering, layout);
    g_autofree uint32_t *next = g_memdup2(gathering->first,
                                          layout->chunk_count * sizeof *gathering->first);
    for (uint32_t t = 0; t < layout->tensor_count; t++) {
        const struct layout_place *whole = &layout->places[TRACE_GATHERED][t];
        const struct layout_place *shard = &layout->places[TRACE_PARAM][t];
        gathering->parts[next[whole->chunk]++] =
            (struct gathering_part){t, whole->offset, shard->chunk, shard->offset};
    }
    return gathering;
}

void gathering_free(struct gathering *gathering)
{
    if (!gathering)
        return;
    g_free(gathering->first);
    g_free(gathering->parts);
    g_free(gathering);
}

void gathering_count(struct gathering_traffic *traffic, const struct trace *trace, tensor_id tensor,
                     uint32_t rank, bool on_device)
{
    uint64_t elements = trace->tensors[tensor].elements;
    uint64_t element = trace->list_element_bytes[TRACE_GATHERED];
    uint64_t own = shard_of(elements, trace->ranks, rank).count;
    traffic->link_bytes += on_device ? 0 : own * element;
    traffic->exchange.sent_bytes += own * element * (trace->ranks - 1);
    traffic->exchange.received_bytes += (elements - own) * element;
}
