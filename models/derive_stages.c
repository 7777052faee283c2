#include "models/derive.h"

/* ---- reductions ---- */

/* A trace of one rank that becomes one of several, whose gradients are reduced in buckets. */
struct stage_builder {
    const struct trace *alone;
    uint32_t ranks, stage;
    uint64_t bucket_bytes;  /* the least bytes of a bucket that is not the last */
    enum trace_list list;   /* where gradients lie */
    uint8_t *completes;     /* [access_count] the access completes a gradient */
    uint32_t last;          /* moment of the last operator that does */
    GArray *operators;      /* struct trace_operator, of the result */
    GArray *accesses;       /* struct trace_access, of the result */
    moment_id *moved;       /* [operator_count] where the operators of `alone` are */
    GArray *bucket;         /* tensor_id, whose gradients are not reduced yet */
    uint64_t waiting_bytes; /* of the bucket */
    uint32_t buckets;       /* that are complete */
};

/* Finds the last operator of forward and backward that writes each gradient. */
static void find_completed(struct stage_builder *b)
{
    g_autofree uint8_t *seen = g_new0(uint8_t, b->alone->tensor_count);
    for (uint32_t m = b->alone->operator_count; m-- > 0;) {
        const struct trace_operator *op = &b->alone->operators[m];
        for (uint32_t i = 0; op->phase == TRACE_BACKWARD && i < op->access_count; i++) {
            const struct trace_access *access = &b->alone->accesses[op->first_access + i];
            if (access->list != b->list || access->mode == TRACE_READ || seen[access->tensor])
                continue;
            seen[access->tensor] = b->completes[op->first_access + i] = 1;
            b->last = MAX(b->last, m);
        }
    }
}

/* Returns what a rank sends and receives when each gets the parts of all others, or their values
 * for its own part. */
static struct trace_exchange exchange_of(const struct stage_builder *b, uint64_t bytes)
{
    uint64_t others = bytes / b->ranks * (b->ranks - 1) +
                      bytes % b->ranks * (b->ranks - 1) / b->ranks;
    return (struct trace_exchange){others, others};
}

/* Ranks that update everything get all sums. */
static void add_reduction(struct stage_builder *b, const struct trace_operator *behind)
{
    struct trace_operator op = {.name = g_strdup_printf("reduce bucket %u", b->buckets++),
                                .phase = TRACE_BACKWARD,
                                .place = TRACE_ON_DEVICE,
                                .layer = behind->layer,
                                .micro_batch = behind->micro_batch,
                                .first_access = b->accesses->len,
                                .access_count = b->bucket->len,
                                .bytes = 2 * b->waiting_bytes};
    op.exchange[TRACE_REDUCE] = exchange_of(b, b->waiting_bytes);
    if (b->stage == 0)
        op.exchange[TRACE_GATHER] = op.exchange[TRACE_REDUCE];
    for (guint i = 0; i < b->bucket->len; i++) {
        const struct trace_access access = {g_array_index(b->bucket, tensor_id, i),
                                            (uint8_t)b->list, TRACE_UPDATE, 0};
        g_array_append_val(b->accesses, access);
    }
    g_array_append_val(b->operators, op);
    g_array_set_size(b->bucket, 0);
    b->waiting_bytes = 0;
}

/* Appends the operator, and what it completes to the bucket, which is reduced when it is full. */
static void add_operator(struct stage_builder *b, moment_id moment)
{
    struct trace_operator op = b->alone->operators[moment];
    const struct trace_access *accesses = b->alone->accesses + op.first_access;
    const uint8_t *completes = b->completes + op.first_access;
    b->moved[moment] = b->operators->len;
    op.name = g_strdup(op.name);
    op.first_access = b->accesses->len;
    g_array_append_vals(b->accesses, accesses, op.access_count);
    g_array_append_val(b->operators, op);
    for (uint32_t i = 0; i < op.access_count; i++) {
        if (!completes[i])
            continue;
        g_array_append_val(b->bucket, accesses[i].tensor);
        b->waiting_bytes += trace_list_bytes(b->alone, b->list, accesses[i].tensor);
    }
    if (b->waiting_bytes && (b->waiting_bytes >= b->bucket_bytes || moment == b->last))
        add_reduction(b, &op);
}

static void move_buffers(struct trace *trace, const moment_id *moved)
{
    for (uint32_t i = 0; i < trace->buffer_count; i++) {
        trace->buffers[i].first = moved[trace->buffers[i].first];
        trace->buffers[i].last = moved[trace->buffers[i].last];
    }
    trace_sum_buffers(trace);
}

/* Replaces the trace's operators and accesses. */
static void take_operators(struct trace *trace, struct stage_builder *b)
{
    for (uint32_t m = 0; m < trace->operator_count; m++)
        g_free(trace->operators[m].name);
    g_free(trace->operators);
    g_free(trace->accesses);
    trace->operator_count = b->operators->len;
    trace->access_count = b->accesses->len;
    trace->operators = (void *)g_array_free(b->operators, FALSE);
    trace->accesses = (void *)g_array_free(b->accesses, FALSE);
    move_buffers(trace, b->moved);
}

static void reduce_in_buckets(struct trace *trace, uint32_t ranks, uint32_t stage)
{
    bool over_param = !trace->list_element_bytes[TRACE_GRAD];
    enum trace_list list = over_param ? TRACE_PARAM : TRACE_GRAD;
    g_autofree uint8_t *completes = g_new0(uint8_t, trace->access_count);
    g_autofree moment_id *moved = g_new(moment_id, trace->operator_count);
    struct trace *alone = trace_copy(trace);
    struct stage_builder b = {.alone = alone,
                              .ranks = ranks,
                              .stage = stage,
                              .list = list,
                              .bucket_bytes = stage == 0 ? MODEL_DDP_BUCKET_BYTES
                                                         : (uint64_t)MODEL_ZERO_BUCKET_ELEMENTS *
                                                               trace->list_element_bytes[list],
                              .completes = completes,
                              .moved = moved,
                              .operators = g_array_new(FALSE, FALSE, sizeof(struct trace_operator)),
                              .accesses = g_array_new(FALSE, FALSE, sizeof(struct trace_access)),
                              .bucket = g_array_new(FALSE, FALSE, sizeof(tensor_id))};
    find_completed(&b);
    for (moment_id m = 0; m < alone->operator_count; m++)
        add_operator(&b, m);
    take_operators(trace, &b);
    g_array_unref(b.bucket);
    trace_free(alone);
}

/* ---- updates ---- */

/* Takes an update's work from the trace in which a rank updates its shard, and lets it send the
 * parameter to all. */
static void take_update(struct trace_operator *op, const struct trace_operator *of_shard,
                        const struct trace_exchange *parameter)
{
    op->flops = of_shard->flops;
    op->bytes = of_shard->bytes;
    op->duration_ns = of_shard->duration_ns;
    op->exchange[TRACE_GATHER] = *parameter;
}

static void share_updates(struct trace *trace, const struct trace *of_shards, uint32_t ranks)
{
    const struct stage_builder b = {.ranks = ranks};
    g_autoptr(GHashTable) index = g_hash_table_new(g_str_hash, g_str_equal);
    for (uint32_t m = 0; m < of_shards->operator_count; m++)
        g_hash_table_insert(index, of_shards->operators[m].name, &of_shards->operators[m]);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        struct trace_operator *op = &trace->operators[m];
        if (op->phase != TRACE_UPDATE_PHASE)
            continue;
        tensor_id tensor = trace->accesses[op->first_access].tensor;
        const struct trace_exchange parameter = exchange_of(
            &b, trace->tensors[tensor].elements * trace->list_element_bytes[TRACE_PARAM]);
        take_update(op, g_hash_table_lookup(index, op->name), &parameter);
    }
}

/* ---- stages ---- */

/* Returns whether gradients of ranks can lie over the parameters, as those of one rank do. */
static bool is_over_param(const struct model_job *job)
{
    struct model_job alone = *job;
    alone.choices.micro_batches = model_rank_micro_batches(job);
    alone.ranks = 1;
    alone.choices.stage = 0;
    alone.narrow_gradients = false;
    return model_gradient_layout(&alone) == MODEL_GRADIENT_OVER_PARAM;
}

/* Describes what each rank does by itself, and adds what it exchanges. `of_shards` is the trace of
 * ranks that share gradients and states. */
static struct trace *derive_whole(const struct recognised *recognised, const struct trace *trace,
                                  const struct trace *of_shards, uint32_t stage,
                                  const struct platform *platform, GError **error)
{
    struct model_job job = recognised->iteration->job;
    uint32_t ranks = of_shards->ranks;
    job.choices.micro_batches = model_rank_micro_batches(&job);
    job.ranks = 1;
    job.choices.state_block = 0; /* ranks have shards instead */
    job.choices.stage = 0;
    job.narrow_gradients = false;
    if (model_gradient_layout(&job) == MODEL_GRADIENT_BUFFER) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                    "stage %u keeps gradients, and a run with 12 bytes per parameter keeps none",
                    stage);
        return NULL;
    }
    struct trace *derived = model_derive_job(recognised, trace, &job, platform, error);
    if (!derived)
        return NULL;
    reduce_in_buckets(derived, ranks, stage);
    derived->ranks = ranks;
    derived->micro_batches *= ranks;
    derived->whole_states = stage == 0;
    derived->whole_gradients = stage < 2;
    if (stage > 0)
        share_updates(derived, of_shards, ranks);
    return derived;
}

struct trace *model_derive_stage(const struct recognised *recognised, const struct trace *trace,
                                 uint32_t ranks, uint32_t stage, const struct platform *platform,
                                 GError **error)
{
    struct model_job job = recognised->iteration->job;
    bool over_param = is_over_param(&job);
    job.choices.micro_batches = model_rank_micro_batches(&job) * ranks;
    job.ranks = ranks;
    job.choices.state_block = 0;
    job.choices.stage = stage == 3 ? 3 : 2;
    job.narrow_gradients = stage == 3 && over_param;
    struct trace *of_shards = model_derive_job(recognised, trace, &job, platform, error);
    if (!of_shards || stage == 3 || (stage == 2 && !over_param))
        return of_shards;
    struct trace *derived = derive_whole(recognised, trace, of_shards, stage, platform, error);
    trace_free(of_shards);
    return derived;
}
