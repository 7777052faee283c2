#include "models/rank_traffic.h"

#include "traces/shard.h"

struct counting {
    const struct model_iteration *iteration;
    uint32_t rank, ranks;
    struct rank_traffic traffic;
};

static struct shard own_shard(const struct counting *counting, uint64_t elements)
{
    return shard_of(elements, counting->ranks, counting->rank);
}

/* Every rank gives the others its part of `all` units, which are `bytes` each. */
static void count_gather(struct counting *counting, uint64_t own, uint64_t all, uint64_t bytes)
{
    counting->traffic.sent_bytes += own * bytes * (counting->ranks - 1);
    counting->traffic.received_bytes += (all - own) * bytes;
}

static uint64_t blocks_of(uint64_t elements, uint64_t count)
{
    uint64_t block = shard_block(elements);
    return (count + block - 1) / block;
}

static void count_reduction(struct counting *counting, const struct model_operator *op, int i)
{
    uint64_t elements = counting->iteration->trace->tensors[op->t[i]].elements;
    uint64_t own = own_shard(counting, elements).count;
    uint64_t parts = i == 0 && op->in[0] != NO_INDEX ? 2 : 1;
    counting->traffic.sent_bytes += parts * (elements - own) * sizeof(float);
    counting->traffic.received_bytes += parts * own * (counting->ranks - 1) * sizeof(float);
    if (op->norms[i])
        count_gather(counting, blocks_of(elements, own), blocks_of(elements, elements),
                     sizeof(double));
}

static void count_parameter(struct counting *counting, tensor_id tensor)
{
    const struct trace *trace = counting->iteration->trace;
    uint64_t elements = trace->tensors[tensor].elements;
    count_gather(counting, own_shard(counting, elements).count, elements,
                 trace->list_element_bytes[TRACE_PARAM]);
}

struct rank_traffic rank_traffic_of(const struct model_iteration *iteration, uint32_t rank)
{
    const struct trace *trace = iteration->trace;
    struct counting counting = {iteration, rank, model_ranks(&iteration->job), {0, 0}};
    uint64_t own_losses = model_rank_micro_batches(&iteration->job) + 1; /* and a wish to stop */
    if (counting.ranks == 1)
        return counting.traffic;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct model_operator *op = &iteration->operators[m];
        for (int i = 0; op->kind == MODEL_REDUCE && i < 2; i++)
            if (op->t[i] != NO_INDEX)
                count_reduction(&counting, op, i);
        for (int i = 0; op->kind == MODEL_GATHER && i < 2; i++)
            if (op->t[i] != NO_INDEX)
                count_parameter(&counting, op->t[i]);
        if (op->kind == MODEL_UPDATE && !trace->shared_parameters)
            count_parameter(&counting, op->t[0]);
    }
    count_gather(&counting, own_losses, own_losses * counting.ranks, sizeof(double));
    return counting.traffic;
}
