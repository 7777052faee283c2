#include "engine/bf16.h"
#include "engine/operator_call.h"
#include "engine/shards.h"
#include "models/pipeline.h"

#include <string.h>

/* ---- several stages ---- */

/* Evaluation has channels of its own, because a message of the next step may be under way. */
static struct ranks_message message_of(const struct call *call, void *data)
{
    const struct model_operator *op = call->op;
    uint32_t channel = 2 * op->channel + !call->operation->training;
    return (struct ranks_message){op->peer, op->bytes, data, channel};
}

void operator_send(const struct call *call)
{
    struct ranks *stages = call->operators->stages;
    const struct ranks_message message =
        message_of(call, call->op->t[0] == NO_INDEX ? in(call, 0) : parameter(call, 0));
    ranks_begin(stages, ranks_issue(stages));
    stages->ops->post(stages, &message, 1);
    ranks_end(stages);
}

void operator_receive(const struct call *call)
{
    struct ranks *stages = call->operators->stages;
    const struct ranks_message message = message_of(call, out(call, 0));
    ranks_begin(stages, ranks_issue(stages));
    stages->ops->transfer(stages, NULL, 0, &message, 1);
    ranks_end(stages);
}

void operator_add_gradient(const struct call *call)
{
    const struct reduction_piece piece = {
        .ranks = 1,
        .elements = call->operation->tensor[0].elements,
        .received = {in(call, 0)},
        .accumulate = call->op->accumulate,
        .sum = at(call, call->operation->tensor[0].address[TRACE_GRAD]),
    };
    reduction_add_on_host(NULL, &piece);
}

/* ---- several ranks ---- */

/* Returns the shard that this rank has of a tensor. */
static struct shard own_shard(const struct call *call, uint64_t elements)
{
    const struct reduction *reduction = call->operators->reduction;
    const struct ranks *ranks = reduction ? reduction_ranks(reduction) : NULL;
    return shard_of(elements, ranks ? ranks->count : 1, ranks ? ranks->rank : 0);
}

/* A gradient that is summed: this rank's shard of the sum or, if `whole`, all of it. */
struct summed {
    const struct operation_tensor *tensor;
    const void *sum;
    bool whole;
};

static void take_blocks(const struct call *call, const struct summed *summed, double *blocks)
{
    uint64_t elements = summed->tensor->elements, block = shard_block(elements);
    struct shard part = summed->whole ? (struct shard){0, elements} : own_shard(call, elements);
    call->kernels->block_squares(call->context, stored_gradients(call), part.count, block,
                                 part.count ? part.first / block : 0, summed->sum, blocks);
}

/* Takes the norms of the sums that need one. All are whole, or none is. */
static void take_norms(const struct call *call, const struct summed *summed, uint32_t count)
{
    struct reduction *reduction = call->operators->reduction;
    uint64_t elements[REDUCTION_TENSORS];
    double *norms[REDUCTION_TENSORS];
    uint32_t taken = 0;
    for (uint32_t i = 0; i < count; i++)
        if (summed[i].tensor->norm) {
            take_blocks(call, &summed[i], reduction_blocks(reduction, taken));
            elements[taken] = summed[i].tensor->elements;
            norms[taken++] = summed[i].tensor->norm;
        }
    if (taken && !summed->whole)
        reduction_gather_blocks(reduction, elements, taken);
    for (uint32_t i = 0; i < taken; i++)
        call->kernels->total_squares(call->context, reduction_blocks(reduction, i), norms[i]);
}

static struct reduction_sum sum_of(const struct call *call, int i)
{
    const struct operation_tensor *tensor = &call->operation->tensor[i];
    const void *of_classifier = i == 0 ? in(call, 0) : NULL, *own = gradient(call, i);
    bool narrow = stored_gradients(call) == MODEL_BF16;
    return (struct reduction_sum){
        .elements = tensor->elements,
        .gradients = {of_classifier ? of_classifier : own, of_classifier ? own : NULL},
        .accumulate = call->op->accumulate,
        .rows = call->op->rows && !of_classifier,
        .narrow = narrow,
        .sum = at(call, tensor->address[narrow ? TRACE_PARAM : TRACE_GRAD]),
    };
}

void operator_reduce(const struct call *call)
{
    struct reduction *reduction = call->operators->reduction;
    struct ranks *ranks = reduction_ranks(reduction);
    struct reduction_sum sums[MODEL_TENSORS] = {0};
    struct summed summed[MODEL_TENSORS] = {0};
    uint32_t count = 0;
    for (int i = 0; i < MODEL_TENSORS; i++)
        if (call->op->t[i] != NO_INDEX) {
            sums[count] = sum_of(call, i);
            summed[count] = (struct summed){&call->operation->tensor[i], sums[count].sum, false};
            count++;
        }
    ranks_begin(ranks, call->operation->turn);
    reduction_add(reduction, sums, count);
    take_norms(call, summed, count);
    ranks_end(ranks);
}

/* Sums the shards in their places and, if every rank updates everything, gives all ranks the sums.
 */
static void reduce_in_place(const struct call *call, const struct operation_tensor *tensors,
                            uint32_t count)
{
    struct reduction *reduction = call->operators->reduction;
    bool narrow = stored_gradients(call) == MODEL_BF16;
    bool whole = model_updates_whole(call->operation->job);
    uint32_t element = narrow ? 2 : 4;
    struct reduction_sum sums[REDUCTION_TENSORS] = {0};
    struct shard_whole wholes[REDUCTION_TENSORS] = {0};
    struct summed summed[REDUCTION_TENSORS] = {0};
    for (uint32_t i = 0; i < count; i++) {
        uint64_t elements = tensors[i].elements;
        uint8_t *gradient = at(call, tensors[i].gradient);
        uint8_t *own = gradient + own_shard(call, elements).first * element;
        sums[i] = (struct reduction_sum){
            .elements = elements, .gradients = {gradient, NULL}, .narrow = narrow, .sum = own};
        wholes[i] = (struct shard_whole){elements, gradient};
        summed[i] = (struct summed){&tensors[i], whole ? gradient : own, whole};
    }
    reduction_add(reduction, sums, count);
    if (whole)
        shards_gather(reduction_ranks(reduction), wholes, count, element);
    take_norms(call, summed, count);
}

void operator_reduce_bucket(const struct call *call)
{
    struct ranks *ranks = reduction_ranks(call->operators->reduction);
    uint32_t count = call->op->bucket_count;
    ranks_begin(ranks, call->operation->turn);
    for (uint32_t i = 0; i < count; i += REDUCTION_TENSORS)
        reduce_in_place(call, &call->operation->bucket[i], MIN(count - i, REDUCTION_TENSORS));
    ranks_end(ranks);
}

/* ---- updates ---- */

static void round_all(enum model_precision precision, uint64_t count, const float *from, void *to)
{
    uint16_t *halves = to;
    if (precision == MODEL_FP32)
        memcpy(to, from, count * sizeof *from);
    for (uint64_t i = 0; precision == MODEL_BF16 && i < count; i++)
        halves[i] = bf16_round(from[i]);
}

void operator_newest(const struct call *call)
{
    const struct operation_tensor *tensor = &call->operation->tensor[0];
    struct reduction *reduction = call->operators->reduction;
    struct shard shard = own_shard(call, tensor->elements);
    uint8_t *newest = out(call, 0);
    const struct shard_whole whole = {tensor->elements, newest};
    round_all(call->precision, shard.count, at(call, tensor->address[TRACE_MASTER]),
              newest + shard.first * element_bytes(call));
    if (!reduction)
        return;
    ranks_begin(reduction_ranks(reduction), call->operation->turn);
    shards_gather(reduction_ranks(reduction), &whole, 1, element_bytes(call));
    ranks_end(reduction_ranks(reduction));
}

void operator_update(const struct call *call)
{
    const struct operation_tensor *tensor = &call->operation->tensor[0];
    const struct model_job *job = call->operation->job;
    bool whole = model_updates_whole(job), summed = model_sums(job) == MODEL_SUMS_BUCKETS;
    struct shard shard = whole ? (struct shard){0, tensor->elements}
                               : own_shard(call, tensor->elements);
    uint64_t first = model_shares_parameters(job) ? 0 : shard.first;
    float *list = at(call, tensor->address[TRACE_GRAD]);
    bool split = job->choices.split_masters;
    void *master = at(call, tensor->address[TRACE_MASTER]);
    struct adamw_tensor adamw = {
        .elements = shard.count,
        .param = (uint8_t *)parameter(call, 0) + first * element_bytes(call),
        .gradient = list && summed ? list + first : list,
        .gradient_bf16 = call->layout == MODEL_GRADIENT_BUFFER ? gradient(call, 0) : NULL,
        .master = split ? NULL : master,
        .rest = split ? master : NULL,
        .exp_avg = at(call, tensor->address[TRACE_EXP_AVG]),
        .exp_avg_sq = at(call, tensor->address[TRACE_EXP_AVG_SQ]),
        .lags = job->delay,
    };
    if (job->delay && job->precision == MODEL_FP32) {
        adamw.delayed = adamw.param;
        adamw.param = master;
        adamw.master = NULL;
    }
    call->kernels->adamw(call->context, &call->operation->adamw, call->operation->gradient_scale,
                         &adamw);
    if (call->operation->newest[0] != NO_ADDRESS && shard.count < tensor->elements)
        memcpy(parameter(call, 0), at(call, call->operation->newest[0]),
               tensor->elements * element_bytes(call));
}
