#include "models/pipeline.h"

#include "models/family.h"

#include <string.h>

/* ---- schedules ---- */

static const char *const names[PIPELINE_SCHEDULES] = {"1f1b", "gpipe", "2bw", "interleaved",
                                                      "zb-h1"};

const char *pipeline_schedule_name(enum pipeline_schedule schedule)
{
    return names[schedule];
}

uint32_t pipeline_ahead(enum pipeline_schedule schedule, uint32_t stages, uint32_t stage)
{
    return schedule == PIPELINE_2BW ? stages - 1 - stage : 0;
}

/* Forward and backward in turn. The forward passes run ahead by as many as stages follow. */
static struct pipeline_pass *endless_passes(uint32_t ahead, uint32_t micro_batches)
{
    struct pipeline_pass *passes = g_new(struct pipeline_pass, 2 * (size_t)micro_batches);
    for (uint32_t i = 0; i < micro_batches; i++) {
        bool next = i + ahead >= micro_batches;
        passes[2 * i] = (struct pipeline_pass){.micro_batch = (i + ahead) % micro_batches,
                                               .next = next};
        passes[2 * i + 1] = (struct pipeline_pass){.micro_batch = i, .backward = true};
    }
    return passes;
}

struct pipeline_pass *pipeline_passes(enum pipeline_schedule schedule, uint32_t stages,
                                      uint32_t stage, uint32_t micro_batches)
{
    if (schedule == PIPELINE_2BW)
        return endless_passes(pipeline_ahead(schedule, stages, stage), micro_batches);
    struct pipeline_pass *passes = g_new(struct pipeline_pass, 2 * (size_t)micro_batches);
    uint32_t ahead = schedule == PIPELINE_GPIPE ? micro_batches
                                                : MIN(stages - stage, micro_batches);
    uint32_t forward = 0, backward = 0;
    for (uint32_t i = 0; i < 2 * micro_batches; i++) {
        bool goes_forward = forward < micro_batches && forward - backward < ahead;
        passes[i] = (struct pipeline_pass){.micro_batch = goes_forward ? forward++ : backward++,
                                           .backward = !goes_forward};
    }
    return passes;
}

/* Returns a stage's pass of a direction. Micro-batches go through the parts in groups of as many as
 * there are stages, backward from the last part on. */
static struct pipeline_pass interleaved_pass(const struct pipeline_shape *shape, uint32_t index,
                                             bool backward)
{
    uint32_t round = shape->stages * shape->parts, part = index % round / shape->stages;
    return (struct pipeline_pass){.micro_batch = index / round * shape->stages +
                                                 index % shape->stages,
                                  .backward = backward,
                                  .part = backward ? shape->parts - 1 - part : part};
}

static struct pipeline_pass *interleaved_passes(const struct pipeline_shape *shape, uint32_t stage,
                                                uint32_t count)
{
    struct pipeline_pass *passes = g_new(struct pipeline_pass, count);
    uint32_t each = count / 2, done[2] = {0, 0};
    uint32_t ahead = 2 * (shape->stages - stage - 1) + (shape->parts - 1) * shape->stages + 1;
    for (uint32_t i = 0; i < count; i++) {
        bool backward = done[false] == each || done[false] - done[true] >= ahead;
        passes[i] = interleaved_pass(shape, done[backward]++, backward);
    }
    return passes;
}

/* The order of 1F1B, behind each of whose backward passes come gradients of weights: those of the
 * micro-batch so many before as stages precede. What is left of them comes last. So each stage
 * keeps something of as many micro-batches as there are stages. */
static struct pipeline_pass *split_passes(uint32_t stages, uint32_t stage, uint32_t micro_batches)
{
    g_autofree struct pipeline_pass *whole = pipeline_passes(PIPELINE_1F1B, stages, stage,
                                                             micro_batches);
    struct pipeline_pass *passes = g_new(struct pipeline_pass, 3 * (size_t)micro_batches);
    uint32_t count = 0, weights = 0;
    for (uint32_t i = 0; i < 2 * micro_batches; i++) {
        passes[count++] = whole[i];
        if (whole[i].backward && whole[i].micro_batch >= stage)
            passes[count++] =
                (struct pipeline_pass){.micro_batch = weights++, .backward = true, .weights = true};
    }
    while (weights < micro_batches)
        passes[count++] =
            (struct pipeline_pass){.micro_batch = weights++, .backward = true, .weights = true};
    return passes;
}

uint32_t pipeline_usual_parts(enum pipeline_schedule schedule)
{
    return schedule == PIPELINE_INTERLEAVED ? 2 : 1;
}

struct pipeline_pass *pipeline_stage_passes(const struct pipeline_shape *shape, uint32_t stage,
                                            uint32_t micro_batches, uint32_t *count)
{
    *count = (pipeline_splits(shape->schedule) ? 3 : 2) * micro_batches * shape->parts;
    if (pipeline_splits(shape->schedule))
        return split_passes(shape->stages, stage, micro_batches);
    return shape->schedule == PIPELINE_INTERLEAVED
               ? interleaved_passes(shape, stage, *count)
               : pipeline_passes(shape->schedule, shape->stages, stage, micro_batches);
}

uint32_t pipeline_first_layer(const struct pipeline_shape *shape, uint32_t layers, uint32_t piece)
{
    uint32_t first = 0;
    if (!shape->layers)
        return (uint32_t)((uint64_t)piece * layers / (shape->stages * shape->parts));
    for (uint32_t s = 0; s < piece; s++)
        first += shape->layers[s];
    return first;
}

/* ---- what can be cut ---- */

static bool refuse(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);

static bool refuse(GError **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *why = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error_literal(error, MODEL_ERROR, MODEL_ERROR_CONFIG, why);
    return false;
}

/* Forward passes of the next step read the newest weights, which come from masters that are not cut
 * into blocks. */
static bool check_endless(const struct model_job *job, GError **error)
{
    bool offloads = false;
    for (uint32_t l = 0; job->choices.offload && l < job->choices.layer_count; l++)
        offloads |= job->choices.offload[l];
    if (!job->delay)
        return refuse(error, "schedule 2bw: updates must be delayed, with --delay 1");
    if (job->precision == MODEL_BF16 && job->choices.host_embedding)
        return refuse(error, "schedule 2bw: in bf16 the embedding runs on the device, so far");
    if (job->choices.state_block)
        return refuse(error, "schedule 2bw: masters are read by forward and cannot be cut into "
                             "blocks");
    return !offloads || refuse(error, "schedule 2bw: activations stay on the device, so far");
}

uint32_t *pipeline_parse_layers(const char *text, uint32_t *stages, GError **error)
{
    g_auto(GStrv) words = g_strsplit(text, ",", -1);
    *stages = g_strv_length(words);
    uint32_t *layers = g_new(uint32_t, MAX(*stages, 1));
    bool ok = *stages > 0;
    for (uint32_t s = 0; ok && s < *stages; s++) {
        guint64 number = 0;
        ok = g_ascii_string_to_unsigned(words[s], 10, 1, UINT32_MAX, &number, NULL);
        layers[s] = (uint32_t)number;
    }
    if (ok)
        return layers;
    g_free(layers);
    refuse(error, "'%s' must be the layers of each stage, such as 3,4,5", text);
    return NULL;
}

static bool check_layers(const struct model_config *config, const struct pipeline_shape *shape,
                         GError **error)
{
    uint64_t sum = 0;
    for (uint32_t s = 0; shape->layers && s < shape->stages; s++)
        sum += shape->layers[s];
    return !shape->layers || sum == config->layers ||
           refuse(error,
                  "the stages have %" G_GUINT64_FORMAT " layers together, and the model has %u",
                  sum, config->layers);
}

static bool check_parts(const struct model_config *config, const struct model_job *job,
                        const struct pipeline_shape *shape, GError **error)
{
    uint32_t micro_batches = model_rank_micro_batches(job), stages = shape->stages;
    if (shape->schedule != PIPELINE_INTERLEAVED)
        return shape->parts == 1 ||
               refuse(error, "%u parts of a stage: only schedule interleaved has several",
                      shape->parts);
    if (shape->layers)
        return refuse(error, "schedule interleaved: all parts have as many layers, or one more, "
                             "so far");
    if (shape->parts > config->layers / stages)
        return refuse(error, "%u stages of %u parts: the model has only %u layers", stages,
                      shape->parts, config->layers);
    return micro_batches % stages == 0 ||
           refuse(error,
                  "schedule interleaved: the micro-batches on each rank, %u, must be a multiple of "
                  "the number of stages, %u",
                  micro_batches, stages);
}

/* Returns whether a tensor of a piece is trained. */
static bool trains_piece(const struct model_config *config, const uint8_t *frozen,
                         const struct pipeline_shape *shape, uint32_t piece)
{
    const struct model_layout layout = model_layout_of(config);
    bool last = piece + 1 == shape->stages * shape->parts;
    uint32_t from = pipeline_first_layer(shape, config->layers, piece);
    uint32_t to = pipeline_first_layer(shape, config->layers, piece + 1);
    tensor_id first = piece == 0 ? 0 : layout.first_layer + from * layout.layer_tensors;
    tensor_id end = last ? layout.count : layout.first_layer + to * layout.layer_tensors;
    return memchr(frozen + first, 0, end - first) != NULL;
}

/* Backward ends at the lowest tensor that is trained, and schedules count on backward in every
 * piece. Stages share losses and norms before their first update, so each has one. */
static bool check_trained(const struct model_config *config, const struct model_job *job,
                          const struct pipeline_shape *shape, GError **error)
{
    const uint8_t *frozen = job->choices.frozen;
    if (!model_freezes(config, job))
        return true;
    if (!trains_piece(config, frozen, shape, 0))
        return refuse(error,
                      "nothing would be trained in the first %u layers, where "
                      "backward ends, so far; adapters (lora:RANK) are in all layers",
                      pipeline_first_layer(shape, config->layers, 1));
    for (uint32_t stage = 1; stage < shape->stages; stage++) {
        bool trains = false;
        for (uint32_t part = 0; part < shape->parts; part++)
            trains |= trains_piece(config, frozen, shape, part * shape->stages + stage);
        if (!trains)
            return refuse(error,
                          "nothing would be trained in stage %u, so far; adapters "
                          "(lora:RANK) are in all layers",
                          stage);
    }
    return true;
}

bool pipeline_check_model(const struct model_config *config, GError **error)
{
    return config->balance == 0 ||
           refuse(error, "a loss of the experts' imbalance sums over the routers of all layers, "
                         "which stages do not exchange; set output_router_logits to false");
}

bool pipeline_check(const struct model_config *config, const struct model_job *job,
                    const struct pipeline_shape *shape, GError **error)
{
    uint32_t stages = shape->stages;
    if (stages > config->layers)
        return refuse(error, "%u stages: the model has only %u layers", stages, config->layers);
    if (model_rank_micro_batches(job) < stages)
        return refuse(
            error,
            "%u stages: a step needs as many micro-batches on each rank of a stage, and has "
            "%u; --micro-batches %u would do",
            stages, model_rank_micro_batches(job), stages * model_ranks(job));
    if (model_gradient_layout(job) != MODEL_GRADIENT_LIST || run_updates_early(&job->choices))
        return refuse(error, "updates must come at the end of the step of a pipeline");
    if (pipeline_splits(shape->schedule) && !job->split)
        return refuse(error, "schedule zb-h1: backward must be split");
    if (job->split && job->choices.fast)
        return refuse(error, "schedule zb-h1: ranks sum in order, so far; --reduction exact would "
                             "do");
    if (stages > 1 && !pipeline_check_model(config, error))
        return false;
    return check_layers(config, shape, error) && check_parts(config, job, shape, error) &&
           check_trained(config, job, shape, error) &&
           (shape->schedule != PIPELINE_2BW || check_endless(job, error));
}

/* ---- what is kept until backward ---- */

/* Micro-batches in flight follow each other, across the steps' borders. A slot is used again after
 * all of these, so each round through the slots has at least ahead + 1 of them; slots of the longer
 * rounds lie idle in the others. */
uint32_t pipeline_slot(const struct pipeline_cut *cut, uint32_t micro_batch)
{
    uint32_t micro_batches = model_rank_micro_batches(&cut->whole->job);
    uint32_t rounds = micro_batches / (cut->ahead + 1), least = micro_batches / rounds;
    uint32_t longer = micro_batches % rounds, in_longer = longer * (least + 1);
    return micro_batch < in_longer ? micro_batch % (least + 1) : (micro_batch - in_longer) % least;
}

uint32_t pipeline_kept_buffer(const struct pipeline_cut *cut, uint32_t buffer, uint32_t of,
                              uint32_t other)
{
    const uint32_t *from = cut->kept_here + (size_t)pipeline_slot(cut, of) * cut->kept;
    const uint32_t *to = cut->kept_here + (size_t)pipeline_slot(cut, other) * cut->kept;
    for (uint32_t k = 0; k < cut->kept; k++)
        if (from[k] == buffer)
            return to[k];
    return buffer;
}

/* ---- the whole ---- */

uint32_t pipeline_shared_numbers(const struct model_iteration *whole)
{
    return whole->job.choices.micro_batches + 1 + whole->trace->tensor_count;
}

const struct model_iteration *pipeline_whole(const struct model_iteration *iteration)
{
    return iteration->cut ? iteration->cut->whole : iteration;
}

tensor_id pipeline_tensor_in_whole(const struct model_iteration *iteration, tensor_id tensor)
{
    return iteration->cut ? iteration->cut->in_whole[tensor] : tensor;
}

void pipeline_cut_free(struct pipeline_cut *cut)
{
    if (!cut)
        return;
    g_free(cut->stage_of);
    g_free(cut->here);
    g_free(cut->in_whole);
    g_free(cut->kept_here);
    g_free(cut);
}
