#include "models/pipeline.h"

#include <string.h>

/* ---- schedules ---- */

static const char *const names[PIPELINE_SCHEDULES] = {"1f1b", "gpipe"};

const char *pipeline_schedule_name(enum pipeline_schedule schedule)
{
    return names[schedule];
}

bool pipeline_schedule_parse(const char *name, enum pipeline_schedule *schedule)
{
    for (int i = 0; i < PIPELINE_SCHEDULES; i++)
        if (strcmp(names[i], name) == 0) {
            *schedule = (enum pipeline_schedule)i;
            return true;
        }
    return false;
}

struct pipeline_pass *pipeline_passes(enum pipeline_schedule schedule, uint32_t stages,
                                      uint32_t stage, uint32_t micro_batches)
{
    struct pipeline_pass *passes = g_new(struct pipeline_pass, 2 * (size_t)micro_batches);
    uint32_t ahead = schedule == PIPELINE_GPIPE ? micro_batches
                                                : MIN(stages - stage, micro_batches);
    uint32_t forward = 0, backward = 0;
    for (uint32_t i = 0; i < 2 * micro_batches; i++) {
        bool goes_forward = forward < micro_batches && forward - backward < ahead;
        passes[i] = goes_forward ? (struct pipeline_pass){forward++, false}
                                 : (struct pipeline_pass){backward++, true};
    }
    return passes;
}

uint32_t pipeline_first_layer(uint32_t layers, uint32_t stages, uint32_t stage)
{
    return (uint32_t)((uint64_t)stage * layers / stages);
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

bool pipeline_check(const struct model_config *config, const struct model_job *job, uint32_t stages,
                    GError **error)
{
    if (stages > config->layers)
        return refuse(error, "%u stages: the model has only %u layers", stages, config->layers);
    if (model_rank_micro_batches(job) < stages)
        return refuse(error,
                      "%u stages: a step needs as many micro-batches at least on each rank of a "
                      "stage, and has %u",
                      stages, model_rank_micro_batches(job));
    if (model_gradient_layout(job) != MODEL_GRADIENT_LIST || run_updates_early(&job->choices))
        return refuse(error, "stages: updates must come at the end of the step");
    return true;
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
    g_free(cut);
}
