#include "models/iteration.h"

#include "models/decoder.h"
#include "models/operator_cost.h"
#include "models/pipeline.h"
#include "models/rank_traffic.h"

#include <string.h>

const char *model_kind_name(enum model_kind kind)
{
    static const char *const names[MODEL_KINDS] = {
        [MODEL_EMBED_FORWARD] = "embedding forward",
        [MODEL_NORM_FORWARD] = "norm forward",
        [MODEL_LINEAR_FORWARD] = "linear forward",
        [MODEL_GELU_FORWARD] = "linear and GELU forward",
        [MODEL_RESIDUAL_FORWARD] = "linear and residual forward",
        [MODEL_ATTENTION_FORWARD] = "attention forward",
        [MODEL_GATED_FORWARD] = "linear and gate forward",
        [MODEL_GROUPED_FORWARD] = "grouped attention forward",
        [MODEL_ADAPTER_FORWARD] = "adapter forward",
        [MODEL_ROUTE_FORWARD] = "router forward",
        [MODEL_DISPATCH_FORWARD] = "dispatch forward",
        [MODEL_COMBINE_FORWARD] = "combination forward",
        [MODEL_CLASSIFIER_FORWARD] = "classifier forward",
        [MODEL_LOSS] = "loss",
        [MODEL_BALANCE_LOSS] = "loss of imbalance",
        [MODEL_CLASSIFIER_BACKWARD] = "classifier backward",
        [MODEL_NORM_BACKWARD] = "norm backward",
        [MODEL_LINEAR_BACKWARD] = "linear backward",
        [MODEL_GELU_BACKWARD] = "linear and GELU backward",
        [MODEL_RESIDUAL_BACKWARD] = "linear and residual backward",
        [MODEL_ATTENTION_BACKWARD] = "attention backward",
        [MODEL_GATED_BACKWARD] = "linear and gate backward",
        [MODEL_GROUPED_BACKWARD] = "grouped attention backward",
        [MODEL_ADAPTER_BACKWARD] = "adapter backward",
        [MODEL_COMBINE_BACKWARD] = "combination backward",
        [MODEL_DISPATCH_BACKWARD] = "dispatch backward",
        [MODEL_ROUTE_BACKWARD] = "router backward",
        [MODEL_EMBED_BACKWARD] = "embedding backward",
        [MODEL_WEIGHT_BACKWARD] = "weight backward",
        [MODEL_REDUCE] = "reduction",
        [MODEL_SEND] = "send",
        [MODEL_RECEIVE] = "receive",
        [MODEL_ADD] = "addition of gradients",
        [MODEL_NEWEST] = "newest parameter",
        [MODEL_UPDATE] = "update",
    };
    return names[kind];
}

enum model_sums model_sums(const struct model_job *job)
{
    const struct run_choices *choices = &job->choices;
    bool over_param = job->precision == MODEL_BF16 && model_rank_micro_batches(job) == 1 &&
                      !choices->split_masters;
    if (job->ranks <= 1 || !choices->fast || (choices->stage >= 2 && !over_param))
        return MODEL_SUMS_IN_ORDER;
    return choices->stage == 3 ? MODEL_SUMS_NARROW : MODEL_SUMS_BUCKETS;
}

enum model_gradient model_gradient_layout(const struct model_job *job)
{
    uint32_t summed = model_sums(job) == MODEL_SUMS_IN_ORDER ? job->choices.micro_batches
                                                             : model_rank_micro_batches(job);
    if (job->precision != MODEL_BF16 || summed > 1)
        return MODEL_GRADIENT_LIST;
    return job->choices.split_masters ? MODEL_GRADIENT_BUFFER : MODEL_GRADIENT_OVER_PARAM;
}

uint32_t model_bytes_per_parameter(const struct model_job *job)
{
    uint64_t bytes = 0;
    for (int list = TRACE_PARAM; list <= TRACE_EXP_AVG_SQ; list++)
        bytes += operator_list_bytes(job, list);
    return (uint32_t)bytes;
}

uint32_t model_tensor_count(const struct model_config *config)
{
    return model_layout_of(config).count;
}

uint8_t *model_every_tensor(const struct model_config *config)
{
    uint32_t count = model_tensor_count(config);
    uint8_t *every = g_malloc(count);
    memset(every, 1, count);
    return every;
}

static bool job_refused(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);

static bool job_refused(GError **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *why = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error_literal(error, MODEL_ERROR, MODEL_ERROR_CONFIG, why);
    g_free(why);
    return false;
}

bool model_split_masters(const struct model_job *job, uint32_t bytes_per_parameter, bool *split,
                         GError **error)
{
    struct model_job whole = *job, halves = *job;
    whole.choices.split_masters = false;
    halves.choices.split_masters = job->precision == MODEL_BF16;
    uint32_t most = model_bytes_per_parameter(&whole), least = model_bytes_per_parameter(&halves);
    *split = bytes_per_parameter != most;
    if (bytes_per_parameter == most || bytes_per_parameter == least)
        return true;
    if (most == least)
        return job_refused(error, "bytes per parameter is %u; in fp32 it must be %u",
                           bytes_per_parameter, most);
    return job_refused(error, "bytes per parameter is %u; in bf16 with %s it must be %u or %u",
                       bytes_per_parameter,
                       job->choices.micro_batches > 1 ? "several micro-batches" : "one micro-batch",
                       least, most);
}

bool model_state_block(const struct model_config *config, const char *text, uint64_t *elements,
                       GError **error)
{
    const uint64_t parts = 64, least = 1 << 20, step = TRACE_BLOCK_STEP;
    uint64_t part = (model_config_parameters(config) + parts - 1) / parts;
    *elements = 0;
    if (text && strcmp(text, "auto") == 0)
        *elements = MAX(least, (part + step - 1) / step * step);
    else if (text && !g_ascii_string_to_unsigned(text, 10, 0, INT64_MAX, elements, NULL))
        return job_refused(error, "--state-block %s: must be auto, or a number of elements", text);
    return true;
}

bool model_is_cut(const struct model_config *config, const uint8_t *frozen, uint64_t state_block)
{
    struct model_layout layout = model_layout_of(config);
    for (uint32_t t = 0; t < layout.count; t++) {
        struct model_tensor tensor;
        g_free(model_tensor_describe(config, &layout, t, &tensor));
        bool trained = !frozen || !frozen[t];
        if (trained && trace_blocks_of(tensor.shape[0] * tensor.shape[1], state_block) > 1)
            return true;
    }
    return false;
}

/* Counts are kept in 64 bits and moments in 32: refuse what would not fit. The step's largest
 * figure is its operations: 6 a token and parameter, 12 a pair of tokens and column; three times
 * that leaves room for the rest. A layer has at most 13 operators in each of forward and two
 * recomputations and backwards, and two for each expert.
 */
static bool counts_fit(const struct model_config *config, const struct model_job *job)
{
    double rows = (double)job->choices.batch * job->sequence;
    double parameters = (double)model_config_parameters(config);
    double pairs = rows * job->sequence * model_config_queries(config) * config->layers;
    double classifier = rows * config->width * (double)model_config_classes(config);
    double step = 6 * rows * parameters + 6 * classifier + 12 * pairs;
    double micro_batches = model_rank_micro_batches(job);
    double blocks = job->choices.state_block ? parameters / (double)job->choices.state_block : 0;
    double operators = (65.0 + 10.0 * config->experts) * config->layers + 8;
    operators = operators * micro_batches + blocks;
    return rows * MAX(config->experts_per_token, 1) <= INT32_MAX && operators < 0x1p24 &&
           3 * step * micro_batches < 0x1p63;
}

/* No tensor has as many elements as the model. */
static bool blocks_fit(const struct model_config *config, const struct model_job *job)
{
    return !job->choices.state_block ||
           model_config_parameters(config) / job->choices.state_block < TRACE_MOST_BLOCKS;
}

bool model_freezes(const struct model_config *config, const struct model_job *job)
{
    const uint8_t *frozen = job->choices.frozen;
    return frozen && memchr(frozen, 1, model_tensor_count(config));
}

static bool job_check(const struct model_config *config, const struct model_job *job,
                      GError **error)
{
    if (job->choices.batch < 1 || job->sequence < 1 || job->choices.micro_batches < 1)
        return job_refused(error,
                           "batch %u, sequence %u, micro-batches %u: each must be at least 1",
                           job->choices.batch, job->sequence, job->choices.micro_batches);
    if (job->sequence > config->positions)
        return job_refused(error, "sequence %u is longer than the model's %u positions",
                           job->sequence, config->positions);
    if (job->choices.split_masters && job->precision != MODEL_BF16)
        return job_refused(
            error,
            "masters can be split into halves only in bf16: fp32 parameters have no masters");
    if (job->choices.split_masters && job->delay)
        return job_refused(error, "a delay needs whole masters: a parameter that is half of its "
                                  "master cannot be a step older");
    if (job->choices.host_embedding && model_gradient_layout(job) == MODEL_GRADIENT_BUFFER)
        return job_refused(error, "the embedding cannot run on the host with 12 bytes per "
                                  "parameter: gradients are then buffers on the device");
    if (job->choices.second_backward && model_gradient_layout(job) != MODEL_GRADIENT_BUFFER)
        return job_refused(error, "a second backward is only possible with 12 bytes per parameter, "
                                  "where gradients are buffers");
    if (run_updates_early(&job->choices) && model_gradient_layout(job) == MODEL_GRADIENT_BUFFER)
        return job_refused(error,
                           "updates cannot be chosen to follow other gradients with 12 bytes "
                           "per parameter: each follows its own");
    if (job->choices.state_block % TRACE_BLOCK_STEP)
        return job_refused(
            error, "state blocks of %" G_GUINT64_FORMAT " elements: must be a multiple of %d",
            job->choices.state_block, TRACE_BLOCK_STEP);
    if (job->choices.state_block && job->ranks > 1)
        return job_refused(error,
                           "state blocks of %" G_GUINT64_FORMAT
                           " elements: several ranks have shards of optimizer states, which are "
                           "not cut into blocks",
                           job->choices.state_block);
    if (!blocks_fit(config, job))
        return job_refused(error,
                           "state blocks of %" G_GUINT64_FORMAT
                           " elements: a tensor would have more than %d",
                           job->choices.state_block, TRACE_MOST_BLOCKS);
    if (job->choices.micro_batches % model_ranks(job))
        return job_refused(error, "micro-batches %u: must be a multiple of the number of ranks, %u",
                           job->choices.micro_batches, job->ranks);
    if (job->choices.host_embedding && job->ranks > 1)
        return job_refused(error, "the embedding cannot run on the host with several ranks: their "
                                  "gradients are exchanged from the device");
    if (model_sums(job) == MODEL_SUMS_BUCKETS &&
        model_gradient_layout(job) == MODEL_GRADIENT_BUFFER)
        return job_refused(error,
                           "stage %u keeps gradients, and a run with 12 bytes per parameter keeps "
                           "none",
                           job->choices.stage);
    if (job->choices.frozen && !memchr(job->choices.frozen, 0, model_tensor_count(config)))
        return job_refused(error, "every tensor is frozen, so nothing would be trained");
    if (!counts_fit(config, job))
        return job_refused(error, "batch %u, sequence %u, micro-batches %u: the step is too large",
                           job->choices.batch, job->sequence, job->choices.micro_batches);
    return true;
}

static struct trace *trace_of_job(const struct model_config *config, const struct model_job *job)
{
    struct trace *trace = g_new0(struct trace, 1);
    trace->model = g_strdup(config->name);
    trace->precision = g_strdup(job->precision == MODEL_BF16 ? "bf16" : "fp32");
    trace->batch = job->choices.batch;
    trace->sequence = job->sequence;
    trace->micro_batches = job->choices.micro_batches;
    trace->ranks = job->ranks;
    trace->shared_parameters = model_shares_parameters(job);
    trace->whole_states = job->ranks > 1 && model_updates_whole(job);
    trace->whole_gradients = model_sums(job) == MODEL_SUMS_BUCKETS && job->choices.stage < 2;
    for (int list = 0; list < TRACE_LISTS; list++)
        trace->list_element_bytes[list] = (uint8_t)operator_list_bytes(job, list);
    return trace;
}

static bool cuts_tensor(const struct trace *trace)
{
    bool cut = false;
    for (tensor_id t = 0; t < trace->tensor_count; t++)
        cut |= trace_is_cut(trace, t);
    return cut;
}

/* Checks that each tensor is updated after its gradient is complete. */
static bool check_updates(const struct iteration_builder *builder, GError **error)
{
    for (tensor_id t = 0; t < builder->tensors->len; t++)
        if (builder->progress[t] != BUILDER_UPDATED && !iteration_builder_freezes(builder, t))
            return job_refused(error, "tensor %u would be updated before its gradient is complete",
                               t);
    return true;
}

/* Returns the number of moments of the first forward pass. */
static uint32_t walk(struct iteration_builder *builder)
{
    const struct model_job *job = builder->job;
    struct decoder_layer *layers = g_new0(struct decoder_layer, builder->config->layers);
    uint32_t forward_end = 0;
    decoder_tensors(builder);
    for (uint32_t micro_batch = 0; micro_batch < model_rank_micro_batches(job); micro_batch++) {
        struct decoder_activations activations = {.micro_batch = micro_batch, .layers = layers};
        decoder_forward(builder, &activations);
        if (micro_batch == 0)
            forward_end = builder->operators->len;
        decoder_backward(builder, &activations);
    }
    if (builder->gradient != MODEL_GRADIENT_BUFFER)
        decoder_update(builder);
    g_free(layers);
    return forward_end;
}

/* Frozen tensors have no updates. */
static void forget_frozen(struct run_choices *choices)
{
    for (tensor_id t = 0; t < choices->tensor_count; t++) {
        if (!choices->frozen[t])
            continue;
        choices->host_update[t] = 0;
        choices->update_after[t] = NO_INDEX;
    }
}

/* Of the lists, frozen tensors are only in those of parameters. */
static void leave_out_frozen(const struct run_choices *choices, struct trace *trace)
{
    for (tensor_id t = 0; t < trace->tensor_count; t++)
        for (int list = TRACE_GRAD; choices->frozen[t] && list <= TRACE_EXP_AVG_SQ; list++)
            if (trace->list_element_bytes[list])
                trace->tensors[t].absent |= (uint8_t)(1 << list);
}

struct model_iteration *model_iteration_new(const struct model_config *config,
                                            const struct model_job *job, GError **error)
{
    if (!job_check(config, job, error))
        return NULL;
    struct model_iteration *iteration = g_new0(struct model_iteration, 1);
    iteration->config = config;
    iteration->job = *job;
    iteration->job.choices.fast = model_sums(job) != MODEL_SUMS_IN_ORDER;
    iteration->job.choices.layer_count = config->layers;
    iteration->job.choices.tensor_count = model_tensor_count(config);
    iteration->choices = run_choices_copy(&iteration->job.choices);
    forget_frozen(iteration->choices);
    iteration->job.choices = *iteration->choices;
    iteration->trace = trace_of_job(config, job);

    struct iteration_builder builder;
    iteration_builder_init(&builder, config, &iteration->job);
    iteration->forward_end = walk(&builder);
    bool ok = check_updates(&builder, error);
    iteration->operators = iteration_builder_finish(&builder, iteration->trace);
    iteration->buckets = g_ptr_array_ref(builder.buckets);
    leave_out_frozen(iteration->choices, iteration->trace);
    iteration->trace->state_block = job->choices.state_block;
    if (!cuts_tensor(iteration->trace))
        iteration->trace->state_block = 0;
    iteration_builder_clear(&builder);
    trace_sum_buffers(iteration->trace);
    rank_traffic_set(iteration, 0);
    if (!ok)
        g_clear_pointer(&iteration, model_iteration_free);
    return iteration;
}

void model_iteration_free(struct model_iteration *iteration)
{
    if (!iteration)
        return;
    run_choices_free(iteration->choices);
    g_free(iteration->operators);
    trace_free(iteration->trace);
    g_clear_pointer(&iteration->buckets, g_ptr_array_unref);
    pipeline_cut_free(iteration->cut);
    g_free(iteration);
}
