#include "models/derive.h"

#include "models/synth.h"
#include "traces/choices.h"

#include <math.h>
#include <string.h>

/* ---- durations ---- */

static char *key_of(const char *verb, const char *rest, uint32_t micro_batch)
{
    return g_strdup_printf("%u %s%s", micro_batch, verb, rest);
}

/* Indexes the trace's operators by name and micro-batch. */
static GHashTable *index_operators(const struct trace *trace)
{
    GHashTable *index = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);

    for (uint32_t m = 0; m < trace->operator_count; m++) {
        struct trace_operator *op = &trace->operators[m];
        g_hash_table_insert(index, key_of("", op->name, op->micro_batch), op);
    }
    return index;
}

/* An operator whose name begins with `verb` repeats the work of the one that begins with `twin`. */
static const struct {
    const char *verb, *twin;
} twins[] = {{"", ""},
             {"backward again ", "backward "},
             {"recompute again ", "recompute "},
             {"recompute again ", "forward "},
             {"recompute ", "forward "},
             {"weight backward ", "backward "}};

/* Returns the trace's operator that does the same work in a micro-batch, or NULL. */
static const struct trace_operator *find_twin_in(GHashTable *index, const struct trace_operator *op,
                                                 uint32_t micro_batch)
{
    for (size_t i = 0; i < G_N_ELEMENTS(twins); i++) {
        if (!g_str_has_prefix(op->name, twins[i].verb))
            continue;
        g_autofree char *key = key_of(twins[i].twin, op->name + strlen(twins[i].verb), micro_batch);
        const struct trace_operator *twin = g_hash_table_lookup(index, key);
        if (twin)
            return twin;
    }
    return NULL;
}

/* Returns the trace's operator that does the same work, or NULL. */
static const struct trace_operator *find_twin(GHashTable *index, const struct trace_operator *op)
{
    return find_twin_in(index, op, op->micro_batch);
}

/* Adds up the trace's updates of the blocks of a tensor. Returns the first of them, or NULL if
 * there are none. */
static const struct trace_operator *sum_blocks(GHashTable *index, const char *tensor,
                                               struct trace_operator *sum)
{
    const struct trace_operator *first = NULL;
    sum->duration_ns = sum->bytes = 0;
    for (uint32_t block = 0;; block++) {
        g_autofree char *name = g_strdup_printf("%s[%u]", tensor, block);
        g_autofree char *key = key_of("update ", name, 0);
        const struct trace_operator *update = g_hash_table_lookup(index, key);
        if (!update)
            return first;
        if (!first)
            first = update;
        sum->duration_ns += update->duration_ns;
        sum->bytes += update->bytes;
    }
}

/* Returns the first of the trace's updates of a tensor, and in *whole_ns how long all of them take.
 */
static const struct trace_operator *find_updates(GHashTable *index, const char *tensor,
                                                 uint64_t *whole_ns)
{
    g_autofree char *key = key_of("update ", tensor, 0);
    const struct trace_operator *whole = g_hash_table_lookup(index, key);
    struct trace_operator sum;
    const struct trace_operator *first = whole ? whole : sum_blocks(index, tensor, &sum);
    *whole_ns = whole ? whole->duration_ns : sum.duration_ns;
    return first;
}

/* Returns the tensor that the operator updates if only one of the traces cuts it, or both cut it
 * otherwise. Else returns NO_INDEX. */
static tensor_id recut_tensor(const struct trace *derived, const struct trace_operator *op,
                              const struct trace *trace)
{
    if (op->phase != TRACE_UPDATE_PHASE || !op->access_count ||
        derived->state_block == trace->state_block)
        return NO_INDEX;
    tensor_id tensor = derived->accesses[op->first_access].tensor;
    return trace_is_cut(derived, tensor) || trace_is_cut(trace, tensor) ? tensor : NO_INDEX;
}

static bool is_operator_synthesised(const struct recognised *recognised, const struct trace *trace,
                                    const struct trace_operator *op,
                                    const struct platform *platform)
{
    uint32_t m = (uint32_t)(op - trace->operators);
    return op->duration_ns == model_operator_ns(recognised->iteration, m, platform);
}

/* The update of a block takes its elements' share of the time of the tensor's whole update. */
static void take_share(GHashTable *index, const struct recognised *recognised,
                       const struct trace *trace, const struct model_iteration *iteration,
                       uint32_t m, tensor_id tensor, const struct platform *platform)
{
    const struct trace *derived = iteration->trace;
    struct trace_operator *op = &derived->operators[m];
    uint64_t whole_ns, elements = trace_block_elements(derived, TRACE_EXP_AVG, tensor,
                                                       iteration->operators[m].block);
    const struct trace_operator *first = find_updates(index, trace->tensors[tensor].name,
                                                      &whole_ns);
    g_assert(first);
    double share = (double)elements / (double)trace->tensors[tensor].elements;
    if (!first->duration_ns)
        op->duration_ns = 0;
    else if (platform && is_operator_synthesised(recognised, trace, first, platform))
        op->duration_ns = model_operator_ns(iteration, m, platform);
    else
        op->duration_ns = trace_duration_ns((double)whole_ns * 1e-9 * share,
                                            derived->operator_count);
}

/* Takes the duration of the trace's operator that does the same work. Returns false if it is the
 * same operator, on the same side, with the same bytes. */
static bool take_duration(GHashTable *index, const struct recognised *recognised,
                          const struct trace *trace, const struct model_iteration *iteration,
                          uint32_t m, const struct platform *platform)
{
    struct trace_operator *op = &iteration->trace->operators[m];
    tensor_id recut = recut_tensor(iteration->trace, op, trace);
    if (recut != NO_INDEX) {
        take_share(index, recognised, trace, iteration, m, recut, platform);
        return true;
    }
    const struct trace_operator *twin = find_twin(index, op);
    g_assert(twin);
    bool same = g_str_equal(twin->name, op->name), moved = same && twin->place != op->place;
    bool other_bytes = twin->bytes != op->bytes;
    bool anew = platform && twin->duration_ns &&
                (moved || is_operator_synthesised(recognised, trace, twin, platform));

    op->duration_ns = anew ? model_operator_ns(iteration, m, platform) : twin->duration_ns;
    return !same || moved || other_bytes;
}

static void describe_alike(struct trace *derived, const struct trace *trace)
{
    g_free(derived->machine);
    derived->machine = g_strdup(trace->machine);
    derived->producer = g_strdup(trace->producer);
    derived->library_bytes = trace->library_bytes;
    derived->partial = trace->partial;
}

void model_choose_backward(struct run_choices *choices, const struct run_choices *traced,
                           bool second_backward)
{
    choices->second_backward = second_backward;
    choices->split_masters = second_backward || (traced->split_masters && !traced->second_backward);
}

/* Returns whether a run of the traced one's kind can make these choices. */
static bool is_possible(const struct recognised *recognised, const struct run_choices *choices)
{
    const struct run_choices *traced = &recognised->iteration->job.choices;
    struct run_choices masters = *traced;
    model_choose_backward(&masters, traced, choices->second_backward);
    return choices->layer_count == recognised->config->layers &&
           choices->split_masters == masters.split_masters && choices->batch > 0 &&
           (recognised->iteration->job.ranks > 1 || (!choices->stage && !choices->fast)) &&
           (uint64_t)choices->batch * choices->micro_batches ==
               (uint64_t)traced->batch * traced->micro_batches;
}

/* Describes the job with the durations of the trace, which has the same number of micro-batches. */
static struct trace *describe_anew(const struct recognised *recognised, const struct trace *trace,
                                   const struct model_job *job, const struct platform *platform)
{
    struct model_iteration *iteration = model_iteration_new(recognised->config, job, NULL);
    if (!iteration)
        return NULL;
    g_autoptr(GHashTable) index = index_operators(trace);
    bool borrowed = false;
    for (uint32_t m = 0; m < iteration->trace->operator_count; m++)
        borrowed |= take_duration(index, recognised, trace, iteration, m, platform);
    struct trace *derived = g_steal_pointer(&iteration->trace);
    model_iteration_free(iteration);
    derived->estimated = trace->estimated || borrowed;
    return derived;
}

/* Returns the part of the twin's time that an operator takes. Where backward is split, each half
 * takes its operations' share. */
static uint64_t share_of_twin_ns(const struct model_iteration *iteration,
                                 const struct trace_operator *op, const struct trace_operator *twin)
{
    if (!iteration->job.split || op->phase != TRACE_BACKWARD || op->flops >= twin->flops)
        return twin->duration_ns;
    return (uint64_t)llround((double)twin->duration_ns * (double)op->flops / (double)twin->flops);
}

/* Takes the duration of the trace's operator that does the same work, if there is one. A
 * micro-batch beyond the traced ones takes as long as the last of these. Returns false if it is the
 * trace's own. */
static bool take_duration_of_rank(GHashTable *index, const struct trace *trace,
                                  const struct model_iteration *iteration, uint32_t m,
                                  const struct platform *platform)
{
    struct trace_operator *op = &iteration->trace->operators[m], blocks = {0};
    uint32_t last = trace->micro_batches / MAX(trace->ranks, 1) - 1;
    const struct trace_operator *twin = find_twin(index, op);
    bool beyond = op->micro_batch > last;
    if (beyond)
        twin = find_twin_in(index, op, last);
    if (!twin && g_str_has_prefix(op->name, "update ") &&
        sum_blocks(index, op->name + strlen("update "), &blocks))
        twin = &blocks;
    op->duration_ns = twin       ? share_of_twin_ns(iteration, op, twin)
                      : platform ? model_operator_ns(iteration, m, platform)
                                 : 0;
    if (!twin || op->phase != TRACE_UPDATE_PHASE || op->bytes == twin->bytes || !twin->bytes)
        return !twin || beyond;
    op->duration_ns = trace_duration_ns((double)twin->duration_ns * 1e-9 * (double)op->bytes /
                                            (double)twin->bytes,
                                        iteration->trace->operator_count);
    return true;
}

static void take_durations_of_rank(const struct trace *trace, struct model_iteration *iteration,
                                   const struct platform *platform)
{
    g_autoptr(GHashTable) index = index_operators(trace);
    bool borrowed = false;
    for (uint32_t m = 0; m < iteration->trace->operator_count; m++)
        borrowed |= take_duration_of_rank(index, trace, iteration, m, platform);
    iteration->trace->estimated = trace->estimated || borrowed;
}

static bool is_computed_for(const struct trace *trace, const struct platform *platform)
{
    return trace->estimated && platform && !g_strcmp0(trace->machine, platform->name);
}

struct model_iteration *model_derive_iteration(const struct recognised *recognised,
                                               const struct trace *trace,
                                               const struct model_job *job,
                                               const struct platform *platform, GError **error)
{
    struct model_iteration *iteration = model_iteration_new(recognised->config, job, error);
    if (!iteration)
        return NULL;
    if (is_computed_for(trace, platform))
        model_estimate(iteration, platform);
    else
        take_durations_of_rank(trace, iteration, platform);
    describe_alike(iteration->trace, trace);
    return iteration;
}

struct trace *model_derive_job(const struct recognised *recognised, const struct trace *trace,
                               const struct model_job *job, const struct platform *platform,
                               GError **error)
{
    struct model_iteration *iteration = model_derive_iteration(recognised, trace, job, platform,
                                                               error);
    struct trace *derived = iteration ? g_steal_pointer(&iteration->trace) : NULL;
    model_iteration_free(iteration);
    return derived;
}

/* ---- any choices ---- */

/* Returns whether the choices have reductions that the traced run lacks. */
static bool sums_otherwise(const struct recognised *recognised, const struct run_choices *choices)
{
    const struct run_choices *traced = &recognised->iteration->job.choices;
    return choices->fast != traced->fast || (choices->fast && choices->stage != traced->stage);
}

struct trace *model_derive(const struct recognised *recognised, const struct trace *trace,
                           const struct run_choices *choices, const struct platform *platform,
                           GError **error)
{
    struct model_job job = recognised->iteration->job;
    struct trace *derived = NULL;
    job.choices = *choices;
    job.choices.host_update = recognised->iteration->job.choices.host_update;
    job.choices.first_update = recognised->iteration->job.choices.first_update;
    job.choices.update_after = recognised->iteration->job.choices.update_after;
    job.choices.frozen = recognised->iteration->job.choices.frozen;
    if (is_possible(recognised, choices)) {
        if (sums_otherwise(recognised, choices))
            derived = model_derive_job(recognised, trace, &job, platform, NULL);
        else if (choices->batch == trace->batch)
            derived = describe_anew(recognised, trace, &job, platform);
        else if (platform && model_is_synthesised(recognised, trace, platform))
            derived = model_synthesise(recognised->config, &job, platform, NULL);
    }
    if (derived && !derived->producer)
        describe_alike(derived, trace);
    if (!derived)
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                    "micro-batches of %u with the embedding on the %s%s cannot be derived from a "
                    "trace whose batch is %u",
                    choices->batch, choices->host_embedding ? "host" : "device",
                    choices->second_backward ? " and two backwards"
                    : choices->state_block   ? " and state blocks"
                                             : "",
                    trace->batch);
    return derived;
}

struct trace *model_derive_ranks(const struct recognised *recognised, const struct trace *trace,
                                 uint32_t ranks, struct run_stage together,
                                 const struct platform *platform, GError **error)
{
    struct model_job job = recognised->iteration->job;
    job.choices.micro_batches = model_rank_micro_batches(&job) * ranks;
    job.ranks = ranks;
    job.choices.state_block = ranks > 1 ? 0 : job.choices.state_block;
    job.choices.stage = ranks > 1 ? together.stage : 0;
    job.choices.fast = ranks > 1 && together.fast;
    return model_derive_job(recognised, trace, &job, platform, error);
}

/* Where gradients are shards in a list, fast sums are exact ones (enum model_sums). */
static bool is_same_stage(const struct trace *trace, struct run_stage together)
{
    struct run_stage traced = run_stage_of(trace);
    bool over_param = !g_strcmp0(trace->precision, "bf16") &&
                      trace->micro_batches == trace->ranks &&
                      trace->list_element_bytes[TRACE_MASTER] != 2;
    return traced.stage == together.stage &&
           (traced.fast == together.fast || (together.stage >= 2 && !over_param));
}

static bool may_leave_reductions_out(const struct trace *trace)
{
    bool may = trace->whole_states;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        may &= !trace_operator_reduces(&trace->operators[m]) || !trace->operators[m].access_count;
    return may;
}

/* Returns what one of several ranks with everything does, without what it exchanges, as an import
 * has it: its reductions access nothing. */
static struct trace *leave_reductions_out(const struct trace *trace)
{
    struct trace *alone = trace_copy(trace);
    g_autofree moment_id *moved = g_new(moment_id, trace->operator_count);
    uint32_t count = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        moved[m] = count;
        if (trace_operator_reduces(&alone->operators[m]))
            g_free(alone->operators[m].name);
        else
            alone->operators[count++] = alone->operators[m];
    }
    for (uint32_t i = 0; i < alone->buffer_count; i++) {
        alone->buffers[i].first = moved[alone->buffers[i].first];
        alone->buffers[i].last = moved[alone->buffers[i].last];
    }
    for (uint32_t i = 0; i < trace->use_count; i++)
        alone->uses[i].moment = moved[alone->uses[i].moment];
    alone->operator_count = count;
    alone->micro_batches /= alone->ranks;
    alone->ranks = 0;
    alone->whole_gradients = alone->whole_states = false;
    trace_sum_buffers(alone);
    return alone;
}

struct trace *model_trace_of_rank(const struct trace *trace, uint32_t ranks,
                                  struct run_stage together, const struct platform *platform,
                                  GError **error)
{
    bool several = trace->ranks > 1;
    bool same = ranks == MAX(trace->ranks, 1) && (!several || is_same_stage(trace, together));
    if (same && !(several && is_computed_for(trace, platform)))
        return trace_copy(trace);
    if (ranks == 1 && may_leave_reductions_out(trace))
        return leave_reductions_out(trace);
    struct recognised *recognised = recognise(trace, same ? NULL : error);
    struct trace *derived = recognised ? model_derive_ranks(recognised, trace, ranks, together,
                                                            platform, same ? NULL : error)
                                       : NULL;
    recognised_free(recognised);
    return derived || !same ? derived : trace_copy(trace);
}

bool model_is_synthesised(const struct recognised *recognised, const struct trace *trace,
                          const struct platform *platform)
{
    struct trace *again = model_synthesise(recognised->config, &recognised->iteration->job,
                                           platform, NULL);
    bool same = true;
    for (uint32_t m = 0; same && m < trace->operator_count; m++)
        same = trace->operators[m].duration_ns == again->operators[m].duration_ns;
    trace_free(again);
    return same;
}
