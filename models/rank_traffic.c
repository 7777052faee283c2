#include "models/rank_traffic.h"

#include "models/pipeline.h"
#include "traces/shard.h"

struct counting {
    const struct model_iteration *iteration;
    uint32_t rank, ranks;
    struct trace_exchange *exchange; /* [TRACE_COLLECTIVES] of the operator */
};

static struct shard own_shard(const struct counting *counting, uint64_t elements)
{
    return shard_of(elements, counting->ranks, counting->rank);
}

/* Every rank gives the others its part of `all` units, which are `bytes` each. */
static void count_gather(struct counting *counting, uint64_t own, uint64_t all, uint64_t bytes)
{
    counting->exchange[TRACE_GATHER].sent_bytes += own * bytes * (counting->ranks - 1);
    counting->exchange[TRACE_GATHER].received_bytes += (all - own) * bytes;
}

static uint64_t blocks_of(uint64_t elements, uint64_t count)
{
    uint64_t block = shard_block(elements);
    return (count + block - 1) / block;
}

/* Counts the gradients of a tensor, so many of them, that go to their owners. */
static void count_gradients(struct counting *counting, uint64_t elements, uint64_t gradients,
                            uint64_t element)
{
    struct trace_exchange *reduce = &counting->exchange[TRACE_REDUCE];
    uint64_t own = own_shard(counting, elements).count;
    reduce->sent_bytes += gradients * (elements - own) * element;
    reduce->received_bytes += gradients * own * (counting->ranks - 1) * element;
}

static void count_norm(struct counting *counting, uint64_t elements)
{
    uint64_t own = own_shard(counting, elements).count;
    count_gather(counting, blocks_of(elements, own), blocks_of(elements, elements), sizeof(double));
}

static uint64_t elements_of(const struct counting *counting, tensor_id tensor)
{
    return counting->iteration->trace->tensors[tensor].elements;
}

static void count_reduction(struct counting *counting, const struct model_operator *op, int i)
{
    uint64_t elements = elements_of(counting, op->t[i]);
    bool narrow = model_sums(&counting->iteration->job) == MODEL_SUMS_NARROW;
    count_gradients(counting, elements, i == 0 && op->in[0] != NO_INDEX ? 2 : 1,
                    narrow ? 2 : sizeof(float));
    if (op->norms[i])
        count_norm(counting, elements);
}

/* In stage 0 all ranks get the sums, and each takes their norm. */
static void count_bucket(struct counting *counting, const struct model_operator *op)
{
    const struct model_job *job = &counting->iteration->job;
    uint64_t element = model_gradient_layout(job) == MODEL_GRADIENT_LIST ? sizeof(float) : 2;
    for (uint32_t i = 0; i < op->bucket_count; i++) {
        uint64_t elements = elements_of(counting, op->bucket[i]);
        count_gradients(counting, elements, 1, element);
        if (model_updates_whole(job))
            count_gather(counting, own_shard(counting, elements).count, elements, element);
        else
            count_norm(counting, elements);
    }
}

static void count_parameter(struct counting *counting, tensor_id tensor)
{
    const struct trace *trace = counting->iteration->trace;
    uint64_t elements = trace->tensors[tensor].elements;
    count_gather(counting, own_shard(counting, elements).count, elements,
                 trace->list_element_bytes[TRACE_PARAM]);
}

static void count_operator(struct counting *counting, const struct model_operator *op)
{
    for (int i = 0; op->kind == MODEL_REDUCE && i < MODEL_TENSORS; i++)
        if (op->t[i] != NO_INDEX)
            count_reduction(counting, op, i);
    if (op->kind == MODEL_REDUCE_BUCKET)
        count_bucket(counting, op);
    if (op->kind == MODEL_NEWEST || model_update_gathers(&counting->iteration->job, op))
        count_parameter(counting, op->t[0]);
}

/* Counts what the first update begins with: the ranks show each other their micro-batches' losses
 * and a wish to stop, and then the stages of a pipeline theirs. */
static void count_shared(struct counting *counting)
{
    const struct model_iteration *iteration = counting->iteration;
    uint64_t own = model_rank_micro_batches(&iteration->job) + 1;
    if (counting->ranks > 1)
        count_gather(counting, own, own * counting->ranks, sizeof(double));
    if (!iteration->cut)
        return;
    uint64_t bytes = (iteration->cut->stages - 1) * sizeof(double) *
                     pipeline_shared_numbers(iteration->cut->whole);
    counting->exchange[TRACE_GATHER].sent_bytes += bytes;
    counting->exchange[TRACE_GATHER].received_bytes += bytes;
}

/* Counts what operator `moment` exchanges. */
static void count_at(struct counting *counting, uint32_t moment, bool *updated)
{
    const struct model_operator *op = &counting->iteration->operators[moment];
    if (counting->ranks > 1)
        count_operator(counting, op);
    if (op->kind == MODEL_UPDATE && !*updated) {
        count_shared(counting);
        *updated = true;
    }
}

struct rank_traffic rank_traffic_of(const struct model_iteration *iteration, uint32_t rank)
{
    struct trace_exchange exchange[TRACE_COLLECTIVES] = {{0}};
    struct counting counting = {iteration, rank, model_ranks(&iteration->job), exchange};
    bool updated = false;
    for (uint32_t m = 0; m < iteration->trace->operator_count; m++)
        count_at(&counting, m, &updated);
    return (struct rank_traffic){
        exchange[TRACE_GATHER].sent_bytes + exchange[TRACE_REDUCE].sent_bytes,
        exchange[TRACE_GATHER].received_bytes + exchange[TRACE_REDUCE].received_bytes};
}

void rank_traffic_set(struct model_iteration *iteration, uint32_t rank)
{
    struct counting counting = {iteration, rank, model_ranks(&iteration->job), NULL};
    bool updated = false, alone = counting.ranks == 1 && !iteration->cut;
    for (uint32_t m = 0; !alone && m < iteration->trace->operator_count; m++) {
        counting.exchange = iteration->trace->operators[m].exchange;
        counting.exchange[TRACE_GATHER] = counting.exchange[TRACE_REDUCE] =
            (struct trace_exchange){0, 0};
        count_at(&counting, m, &updated);
    }
}
